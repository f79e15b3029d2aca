"""Linear systems: `solve`, inverses, powers and chains of matrices. Determinants and decompositions have their own modules.

The rules follow M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), section 2, extended to stacks of matrices and to complex numbers. Nothing is conjugated: the pairing of a cotangent
and a tangent is `Re(sum(g t))`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.diagonals import _diagonal, _trace
from functad.primitives.batching import example_ndim, on_last_axes, padded, spread_out, stacked
from functad.primitives.elementwise.conversion import laid_out_like
from functad.primitives.entry import Primitive, Samples
from functad.primitives.kinds import composite, constant, general, linear
from functad.primitives.linalg.products import as_array
from functad.primitives.operands import as_operand, refuse_out

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]

_FLOAT64 = np.dtype(np.float64)
_NoValue = np._NoValue


# Shapes, dtypes and samples


def inexact(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that NumPy uses to solve: integers become float64."""
    return np.result_type(*[_FLOAT64 if dtype.kind in "biu" else dtype for dtype in dtypes])


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of absolute values."""
    found: np.dtype[Any] = dtype.type(0).real.dtype
    return found


def matrix(a: Any, name: str, *, square: bool = False) -> Any:
    """Return a stack of matrices as an array or Tensor.

    Raises:
        LinAlgError: `a` has fewer than two axes, or `square` is true and the last two differ in length.
    """
    a = as_operand(a)
    shape = shape_of(a)
    if len(shape) < 2:
        raise np.linalg.LinAlgError(f"np.linalg.{name} takes matrices, with at least two axes; the shape is {shape}")
    if square and shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(f"np.linalg.{name}: the last two axes of a square matrix are equal; the shape is {shape}")
    return a


def same_inexact(a: Any, *others: Any, **params: Any) -> ArraySpec:
    """Shape rule of functions with results of the shape of the first argument."""
    return ArraySpec(spec_of(a).shape, inexact(*[spec_of(x).dtype for x in (a, *others)]))


def regular(array: Any, *shape: int) -> Any:
    """Return well conditioned sample matrices."""
    a = array(*shape, low=-1.0, high=1.0)
    return a + 2 * np.eye(shape[-2], shape[-1], dtype=a.dtype)


def samples_of_shapes(*shapes: tuple[int, ...], make: Callable[..., Any] = regular) -> Samples:
    """Return samples with one argument, matrices of the given shapes."""
    return lambda array: [((make(array, *shape),), {}) for shape in shapes]


def samples_of_systems(*shapes: tuple[tuple[int, ...], tuple[int, ...]], **params: Any) -> Samples:
    """Return samples with two arguments, matrices and right sides of the given shapes, and parameters."""
    return lambda array: [((regular(array, *a), array(*b)), params) for a, b in shapes]


def internal(kind: Callable[..., Primitive], *vjps: Any, **traits: Any) -> Callable[[Callable[..., Any]], Primitive]:
    """Return a decorator that enters a function of stacks of matrices as an internal primitive, computed by the function."""
    return lambda compute: kind(compute, *vjps, internal=True, **{"batch": stacked, **traits})


SQUARES = samples_of_shapes((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2))


def conjugate(a: Any) -> Any:
    """Return the complex conjugate; a real array unchanged."""
    return a.conj() if dtype_of(a).kind == "c" else a


def adjoint(a: Any) -> Any:
    """Return the conjugate transposed matrix."""
    return turned(conjugate(a))


def turned(a: Any) -> Any:
    """Return the transposed matrix; Dask arrays have no `mT`."""
    return a.mT if hasattr(type(a), "mT") else np.swapaxes(a, -1, -2)


def _lower_half(a: Any) -> Any:
    """Return the lower triangle with half the diagonal: `lower_half(s) + adjoint(lower_half(s))` equals a Hermitian `s`."""
    out = np.tril(a)
    if type(out) is not np.ndarray:  # Dask arrays do not support writes at index arrays
        return (out + np.tril(a, -1)) / 2
    places = np.arange(a.shape[-1])
    out[..., places, places] *= 0.5
    return out


lower_half: Primitive = linear(
    _lower_half,
    lambda g: lower_half(g),
    spec=lambda a: spec_of(a),
    samples=lambda array: [((array(3, 3),), {}), ((array(2, 2, 2),), {}), ((array(0, 0),), {})],
    doc="linear, and its own transpose",
    dependence="lower",
    name="lower_half",
    exact=True,
    decomposition=True,
    internal=True,
    batch=stacked,
)


def completed(a: Any) -> Any:
    """Return the Hermitian matrix with the lower triangle of `a`; integers become float64, as in `np.linalg`."""
    half = lower_half(a.astype(np.float64) if a.dtype.kind in "biu" else a)
    return half + adjoint(half)


# Systems and inverses


def _solve_vjp(g: Any, a: Any, out: Any) -> tuple[Any, Any]:
    """`a^-T g` for the right side, by a solve with the transposed matrix, and `-a^-T g out^T` for the matrix."""
    right = SOLVE(turned(a), g)
    return -(right @ turned(out)), right


def _solve_spec(a: Any, b: Any) -> ArraySpec:
    a, b = spec_of(a), spec_of(b)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"solve of {a} and {b}: the matrices and the right sides differ in their number of rows")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return ArraySpec((*batch, *b.shape[-2:]), inexact(a.dtype, b.dtype))


def solve(a: Any, b: Any) -> Any:
    """Return `x` with `a x = b`; `b` is a vector, or a stack of matrices of columns."""
    a, b = matrix(a, "solve", square=True), as_array(b)
    ndim = len(shape_of(b))
    if ndim == 0:
        raise ValueError("np.linalg.solve takes a vector or matrices as b, not a number")
    return SOLVE(a, b) if ndim > 1 else SOLVE(a, b.reshape(-1, 1)).reshape(shape_of(a)[:-1])


SOLVE: Primitive = general(
    np.linalg.solve,
    _solve_vjp,
    jvps=(lambda t, a, out: -SOLVE(a, t @ out), lambda t, a: SOLVE(a, t)),
    joint=True,
    spec=_solve_spec,
    samples=samples_of_systems(
        ((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 2, 2), (2,)), ((2, 1, 2, 2), (3, 2, 1)), ((2, 2), (2, 2, 2)), ((0, 0), (0,))
    ),
    doc="d(a^-1 b) = a^-1 (db - da a^-1 b); the rule solves with a^T",
    broadcasts=True,
    linear_by=lambda params: (1,),
    raises=lambda specs, params: ((0,), "singular"),
    batch=on_last_axes(2, 2),
    front=solve,
    dependence="solve",
    passes_nan=(1,),
    conditioned=True,
)


INV: Primitive = general(
    np.linalg.inv,
    lambda g, out: -(turned(out) @ g @ turned(out)),
    jvps=(lambda t, out: -(out @ t @ out),),
    spec=same_inexact,
    samples=SQUARES,
    doc="d a^-1 = -a^-1 da a^-1",
    raises=lambda specs, params: ((0,), "singular"),
    front=lambda a: INV(matrix(a, "inv", square=True)),
    conditioned=True,
    batch=stacked,
    dependence="matrix",
)


# Triangular systems


_FEW_ROWS = 8
"""Stacks of matrices with up to this many rows are solved by `np.linalg.solve`, in less time than by a call for each matrix."""


def _triangle(a: Any, lower: bool) -> Any:
    return np.tril(a) if lower else np.triu(a)


def _by_lu(a: Any, b: Any, *, lower: bool) -> Any:
    return np.linalg.solve(_triangle(a, lower), b)


def _substituted(a: Any, b: Any, *, lower: bool) -> Any:
    """Solve `a x = b` by BLAS; by `np.linalg.solve` for other arrays and dtypes, and without BLAS."""
    from functad.primitives.linalg.lapack import solver_of  # noqa: PLC0415 - few programs need it

    if not (type(a) is type(b) is np.ndarray) or not b.size or (a.ndim > 2 and a.shape[-1] <= _FEW_ROWS):
        return _by_lu(a, b, lower=lower)
    dtype = inexact(a.dtype, b.dtype)
    solver = solver_of(dtype.char) if a.dtype.isnative and b.dtype.isnative else None
    if solver is None or a.shape[-1] != b.shape[-2]:
        return _by_lu(a, b, lower=lower)
    if not np.diagonal(a, 0, -2, -1).all():
        raise np.linalg.LinAlgError("Singular matrix")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*batch, *b.shape[-2:]), dtype)
    out[...] = b
    if a.ndim > 2:
        a = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    a = a.astype(dtype, copy=False)
    step, n = dtype.itemsize, a.shape[-1]
    rows, columns = a.strides[-2:]
    if not ((columns == step and rows >= n * step) or (rows == step and columns >= n * step)):
        a = np.ascontiguousarray(a)
    solver.solve(a, out if out.ndim == 2 else out.reshape(-1, *out.shape[-2:]), lower)
    return out


def _triangular_vjp(g: Any, a: Any, out: Any, lower: bool) -> tuple[Any, Any]:
    """`a^-T g` for the right side, and the triangle of `-a^-T g out^T` for the matrix."""
    right = TRIANGULAR_SOLVE(turned(a), g, lower=not lower)
    return -_triangle(right @ turned(out), lower), right


TRIANGULAR_SOLVE: Primitive = general(
    _substituted,
    _triangular_vjp,
    jvps=(
        lambda t, a, out, lower: -TRIANGULAR_SOLVE(a, _triangle(t, lower) @ out, lower=lower),
        lambda t, a, lower: TRIANGULAR_SOLVE(a, t, lower=lower),
    ),
    joint=True,
    spec=lambda a, b, lower: _solve_spec(a, b),
    samples=lambda array: [
        ((regular(array, *a), array(*b)), {"lower": lower})
        for a, b, lower in (
            ((3, 3), (3, 2), True), ((3, 3), (3, 1), False), ((2, 2, 2), (2, 1), True), ((2, 1, 9, 9), (3, 9, 1), False),
            ((2, 2), (2, 2, 2), False), ((0, 0), (0, 1), True),
        )
    ],
    doc="d(a^-1 b) = a^-1 (db - da a^-1 b) for triangular a; the other triangle, which is not read, has derivative 0",
    name="triangular_solve",
    internal=True,
    broadcasts=True,
    linear_by=lambda params: (1,),
    raises=lambda specs, params: ((0,), "zero on the diagonal"),
    batch=on_last_axes(2, 2),
    dependence="solve",
    conditioned=True,
    decomposition=_by_lu,
)  # fmt: skip


def solve_by_substitution(a: Any, b: Any, *, lower: bool) -> Any:
    """Return `x` with `a x = b` for triangular `a`, of which one triangle is read; `b` is a vector, or has columns.

    Raises:
        LinAlgError: `a` is not square, or has a zero on its diagonal.
    """
    a, b = matrix(a, "solve", square=True), as_array(b)
    if len(shape_of(b)) > 1:
        return TRIANGULAR_SOLVE(a, b, lower=lower)
    return TRIANGULAR_SOLVE(a, b.reshape(-1, 1), lower=lower).reshape(shape_of(a)[:-1])


@internal(
    constant,
    spec=lambda a, p: ArraySpec((*spec_of(a).shape[:-2], 1, 1), np.dtype(np.int64)),
    samples=lambda array: [((regular(array, 3, 3), regular(array, 3, 3)), {}), ((array(2, 3, 2), array(2, 2, 3)), {})],
    doc="a number of dimensions has no derivative",
    decomposition=True,
)
def rank_of(a: Any, p: Any) -> Any:
    """Return the rank of matrices with the pseudoinverses `p`, of shape `(..., 1, 1)`: the trace of the projection `a p`."""
    return np.rint(np.einsum("...ij,...ji->...", a, p).real).astype(np.int64)[..., None, None]


def _pinv_vjp(g: Any, a: Any, out: Any) -> Any:
    """`-p^T g p^T + conj((1 - a p) g^T p p^H + p^H p g^T (1 - p a))`, where `p` is the result.

    The projections are set to zero at full row rank or full column rank. Otherwise their rounding errors would be multiplied by
    the square of the condition number.
    """
    rank = rank_of(a, out)
    x = (g.mT @ out @ adjoint(out)) * (rank < shape_of(a)[-2])
    y = (adjoint(out) @ out @ g.mT) * (rank < shape_of(a)[-1])
    return conjugate(x - a @ (out @ x) + y - y @ out @ a) - out.mT @ g @ out.mT


def _pinv_jvp(t: Any, a: Any, out: Any) -> Any:
    """`-p t p + p p^H t^H (1 - a p) + (1 - p a) t^H p^H p`, where `p` is the result."""
    rank = rank_of(a, out)
    x = (out @ adjoint(out) @ adjoint(t)) * (rank < shape_of(a)[-2])
    y = (adjoint(t) @ adjoint(out) @ out) * (rank < shape_of(a)[-1])
    return x - x @ a @ out + y - out @ (a @ y) - out @ t @ out


def _pinv_spec(a: Any, rcond: Any) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec((*spec.shape[:-2], spec.shape[-1], spec.shape[-2]), inexact(spec.dtype))


def _pinv_samples(array: Any) -> Calls:
    return [
        ((regular(array, 3, 3),), {}),
        ((regular(array, 2, 3),), {}),
        ((regular(array, 2, 3, 2),), {"rcond": 1e-5}),
        ((regular(array, 2, 2, 2),), {"rtol": np.array([1e-4, 1e-5], np.float32).tolist()}),
        ((regular(array, 2, 2),), {"rtol": None}),
        ((regular(array, 2, 2),), {"hermitian": True}),
        ((array(0, 2),), {}),
    ]


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NoValue) -> Any:
    """`np.linalg.pinv`; for a Hermitian matrix it reads only the lower triangle."""
    a = matrix(a, "pinv")
    if rcond is not None and rtol is not _NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is _NoValue else rtol
    if rcond is None:
        rcond = max(shape_of(a)[-2:]) * float(np.finfo(inexact(dtype_of(a))).eps)
    return PINV(completed(a) if hermitian else a, as_operand(rcond))


def _pinv_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Align batched cutoffs `rcond` with the stack of matrices."""
    a, rcond = values
    a = spread_out(a, batched[0], size)
    return primitive(a, padded(rcond, len(shape_of(a)) - 3) if batched[1] else rcond)


PINV = general(
    np.linalg.pinv,
    _pinv_vjp,
    None,
    jvps=(_pinv_jvp, None),
    compute=lambda a, rcond: np.linalg.pinv(a, rcond),
    spec=_pinv_spec,
    samples=_pinv_samples,
    doc="G. Golub and V. Pereyra (1973), for a rank that stays: dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p",
    front=pinv,
    conditioned=True,
    batch=_pinv_batch,
)


# Powers and chains


def _power_samples(array: Any) -> Calls:
    a = array().dtype
    return [
        *[((regular(array, 2, 2), n), {}) for n in (-3, -1, 1, 2, 3, 6)],
        ((regular(array, 2, 2, 2), 5), {}),
        ((np.zeros((2, 2), a), 2), {}),
        ((array(2, 2), 0), {}),
        ((array(0, 0), 4), {}),
    ]


@composite(np.linalg.matrix_power, samples=_power_samples, doc="that of the matrix products, of which there are 2 log2(n)")
def matrix_power(a: Any, n: Any) -> Any:
    """Return the n-th power of square matrices, by repeated squaring."""
    a = matrix(a, "matrix_power", square=True)
    n = operator.index(n)
    shape = shape_of(a)
    if n == 0:
        return laid_out_like(np.broadcast_to(np.eye(shape[-1], dtype=dtype_of(a)), shape).copy(), a)
    if n < 0:
        a, n = INV(a), -n
    result = None
    while True:
        if n & 1:
            result = a if result is None else result @ a
        n >>= 1
        if not n:
            return result
        a = a @ a


def _multi_dot_samples(array: Any) -> Calls:
    return [
        (([array(2, 3), array(3, 2)],), {}),
        (([array(3), array(3, 2), array(2)],), {}),
        (([array(2, 3), array(3, 1), array(1, 4), array(4, 2)],), {}),
        (([array(2), array(2, 3), array(3, 2)],), {}),
        (([array(2, 3), array(3, 2), array(2)],), {}),
    ]


@composite(
    np.linalg.multi_dot,
    samples=_multi_dot_samples,
    doc="that of the matrix products, in the cheapest order",
    sequences=("arrays",),
)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """Return the product of a chain of matrices; the first and the last may be vectors."""
    refuse_out(out, "linalg.multi_dot")
    factors = [as_array(a) for a in arrays]
    if len(factors) < 2:
        raise ValueError("Expecting at least two arrays.")
    for i, a in enumerate(factors):
        ndim = len(shape_of(a))
        if ndim != 2 and (ndim != 1 or 0 < i < len(factors) - 1):
            raise np.linalg.LinAlgError(f"multi_dot takes matrices, and vectors at the ends; array {i} has {ndim} axes")
    first, last = shape_of(factors[0]), shape_of(factors[-1])
    lengths = [first[0] if len(first) == 2 else 1, *[shape_of(a)[0] for a in factors[1:]], last[1] if len(last) == 2 else 1]
    if len(first) == 1:
        factors[0] = factors[0][None, :]
    if len(last) == 1:
        factors[-1] = factors[-1][:, None]
    product = _chain(factors, _cuts(lengths), 0, len(factors) - 1)
    if len(first) == 1:
        return product[0] if len(last) == 2 else product[0, 0]
    return product if len(last) == 2 else product[:, 0]


def _cuts(lengths: list[int]) -> dict[tuple[int, int], int]:
    """Return the factor to cut after for each part of a chain: T. Cormen et al., "Introduction to Algorithms", 15.2."""
    count = len(lengths) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts = {}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            cost[i, j], cuts[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1], k) for k in range(i, j)
            )
    return cuts


def _chain(factors: list[Any], cuts: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return factors[i]
    k = cuts[i, j]
    return _chain(factors, cuts, i, k) @ _chain(factors, cuts, k + 1, j)


# Diagonals and ranks


@composite(
    np.linalg.trace,
    samples=lambda array: [
        ((array(2, 3),), {}), ((array(2, 3, 3),), {"offset": -1}), ((array(2, 2),), {"dtype": np.complex128}),
    ],
    doc="linear; the cotangent is put at every place of the diagonal",
)  # fmt: skip
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sum over a diagonal of the last two axes."""
    return _trace(as_operand(x), offset, -2, -1, dtype)


@composite(
    np.linalg.diagonal,
    samples=lambda array: [((array(2, 3),), {}), ((array(2, 3, 2),), {"offset": -1})],
    doc="linear; the cotangent is put on the diagonal",
)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return a diagonal of the last two axes."""
    return _diagonal(x, offset, -2, -1)


def _matrix_rank_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Align batched tolerances with the stack of matrices."""
    ndim = example_ndim(values[0], batched[0]) - 2
    matrices = spread_out(values[0], batched[0], size)
    return primitive(matrices, *[padded(v, ndim) if b else v for v, b in zip(values[1:], batched[1:], strict=True)], **params)


MATRIX_RANK = constant(
    np.linalg.matrix_rank,
    spec=lambda A, /, *tolerances, **params: ArraySpec(spec_of(A).shape[:-2], np.dtype(np.intp)),
    samples=lambda array: [
        ((regular(array, 3, 2),), {}), ((regular(array, 2, 2, 2),), {"tol": 1e-3}), ((array(2, 2), None, True), {}),
    ],
    doc="a number of dimensions has no derivative",
    batch=_matrix_rank_batch,
)  # fmt: skip
