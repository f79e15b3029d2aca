"""A list made shorter: without equations that nothing needs, and without those that compute the same again."""

from __future__ import annotations

from functad.compilation.loops import with_shorter_loops
from functad.compilation.rewrites import index
from functad.compilation.rewriting import Rewriter
from functad.compilation.rolling.rolled import rolled
from functad.expressions.expressions import Expressions
from functad.transforms.closed_lists import extract


def simplified(expressions: Expressions, exact: bool = False, fused: bool = False) -> Expressions:
    """Return a list that computes the same by fewer equations.

    Args:
        expressions: the list; what is dead in it should have been taken out.
        exact: the results are to be the same, bit for bit.
        fused: what compiles it computes several elementwise operations in one pass over memory.
    """

    def simplify(inner: Expressions) -> Expressions:
        return simplified(inner, exact, fused)

    own = with_shorter_loops(rolled(expressions), simplify, exact)
    return without_dead(Rewriter(own, index(exact, fused), exact).run())


def without_dead(expressions: Expressions) -> Expressions:
    """Return a list without the equations whose results no output needs."""
    return extract(expressions, range(len(expressions.inputs)), expressions.outputs, expressions.inputs)
