"""Calls from native code to NumPy's BLAS: matrix products and triangular solves.

The functions come from the library that NumPy is linked to. So the process has one BLAS with one thread pool, and functad needs
no further import. Native code calls them by functad's own names, which the loader binds to addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from functad.loops.build import Code
from functad.loops.values import Value

PREFIX = "functad.blas."
"""Prefix of the names of BLAS functions in native code."""

_FORMS = (
    ("scipy_cblas_{}64_", "i64"),
    ("cblas_{}64_", "i64"),
    ("cblas_{}$NEWLAPACK$ILP64", "i64"),
    ("cblas_{}", "i32"),
)
"""Name patterns of CBLAS functions in different builds, and the type of their length arguments."""

_LETTERS = {"double": "d", "float": "s"}
_NAMES = [letter + name for letter in _LETTERS.values() for name in ("gemm", "trsm")]


class Routines(NamedTuple):
    """The functions of a BLAS.

    Attributes:
        addresses: their addresses, by their names in native code.
        length: the type of their length arguments.
    """

    addresses: dict[str, int]
    length: str


@lru_cache(maxsize=1)
def routines() -> Routines | None:
    """Return the functions of NumPy's BLAS; `None` if they are not found."""
    for library in _libraries():
        for form, length in _FORMS:
            found = {}
            for name in _NAMES:
                function = getattr(library, form.format(name), None)
                if function is not None:
                    found[PREFIX + name] = ctypes.cast(function, ctypes.c_void_p).value or 0
            if len(found) == len(_NAMES):
                return Routines(found, length)
    return None


def addresses_of(names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of the BLAS functions that are among `names`, by their names in native code."""
    found = routines()
    return {name: found.addresses[name] for name in names if name in found.addresses} if found is not None else {}


def _libraries() -> list[ctypes.CDLL]:
    """Return NumPy's extension module, which also exposes its linked libraries, and the libraries in NumPy's wheel."""
    package = Path(np.__file__).parent
    found = []
    for path in [*package.glob("_core/_multiarray_umath*"), *(package.parent / "numpy.libs").glob("*openblas*")]:
        try:
            found.append(ctypes.CDLL(str(path)))
        except OSError:  # for example a file of debug symbols
            continue
    return found


class Matrix(NamedTuple):
    """A matrix in memory with contiguous rows or contiguous columns.

    Attributes:
        pointer: the address of its first element.
        rows: the leading dimension: the stride of rows, or of columns if `turned`.
        turned: `True` if the columns are contiguous, `False` if the rows are.
    """

    pointer: Value
    rows: int
    turned: bool = False

    def transposed(self) -> Matrix:
        """Return the transpose."""
        return self._replace(turned=not self.turned)


def multiply(code: Code, kind: str, sizes: tuple[int, int, int], a: Matrix, b: Matrix, out: Matrix) -> str:
    """Write a call that computes `out = a @ b`.

    Args:
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the rows and columns of the result, and the columns of `a`.
        a: the first matrix.
        b: the second matrix.
        out: the result, with contiguous rows.

    Returns:
        The name of the called function.
    """
    one, zero = [code.constant(x, kind) for x in (1.0, 0.0)]
    turned = [("i32", "112") if matrix.turned else ("i32", "111") for matrix in (a, b)]
    return _call(
        code,
        kind,
        "gemm",
        [("i32", "101"), *turned, *sizes, one, a.pointer, a.rows, b.pointer, b.rows, zero, out.pointer, out.rows],
    )


def substitute(code: Code, kind: str, sizes: tuple[int, int], a: Matrix, out: Matrix, *, lower: bool) -> str:
    """Write a call that solves `a x = b` for a triangular matrix `a`.

    Args:
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the rows and columns of `b`.
        a: the matrix.
        out: `b` before the call, `x` after it, with contiguous rows.
        lower: `True` if `a` is lower triangular.

    Returns:
        The name of the called function.
    """
    one = code.constant(1.0, kind)
    triangle = ("i32", "122") if lower != a.turned else ("i32", "121")  # the triangle as stored in memory
    turned = ("i32", "112") if a.turned else ("i32", "111")
    return _call(
        code,
        kind,
        "trsm",
        [
            ("i32", "101"),
            ("i32", "141"),
            triangle,
            turned,
            ("i32", "131"),
            *sizes,
            one,
            a.pointer,
            a.rows,
            out.pointer,
            out.rows,
        ],
    )


def _call(code: Code, kind: str, name: str, arguments: Sequence[tuple[str, str] | int | Value]) -> str:
    """Write a call of a BLAS function and return its name; each `int` argument becomes a length."""
    found = routines()
    assert found is not None
    own = PREFIX + _LETTERS[kind] + name
    given = [(found.length, str(x)) if isinstance(x, int) else x for x in arguments]
    code.run(f"@{own}", *given)
    return own
