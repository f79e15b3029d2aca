"""Shared factorisations: systems, inverses and determinants of one matrix and its transpose use the same LU factors.

`LU_FACTOR` and `LU_SOLVE` are primitives of programs, without derivative rules. They have the parts of LAPACK's `gesv`, in
NumPy's order, so results agree with NumPy's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.routines import routine
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.entry import Primitive
from functad.primitives.linalg.determinants import DET, SLOGDET, cofactors, inverse
from functad.primitives.linalg.lapack import lu_factor, lu_solve
from functad.primitives.linalg.solve import INV, SOLVE
from functad.transforms.lists import trace

IsWorth = Callable[[ArraySpec, int, int], bool]
"""Returns `True` if an equation is computed from LU factors. The arguments are the spec of its matrix, the number of right-hand
sides (zero for a determinant), and the number of equations with this matrix."""


def _factor_spec(a: Any, integer: np.dtype[Any]) -> tuple[ArraySpec, ArraySpec]:
    return ArraySpec(a.shape, a.dtype), ArraySpec(a.shape[:-1], integer)


LU_FACTOR = routine(lu_factor, "lu_factor", _factor_spec, names=("a",), multiple=True)
"""The transposed LU factors of matrices, packed as in LAPACK, and the row exchanges, which count from 1."""

LU_SOLVE = routine(
    lu_solve,
    "lu_solve",
    lambda lu, exchanges, b, turned: ArraySpec(
        (*np.broadcast_shapes(lu.shape[:-2], b.shape[:-2]), *b.shape[-2:]),
        lu.dtype,
    ),
    names=("lu", "exchanges", "b"),
)
"""The solution of `a x = b`, or of `a^T x = b` if `turned`, given the results of `LU_FACTOR` for `a`."""

NONZERO = routine(lambda x: x, "nonzero", lambda x: x, names=("x",), fresh=False)
"""The argument. Native code leaves the list to NumPy if an element is zero."""


def is_transposition(e: Equation, ndim: int) -> bool:
    """Return `True` if an equation transposes each matrix of a stack."""
    return e.primitive is TRANSPOSE and tuple(e.params["axes"]) == (*range(ndim - 2), ndim - 1, ndim - 2)


def with_factors(expressions: Expressions, is_worth: IsWorth, integer: np.dtype[Any], *, refuses: bool = False) -> Expressions:
    """Return a list in which systems, inverses and determinants of a matrix are computed from its LU factors.

    Args:
        expressions: the list.
        is_worth: selects the equations.
        integer: the dtype of row exchanges.
        refuses: the backend leaves a list with a singular matrix to NumPy. Without that, equations are left out that accept
            singular matrices or raise other errors than `solve`.
    """
    specs, left_out = expressions.specs, () if refuses else (inverse, cofactors)
    found = [e for e in expressions.equations if e.primitive in FACTORISING and _is_plain(e, specs)]
    if not found:
        return expressions
    from functad.backends.native.arranging.rewrite import Rewritten  # noqa: PLC0415 - few programs need it

    writer = Rewritten(expressions)
    roots = {e.outputs: _root(e.inputs[0], writer.made, specs) for e in found if e.primitive not in left_out}
    uses = Counter([root for root, _ in roots.values()])
    factors: dict[Any, Sequence[int]] = {}
    for e in expressions.equations:
        root, turned = roots.get(e.outputs, (None, False))
        if root is None or not is_worth(specs[root], _columns(e, specs), uses[root]):
            writer.equations.append(e)
            continue
        if root not in factors:
            made = _factor_spec(specs[root], integer)
            factors[root] = range(len(writer.specs), len(writer.specs) + len(made))
            writer.specs += made
            writer.equations.append(Equation(LU_FACTOR, (root,), {"integer": integer}, tuple(factors[root])))
        given = (*factors[root], *e.inputs[1:])
        form = FACTORISING[e.primitive]
        inner = trace("jit", lambda *values, form=form, turned=turned: form(turned, *values), list(map(writer.spec, given)))
        writer.inline(inner, given, e.outputs)
    return expressions.replace(equations=tuple(writer.equations), specs=tuple(writer.specs)) if factors else expressions


def _root(source: Any, made: Mapping[int, Equation], specs: Sequence[ArraySpec]) -> tuple[int, bool]:
    """Return the matrix of which `source` is the transpose, and `True`; or `source` and `False`."""
    turned = False
    while (e := made.get(source)) is not None and is_transposition(e, specs[source].ndim):
        if type(e.inputs[0]) is not int:
            break
        source, turned = e.inputs[0], not turned
    return source, turned


def _columns(e: Equation, specs: Sequence[ArraySpec]) -> int:
    """Return the number of right-hand sides; zero for a determinant."""
    return 0 if e.primitive in (DET, SLOGDET) else specs[e.outputs[0]].shape[-1]


def _is_plain(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Return `True` if LAPACK computes in the dtype of the matrix."""
    if type(e.inputs[0]) is not int or (e.primitive is inverse and e.params["limit"] != np.inf):
        return False
    matrix, out = specs[e.inputs[0]], specs[e.outputs[0]]
    return matrix.dtype == out.dtype and matrix.dtype.char in "fdFD" and matrix.size > 0 and out.size > 0


def _inverse(turned: bool, lu: Any, exchanges: Any) -> Any:
    return LU_SOLVE(lu, exchanges, np.eye(lu.shape[-1], dtype=lu.dtype), turned=turned)


def _sign_and_logarithm(turned: bool, lu: Any, exchanges: Any) -> tuple[Any, Any]:
    """Return sign and logarithm of the determinant as NumPy does: a NaN counts as a positive pivot."""
    n = lu.shape[-1]
    pivots = np.diagonal(lu, 0, -2, -1)
    singular = np.any(pivots == 0, -1)
    negative = np.sum(pivots < 0, -1) + np.sum(exchanges != np.arange(1, n + 1, dtype=exchanges.dtype), -1)
    one = lu.dtype.type(1)
    sign = np.where(singular, 0 * one, np.where(negative % 2 == 1, -one, one))
    logarithm = np.where(singular, -np.inf * one, np.sum(np.log(np.where(pivots == 0, one, np.abs(pivots))), -1))
    return sign[()], logarithm[()]


def _determinant(turned: bool, lu: Any, exchanges: Any) -> Any:
    sign, logarithm = _sign_and_logarithm(turned, lu, exchanges)
    return sign * np.exp(logarithm)


def _cofactors(turned: bool, lu: Any, exchanges: Any) -> Any:
    det = NONZERO(_determinant(turned, lu, exchanges))
    return det[..., None, None] * _inverse(not turned, lu, exchanges)


FACTORISING: dict[Primitive, Callable[..., Any]] = {
    SOLVE: lambda turned, lu, exchanges, b: LU_SOLVE(lu, exchanges, b, turned=turned),
    INV: _inverse,
    inverse: _inverse,
    DET: _determinant,
    SLOGDET: _sign_and_logarithm,
    cofactors: _cofactors,
}
"""The functions that compute equations from LU factors of a matrix, or of its transpose if the first argument is true."""
