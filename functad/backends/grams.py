"""Weighted Gram matrices `x^T diag(w) x`, as in Hessians of generalized linear models.

With `w >= 0` the Gram matrix is the product of a matrix and its own transpose. BLAS computes only one half of such a product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.entry import ENTRIES, Primitive

_MULTIPLY: Any = ENTRIES[np.multiply]
_MATMUL: Any = ENTRIES[np.matmul]

_LARGE = 1_000_000
"""Multiplications from which the test of the signs of the weights pays off."""


def gram(x: Any, w: Any) -> Any:
    """Compute `x^T diag(w) x`."""
    if w.min() >= 0:
        scaled = x * np.sqrt(w)[:, None]
        return scaled.T @ scaled
    return (x.T * w) @ x


GRAM = Primitive(
    gram, kind="general", names=("x", "w"), compute=gram, vjps=(), doc="", samples=None, fresh=True, registered=False
)


def with_grams(expressions: Expressions) -> Expressions:
    """Return the list with `gram(x, w)` in place of each product of `x^T * w` and `x`."""
    makers = {e.outputs[0]: e for e in expressions.equations if e.primitive in (_MULTIPLY, TRANSPOSE)}
    specs, equations = list(expressions.specs), list[Equation]()
    for e in expressions.equations:
        found = _weights(e, makers, expressions.specs) if e.primitive is _MATMUL else None
        if found is None:
            equations.append(e)
            continue
        weights, factors = found
        for factor in factors:
            specs.append(specs[weights])
            equations.append(Equation(_MULTIPLY, (weights, factor), {}, (len(specs) - 1,)))
            weights = len(specs) - 1
        equations.append(Equation(GRAM, (e.inputs[1], weights), {}, e.outputs))
    if len(specs) == len(expressions.specs) and all(a is b for a, b in zip(equations, expressions.equations, strict=True)):
        return expressions
    return expressions.replace(equations=_needed(equations, expressions.outputs), specs=tuple(specs))


def _weights(e: Equation, makers: Mapping[Any, Equation], specs: Any) -> tuple[int, list[Constant]] | None:
    """Return the weights and the constant factors of a weighted Gram matrix; `None` for other products."""
    product, x = e.inputs
    if (
        type(x) is not int
        or specs[x].ndim != 2
        or specs[x].dtype.char not in "fd"
        or specs[x].size * specs[x].shape[1] < _LARGE
    ):
        return None
    n, factors = specs[x].shape[0], list[Constant]()
    while (maker := makers.get(product)) is not None and maker.primitive is _MULTIPLY:
        for one, other in (maker.inputs, maker.inputs[::-1]):
            turn = makers.get(one)
            turned = turn is not None and turn.primitive is TRANSPOSE and turn.inputs == (x,) and turn.params["axes"] == (1, 0)
            if turned and type(other) is int and specs[other] == ArraySpec((n,), specs[x].dtype):
                return other, factors
        numbers = [s for s in maker.inputs if isinstance(s, Constant) and type(s.value) is float]
        if not numbers:
            return None
        factors.append(numbers[0])
        [product] = [s for s in maker.inputs if s is not numbers[0]]
    return None


def _needed(equations: list[Equation], outputs: Any) -> tuple[Equation, ...]:
    """Return the equations without dead code."""
    read, kept = set(outputs), list[Equation]()
    for e in reversed(equations):
        if not read.isdisjoint(e.outputs):
            read.update(e.inputs)
            kept.append(e)
    return tuple(kept[::-1])
