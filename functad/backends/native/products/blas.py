"""Calls from native code to BLAS and LAPACK: matrix products, triangular systems and factorisations.

Native code calls the routines of `functad.primitives.linalg.lapack` by functad's own names. The loader binds these names to
addresses. All sizes are known when code is written, so scalar arguments are constant tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from functad.backends.native.module_text import ModuleText
from functad.loops.build import Code
from functad.loops.values import Value
from functad.primitives.linalg.lapack import routines

PREFIX = "functad.blas."
"""Prefix of the names of the routines in native code."""

_LETTERS = {"double": "d", "float": "s"}
_DTYPES = {"double": np.float64, "float": np.float32}


def addresses_of(names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of the routines that are among `names`, by their names in native code."""
    found = routines()
    known = {} if found is None else {PREFIX + name: address for name, address in found.addresses.items()}
    return {name: known[name] for name in names if name in known}


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

    @property
    def letter(self) -> str:
        """The argument of BLAS for a matrix with contiguous rows, which BLAS reads as the transpose of its transpose."""
        return "T" if self.turned else "N"


def multiply(module: ModuleText, code: Code, kind: str, sizes: tuple[int, int, int], a: Matrix, b: Matrix, out: Matrix) -> None:
    """Write a call that computes `out = a @ b`.

    Args:
        module: the module.
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the rows and columns of the result, and the columns of `a`.
        a: the first matrix.
        b: the second matrix.
        out: the result, with contiguous rows.
    """
    rows, columns, depth = sizes
    first, second = (b.pointer, b.rows), (a.pointer, a.rows)  # BLAS computes out.T = b.T @ a.T
    _call(
        module, code, kind, "gemm", b.letter, a.letter, columns, rows, depth, 1.0, *first, *second, 0.0, out.pointer, out.rows
    )


def substitute(
    module: ModuleText, code: Code, kind: str, sizes: tuple[int, int], a: Matrix, out: Matrix, *, lower: bool
) -> None:
    """Write a call that solves `a x = b` for a triangular matrix `a`.

    Args:
        module: the module.
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the rows and columns of `b`.
        a: the matrix.
        out: `b` before the call, `x` after it, with contiguous rows.
        lower: `True` if `a` is lower triangular.
    """
    rows, columns = sizes
    triangle = "L" if lower == a.turned else "U"  # the triangle of the matrix with contiguous columns
    given = "R", triangle, a.letter, "N", columns, rows, 1.0, a.pointer, a.rows, out.pointer, out.rows
    _call(module, code, kind, "trsm", *given)


def factorise(module: ModuleText, code: Code, kind: str, n: int, out: Value) -> Value:
    """Write a call that replaces the lower triangle of a definite matrix with contiguous rows by its Cholesky factor.

    Returns:
        The status: zero if the matrix is positive definite.
    """
    return _call(module, code, kind, "potrf", "U", n, out, n, None)


def eliminate(module: ModuleText, code: Code, kind: str, n: int, out: Value, exchanges: Value) -> None:
    """Write a call that replaces a matrix with contiguous columns by its LU factors, and stores the exchanges of rows."""
    _call(module, code, kind, "getrf", n, n, out, n, exchanges, None)


def solve(
    module: ModuleText, code: Code, kind: str, sizes: tuple[int, int], factors: tuple[Value, Value], out: Value, *, turned: bool
) -> None:
    """Write a call that solves `a x = b`, or `a^T x = b` if `turned`, given the result of `eliminate` for `a`.

    Args:
        module: the module.
        code: the function that is being written.
        kind: the type of the elements.
        sizes: the rows and columns of `b`.
        factors: the addresses of the factors and of the exchanges.
        out: the address of `b` before the call and of `x` after it, with contiguous columns.
        turned: as above.
    """
    n, columns = sizes
    _call(module, code, kind, "getrs", "T" if turned else "N", n, columns, factors[0], n, factors[1], out, n, None)


def _word(letter: str) -> int:
    """Return the integer with a letter as its first byte in memory."""
    return int.from_bytes(letter.encode().ljust(4), sys.byteorder)


def _call(module: ModuleText, code: Code, kind: str, name: str, *arguments: str | float | Value | None) -> Value:
    """Write a call of a routine; return the status that it stores in the place of `None`, or zero."""
    found = routines()
    assert found is not None
    own = f"{PREFIX}{_LETTERS[kind]}{name}"
    values: dict[type, list[Any]] = {str: [], int: [], float: []}
    for x in arguments:
        if type(x) in values:
            values[type(x)].append(_word(x) if isinstance(x, str) else x)
    scalars: dict[type, tuple[str, Any]] = {
        str: ("i32", np.array(values[str], np.int32)),
        int: (found.length, np.array(values[int], found.integer)),
        float: (kind, np.array(values[float], _DTYPES[kind])),
    }
    tables = {of: module.table(code, numbers) for of, (_, numbers) in scalars.items() if numbers.size}
    used = dict.fromkeys(tables, 0)
    status = None
    given = []
    for x in arguments:
        if isinstance(x, Value):
            given.append(x)
        elif x is None:
            status = code.allocate(found.length, 1)
            given.append(status)
        else:
            given.append(code.place(tables[type(x)], used[type(x)], scalars[type(x)][0]))
            used[type(x)] += 1
    code.run(f"@{own}", *given)
    module.imported.add(own)
    return code.constant(0, found.length) if status is None else code.load(status, 0, found.length)
