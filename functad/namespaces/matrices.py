"""Products, decompositions and transforms of NumPy by the functions of the array API."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from functad.namespaces.arranging import diagonal, moveaxis, size_of
from functad.namespaces.array import FUNCTIONS, computes
from functad.namespaces.library import Library


def _pair(lib: Library, a: Any, b: Any) -> tuple[Any, Any]:
    given = [v if hasattr(v, "dtype") else np.asarray(v) for v in (a, b)]
    dtype = np.result_type(*[v.dtype for v in given])
    return lib.array(given[0], dtype), lib.array(given[1], dtype)


# Products


@computes(np.dot)
def _dot(lib: Library, a: Any, b: Any, out: None = None) -> Any:
    x, y = _pair(lib, a, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if x.ndim <= 2 and y.ndim <= 2:
        return lib.xp.matmul(x, y)
    return lib.xp.tensordot(x, y, axes=((-1 % x.ndim,), (max(0, y.ndim - 2),)))


@computes(np.inner)
def _inner(lib: Library, a: Any, b: Any) -> Any:
    x, y = _pair(lib, a, b)
    return x * y if x.ndim == 0 or y.ndim == 0 else lib.xp.tensordot(x, y, axes=((x.ndim - 1,), (y.ndim - 1,)))


@computes(np.outer)
def _outer(lib: Library, a: Any, b: Any, out: None = None) -> Any:
    x, y = _pair(lib, a, b)
    return lib.xp.reshape(x, (-1, 1)) * lib.xp.reshape(y, (1, -1))


@computes(np.vdot)
def _vdot(lib: Library, a: Any, b: Any) -> Any:
    x, y = [lib.xp.reshape(v, (-1,)) for v in _pair(lib, a, b)]
    return lib.xp.vecdot(x, y)


@computes(np.tensordot)
def _tensordot(lib: Library, a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _pair(lib, a, b)
    if not isinstance(axes, int):
        axes = tuple([(part,) if isinstance(part, int) else tuple(part) for part in axes])
    return lib.xp.tensordot(x, y, axes=axes)


@computes(np.cross)
def _cross(lib: Library, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    x, y = _pair(lib, a, b)
    first, second, last = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    out = lib.xp.linalg.cross(moveaxis(lib, x, first, -1), moveaxis(lib, y, second, -1))
    return moveaxis(lib, out, -1, last)


@computes(np.einsum)
def _einsum(lib: Library, subscripts: str, *operands: Any, optimize: Any = False, **kwargs: Any) -> Any:
    """Multiply two operands at a time, by one product of matrices each."""
    dtype = np.result_type(*[v.dtype for v in operands])
    inputs, wanted = _spelled_out(subscripts, [v.ndim for v in operands])
    terms = [_taken_diagonal(lib, lib.array(v, dtype), letters) for v, letters in zip(operands, inputs, strict=True)]
    while len(terms) > 1:
        (x, a), (y, b), *rest = terms
        kept = "".join([wanted, *[letters for _, letters in rest]])
        terms = [_contracted(lib, x, a, y, b, kept), *rest]
    x, letters = _summed(lib, *terms[0], wanted)
    return lib.xp.permute_dims(x, tuple([letters.index(letter) for letter in wanted]))


def _spelled_out(subscripts: str, ndims: list[int]) -> tuple[list[str], str]:
    """Return subscripts with a letter for each axis, those that an ellipsis stands for and those of the result included."""
    left, arrow, wanted = subscripts.replace(" ", "").partition("->")
    spare = [letter for letter in ascii_letters if letter not in subscripts]
    dots = 0
    inputs = []
    for letters, ndim in zip(left.split(","), ndims, strict=True):
        count = ndim - len(letters.replace("...", ""))
        dots = max(dots, count if "..." in letters else 0)
        inputs.append(letters.replace("...", "".join(spare[:count][::-1])))
    front = "".join(spare[:dots][::-1])
    if arrow:
        return inputs, wanted.replace("...", front)
    once = [letter for letter in sorted({*left} - {",", "."}) if left.count(letter) == 1]
    return inputs, front + "".join(once)


def _taken_diagonal(lib: Library, x: Any, letters: str) -> tuple[Any, str]:
    """Return an operand in which no letter stands twice."""
    for letter in set(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = diagonal(lib, x, 0, first, second)
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    return x, letters


def _summed(lib: Library, x: Any, letters: str, kept: str) -> tuple[Any, str]:
    """Return an operand without the axes that nothing else has."""
    gone = tuple([i for i, letter in enumerate(letters) if letter not in kept])
    return (lib.xp.sum(x, axis=gone), "".join([v for v in letters if v in kept])) if gone else (x, letters)


def _contracted(lib: Library, x: Any, a: str, y: Any, b: str, kept: str) -> tuple[Any, str]:
    """Return the product of two operands, summed over what is not kept."""
    x, a = _summed(lib, x, a, b + kept)
    y, b = _summed(lib, y, b, a + kept)
    both = [v for v in a if v in b and v in kept]
    inner = [v for v in a if v in b and v not in kept]
    rows, columns = [v for v in a if v not in b], [v for v in b if v not in a]
    lengths = dict(zip(a, x.shape, strict=True)) | {v: n for v, n in zip(b, y.shape, strict=True) if n != 1 or v not in a}

    def matrices(z: Any, own: str, first: list[str], second: list[str]) -> Any:
        z = lib.xp.permute_dims(z, tuple([own.index(v) for v in [*both, *first, *second]]))
        z = lib.xp.broadcast_to(z, tuple([lengths[v] for v in [*both, *first, *second]]))
        return lib.xp.reshape(z, tuple([size_of(tuple([lengths[v] for v in part])) for part in (both, first, second)]))

    out = lib.xp.matmul(matrices(x, a, rows, inner), matrices(y, b, inner, columns))
    made = [*both, *rows, *columns]
    return lib.xp.reshape(out, tuple([lengths[v] for v in made])), "".join(made)


@computes(np.convolve)
def _convolve(lib: Library, a: Any, v: Any, mode: str = "full") -> Any:
    x, y = _pair(lib, a, v)
    n, m = x.shape[0], y.shape[0]
    if m > n:
        x, y, n, m = y, x, m, n
    places = np.arange(n + m - 1)[:, None] - np.arange(m)
    places = np.where((places >= 0) & (places < n), places, n)
    padded = lib.xp.concat([x, lib.xp.zeros_like(x[:1])])
    rows = lib.xp.reshape(lib.xp.take(padded, lib.array(places.reshape(-1)), axis=0), places.shape)
    full = lib.xp.matmul(rows, y)
    first = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    return full[first : first + {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]]


# Decompositions


def _inexact(lib: Library, a: Any) -> Any:
    x = lib.array(a)
    return x if lib.known(x.dtype).kind in "fc" else lib.array(x, np.dtype(np.float64))  # type: ignore[union-attr]


@computes(np.linalg.svd)
def _svd(lib: Library, a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _inexact(lib, a)
    return lib.xp.linalg.svd(x, full_matrices=full_matrices) if compute_uv else lib.xp.linalg.svdvals(x)


@computes(np.linalg.eigh)
def _eigh(lib: Library, a: Any, UPLO: str = "L") -> Any:
    return lib.xp.linalg.eigh(_full(lib, a, UPLO))


@computes(np.linalg.eigvalsh)
def _eigvalsh(lib: Library, a: Any, UPLO: str = "L") -> Any:
    return lib.xp.linalg.eigvalsh(_full(lib, a, UPLO))


def _full(lib: Library, a: Any, half: str) -> Any:
    """Return a symmetric matrix of one half of it: which one a library reads, the standard does not say."""
    xp, x = lib.xp, _inexact(lib, a)
    own = xp.tril(x) if half == "L" else xp.triu(x)
    strict = xp.tril(x, k=-1) if half == "L" else xp.triu(x, k=1)
    turned = xp.matrix_transpose(strict)
    return own + (xp.conj(turned) if lib.known(x.dtype).kind == "c" else turned)  # type: ignore[union-attr]


@computes(np.linalg.cholesky)
def _cholesky(lib: Library, a: Any, *, upper: bool = False) -> Any:
    return lib.xp.linalg.cholesky(_full(lib, a, "U" if upper else "L"), upper=upper)


@computes(np.linalg.qr)
def _qr(lib: Library, a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete"):
        raise NotImplementedError(f"mode={mode!r}")
    return lib.xp.linalg.qr(_inexact(lib, a), mode=mode)


@computes(np.linalg.solve)
def _solve(lib: Library, a: Any, b: Any) -> Any:
    x, y = _pair(lib, a, b)
    return lib.xp.linalg.solve(_inexact(lib, x), _inexact(lib, y))


@computes(np.linalg.pinv)
def _pinv(lib: Library, a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    cut = rtol if rcond is None else rcond
    return lib.xp.linalg.pinv(_inexact(lib, a), **({} if cut is None else {"rtol": lib.array(cut)}))


@computes(np.linalg.norm)
def _norm(lib: Library, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    own = _inexact(lib, x)
    if ord is None:
        return lib.xp.linalg.vector_norm(own, axis=axis, keepdims=keepdims)
    axes = tuple(range(own.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        return lib.xp.linalg.vector_norm(own, axis=axes[0], keepdims=keepdims, ord=ord)
    if axes != (own.ndim - 2, own.ndim - 1):
        raise NotImplementedError("norms of matrices that lie on other axes than the last two")
    return lib.xp.linalg.matrix_norm(own, keepdims=keepdims, ord=ord)


# Transforms of Fourier


def _fourier(name: str) -> Any:
    real, whole = name in ("rfft", "ihfft", "rfftn"), name in ("irfft", "hfft", "irfftn")

    def compute(lib: Library, a: Any, n: Any = None, axis: Any = -1, norm: str | None = None, out: None = None) -> Any:
        x = _inexact(lib, a)
        if not real and not whole and lib.known(x.dtype).kind != "c":  # type: ignore[union-attr]
            x = lib.array(x, np.result_type(lib.known(x.dtype), np.complex64))
        if whole and lib.known(x.dtype).kind != "c":  # type: ignore[union-attr]
            x = lib.array(x, np.result_type(lib.known(x.dtype), np.complex64))
        return getattr(lib.xp.fft, name)(x, n=n, axis=axis, norm=norm or "backward")

    return compute


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    FUNCTIONS[getattr(np.fft, _name)] = _fourier(_name)
