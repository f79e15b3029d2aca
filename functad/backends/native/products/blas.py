"""Products of matrices and triangular systems by the BLAS that NumPy brings, as functions that native code calls.

They are found in the library that NumPy's own code is linked to, so that there is one BLAS, one set of its threads, and nothing
to import. Native code knows them by names of functad's own, which are bound to addresses when it is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from functad.backends.llvm.values import Value
from functad.backends.native.code import Code

PREFIX = "functad.blas."
"""What the names of these functions begin with in native code."""

_FORMS = (
    ("scipy_cblas_{}64_", "i64"),
    ("cblas_{}64_", "i64"),
    ("cblas_{}$NEWLAPACK$ILP64", "i64"),
    ("cblas_{}", "i32"),
)
"""What builds of BLAS call their functions of C, and the type of their lengths."""

_LETTERS = {"double": "d", "float": "s"}
_NAMES = [letter + name for letter in _LETTERS.values() for name in ("gemm", "trsm")]


class Routines(NamedTuple):
    """The functions of a BLAS.

    Attributes:
        addresses: by their names in native code.
        length: the type of their lengths.
    """

    addresses: dict[str, int]
    length: str


@lru_cache(maxsize=1)
def routines() -> Routines | None:
    """Return the functions of the BLAS that NumPy uses; `None` where they cannot be found."""
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
    """Return the addresses of functions by their names in native code."""
    found = routines()
    return {name: found.addresses[name] for name in names if name in found.addresses} if found is not None else {}


def _libraries() -> list[ctypes.CDLL]:
    """Return NumPy's extension module, in which linked libraries are searched too, and the libraries that its wheel brings."""
    package = Path(np.__file__).parent
    found = []
    for path in [*package.glob("_core/_multiarray_umath*"), *(package.parent / "numpy.libs").glob("*openblas*")]:
        try:
            found.append(ctypes.CDLL(str(path)))
        except OSError:  # such as a file of debugging symbols
            continue
    return found


class Matrix(NamedTuple):
    """A matrix in memory, one of whose axes has its elements next to each other.

    Attributes:
        pointer: the address of its first element.
        rows: the distance of rows, or with `turned` that of columns.
        turned: its columns lie without gaps, and not its rows.
    """

    pointer: Value
    rows: int
    turned: bool = False

    def transposed(self) -> Matrix:
        """Return the matrix with its axes exchanged."""
        return self._replace(turned=not self.turned)


def multiply(code: Code, kind: str, sizes: tuple[int, int, int], a: Matrix, b: Matrix, out: Matrix) -> str:
    """Write a call that computes `out = a @ b`.

    Args:
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the number of rows and of columns of the result, and of columns of a.
        a: the first matrix.
        b: the second matrix.
        out: the result, whose rows lie without gaps.

    Returns:
        The name of the function that is called.
    """
    one, zero = [f"{kind} {code.constant(x, kind).name}" for x in (1.0, 0.0)]
    turned = ["i32 112" if matrix.turned else "i32 111" for matrix in (a, b)]
    return _call(
        code, kind, "gemm", ["i32 101", *turned, *sizes, one, a.pointer, a.rows, b.pointer, b.rows, zero, out.pointer, out.rows]
    )


def substitute(code: Code, kind: str, sizes: tuple[int, int], a: Matrix, out: Matrix, *, lower: bool) -> str:
    """Write a call that solves `a x = b` for a triangular matrix a.

    Args:
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the number of rows and of columns of b.
        a: the matrix.
        out: b, whose rows lie without gaps, and then x.
        lower: a is a lower triangle.

    Returns:
        The name of the function that is called.
    """
    one = f"{kind} {code.constant(1.0, kind).name}"
    triangle = "i32 122" if lower != a.turned else "i32 121"  # of what is in memory
    turned = "i32 112" if a.turned else "i32 111"
    return _call(
        code,
        kind,
        "trsm",
        ["i32 101", "i32 141", triangle, turned, "i32 131", *sizes, one, a.pointer, a.rows, out.pointer, out.rows],
    )


def _call(code: Code, kind: str, name: str, arguments: Sequence[str | int | Value]) -> str:
    """Write a call of a function, whose lengths are integers here, and return its name."""
    found = routines()
    assert found is not None
    own = PREFIX + _LETTERS[kind] + name
    texts = [x if isinstance(x, str) else f"{found.length} {x}" if isinstance(x, int) else f"ptr {x.name}" for x in arguments]
    code.declarations[f"declare void @{own}({', '.join(text.split()[0] for text in texts)}) nounwind"] = None
    code.do(f"call void @{own}({', '.join(texts)})")
    return own
