"""A list made shorter: without equations that nothing needs, and without those that compute the same again."""

from __future__ import annotations

from functad.compilation.elements import with_numbers
from functad.compilation.factor_products import with_factor_products
from functad.compilation.order import in_order
from functad.compilation.pieces import put_together
from functad.compilation.rewrites import index
from functad.compilation.rewriting import Rewriter
from functad.compilation.rolling.rolled import rolled
from functad.compilation.scans.shorter import with_shorter_loops
from functad.expressions.expressions import Expressions
from functad.transforms.lists import extract


def simplified(expressions: Expressions, exact: bool = False, fused: bool = False) -> Expressions:
    """Return a list that computes the same by fewer equations.

    Args:
        expressions: the list; what is dead in it should have been taken out.
        exact: the results are to be the same, bit for bit.
        fused: what compiles it computes several elementwise operations in one pass over memory, in an order of its own.
    """

    def simplify(inner: Expressions) -> Expressions:
        return simplified(inner, exact, fused)

    own = rolled(expressions)
    if any(e.primitive.lists for e in own.equations):  # what goes in twice is to be seen to be the same
        own = extract(Rewriter(own, index(exact, fused), exact).run())
        own = with_shorter_loops(own, simplify, exact, fused)
    if not exact:
        own = put_together(with_numbers(own))
    own = extract(Rewriter(own, index(exact, fused), exact).run())
    shorter = own if exact else with_factor_products(own)
    own = own if shorter is own else extract(shorter)
    return own if fused else in_order(own)
