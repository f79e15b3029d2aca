"""Linear systems with a triangular matrix are solved by substitution.

A matrix is triangular if it is a Cholesky factor, the factor `r` of `qr`, or a result of `np.tril` or `np.triu`, and so are the
transpose and the conjugate of a triangular matrix. Substitution takes `n^2` operations for each right-hand side, and LU factors
take `2/3 n^3` operations more.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.factors import is_transposition
from functad.compilation.passes.loops import with_lists
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.elementwise.complex_numbers import CONJUGATE
from functad.primitives.entry import ENTRIES
from functad.primitives.linalg.decompositions import CHOLESKY, QR
from functad.primitives.linalg.solve import SOLVE, TRIANGULAR_SOLVE

_TRIL, _TRIU = ENTRIES[np.tril], ENTRIES[np.triu]


def with_substitution(expressions: Expressions) -> Expressions:
    """Return a list in which systems with a triangular matrix are solved by `TRIANGULAR_SOLVE`."""
    specs = expressions.specs
    makers: dict[Any, Equation] = {slot: e for e in expressions.equations for slot in e.outputs}
    equations = []
    for e in expressions.equations:
        if e.primitive is SOLVE and specs[e.outputs[0]].dtype.char in "fdFD":
            lower = _is_lower(e.inputs[0], makers, specs)
            if lower is not None:
                e = Equation(TRIANGULAR_SOLVE, e.inputs, {"lower": lower}, e.outputs)
        if e.primitive is TRIANGULAR_SOLVE:
            triangle = makers.get(e.inputs[0])
            if (
                triangle is not None
                and triangle.primitive is (_TRIL if e.params["lower"] else _TRIU)
                and not triangle.params["k"]
            ):
                e = Equation(e.primitive, (triangle.inputs[0], e.inputs[1]), e.params, e.outputs)
        equations.append(with_lists(e, with_substitution))
    changed = any(map(operator.is_not, equations, expressions.equations))
    return expressions.replace(equations=tuple(equations)) if changed else expressions


def _is_lower(source: Any, makers: Mapping[Any, Equation], specs: Sequence[ArraySpec]) -> bool | None:
    """Return `True` for a lower triangular matrix, `False` for an upper triangular one, `None` if neither is known."""
    e = makers.get(source) if type(source) is int else None
    if e is None:
        return None
    if e.primitive is CHOLESKY:
        return True
    if e.primitive is QR:
        return False if source == e.outputs[1] else None
    if e.primitive is _TRIL:
        return True if e.params["k"] <= 0 else None
    if e.primitive is _TRIU:
        return False if e.params["k"] >= 0 else None
    if e.primitive is CONJUGATE:
        return _is_lower(e.inputs[0], makers, specs)
    if is_transposition(e, specs[source].ndim):
        inner = _is_lower(e.inputs[0], makers, specs)
        return None if inner is None else not inner
    return None
