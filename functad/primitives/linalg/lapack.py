"""The routines of BLAS and LAPACK: their addresses, and triangular systems solved by them.

The routines come from the library that NumPy is linked to. So the process has one BLAS with one thread pool, results agree with
NumPy's, and functad needs no further import. If that library does not export them, they come from `scipy.linalg.cython_blas`
and `cython_lapack`. All routines have the interface of Fortran: arguments are addresses, and matrices are stored column by
column, so that a matrix in C order is its transpose.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_PATTERNS = (("scipy_{}_64_", "i64"), ("{}_64_", "i64"), ("{}$NEWLAPACK$ILP64", "i64"), ("{}_", "i32"))
"""Name patterns of the routines in different builds, and the type of their integers."""

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""The first letter of a routine, by the character of the dtype."""

_NAMES = [letter + name for letter in LETTERS.values() for name in ("gemm", "trsm", "potrf", "getrf", "getrs")]


class Routines(NamedTuple):
    """The routines of a library.

    Attributes:
        addresses: the addresses, by name.
        length: the type of integer arguments.
    """

    addresses: dict[str, int]
    length: str

    @property
    def integer(self) -> np.dtype[Any]:
        """The dtype of integer arguments."""
        return np.dtype(np.int64 if self.length == "i64" else np.int32)


@lru_cache(maxsize=1)
def routines() -> Routines | None:
    """Return the routines of NumPy's library, else those of SciPy; `None` if they are not found."""
    for library in _libraries():
        for pattern, length in _PATTERNS:
            found = {}
            for name in _NAMES:
                function = getattr(library, pattern.format(name), None)
                if function is None:
                    break
                found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
            else:
                return Routines(found, length)
    return of_scipy()


def _libraries() -> Iterator[ctypes.CDLL]:
    """Yield NumPy's extension modules, which also expose their linked libraries, and the libraries in NumPy's wheel."""
    package = Path(np.__file__).parent
    modules = [*package.glob("linalg/_umath_linalg*"), *package.glob("_core/_multiarray_umath*")]
    for path in [*modules, *(package.parent / "numpy.libs").glob("*openblas*")]:
        try:
            yield ctypes.CDLL(str(path))
        except OSError:  # for example a file of debug symbols
            continue


def of_scipy() -> Routines | None:
    """Return the routines that SciPy exports for Cython; `None` without SciPy, or if their integers have no known type."""
    try:
        from scipy.linalg import cython_blas, cython_lapack  # noqa: PLC0415 - an optional library
    except ImportError:
        return None
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.argtypes, name_of.restype = [ctypes.py_object], ctypes.c_char_p
    pointer_of.argtypes, pointer_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    capsules = {**cython_blas.__pyx_capi__, **cython_lapack.__pyx_capi__}
    if any(name not in capsules or b"int *" not in name_of(capsules[name]) for name in _NAMES):
        return None
    return Routines({name: pointer_of(capsules[name], name_of(capsules[name])) for name in _NAMES}, "i32")


# Calls from Python


class TriangularSolver:
    """The routine `trsm` for one dtype.

    Args:
        found: the routines.
        letter: the character of the dtype.
    """

    def __init__(self, found: Routines, letter: str) -> None:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 4, *[ctypes.c_void_p] * 7)
        self._routine = kind(found.addresses[f"{LETTERS[letter]}trsm"])
        self._ones = np.ones(1, letter)
        self._one = self._ones.ctypes.data
        self._sizes: Callable[..., Any] = (ctypes.c_int64 if found.length == "i64" else ctypes.c_int32) * 4
        self._step = found.integer.itemsize

    def solve(self, a: Any, out: Any, lower: bool) -> None:
        """Replace `out` by the solutions of `a x = out`, for one matrix, or as many matrices as `out` has.

        Args:
            a: the matrices, with contiguous rows or columns.
            out: the right-hand sides, in C order.
            lower: `True` if `a` is lower triangular.
        """
        size = out.itemsize
        *_, n, columns = out.shape
        turned = a.strides[-1] != size
        sizes = self._sizes(columns, n, max(n, a.strides[-1 if turned else -2] // size), columns)
        address, step = ctypes.addressof(sizes), self._step
        given = b"R", b"L" if lower == turned else b"U", b"T" if turned else b"N", b"N", address, address + step
        one, rest = self._one, address + 2 * step
        first, place = a.ctypes.data, out.ctypes.data
        if out.ndim == 2:
            self._routine(*given, one, first, rest, place, rest + step)
            return
        between = 0 if a.ndim == 2 else a.strides[0]
        for i in range(len(out)):
            self._routine(*given, one, first + i * between, rest, place + i * n * columns * size, rest + step)


def lu_factor(a: Any, *, integer: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the transposed LU factors of matrices, packed in one array, and the row exchanges, which count from 1."""
    lu, exchanges = np.array(a.mT, order="C"), np.empty(a.shape[:-1], integer)
    n, status = np.array(a.shape[-1], integer), np.empty((), integer)
    getrf = _routine("getrf", lu.dtype.char, 6)
    for one, own in zip(lu.reshape(-1, *lu.shape[-2:]), exchanges.reshape(-1, lu.shape[-1]), strict=True):
        getrf(*[x.ctypes.data for x in (n, n, one, n, own, status)])
    return lu, exchanges


def lu_solve(lu: Any, exchanges: Any, b: Any, *, turned: bool) -> Any:
    """Return the solution of `a x = b`, or of `a^T x = b` if `turned`, given the result of `lu_factor` for `a`.

    Raises:
        LinAlgError: a matrix is singular.
    """
    if not np.diagonal(lu, 0, -2, -1).all():
        raise np.linalg.LinAlgError("Singular matrix")
    batch, columns, size = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2]), b.shape[-1], lu.shape[-1]
    out = np.empty((*batch, columns, size), lu.dtype)
    out[...] = b.mT
    integer = exchanges.dtype
    n, count, status = np.array(size, integer), np.array(columns, integer), np.empty((), integer)
    getrs, letter = _routine("getrs", lu.dtype.char, 9), np.frombuffer(b"T" if turned else b"N", np.uint8)
    factors, orders = np.broadcast_to(lu, (*batch, size, size)), np.broadcast_to(exchanges, (*batch, size))
    for place in np.ndindex(batch):
        given = letter, n, count, factors[place], n, orders[place], out[place], n, status
        getrs(*[x.ctypes.data for x in given])
    return np.ascontiguousarray(out.mT)


@cache
def _routine(name: str, letter: str, count: int) -> Callable[..., None]:
    """Return a routine with a number of arguments, for the character of a dtype."""
    found = routines()
    assert found is not None
    made: Callable[..., None] = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(found.addresses[LETTERS[letter] + name])
    return made


@cache
def solver_of(letter: str) -> TriangularSolver | None:
    """Return the solver for a dtype, by its character; `None` if there is none."""
    found = routines()
    return TriangularSolver(found, letter) if found is not None and letter in LETTERS else None
