"""Simplification of expression lists: the passes and their order."""

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
    """Return a list with the same results and fewer equations.

    Args:
        expressions: the list, after dead code elimination.
        exact: `True` if results must stay equal bit for bit.
        fused: `True` if the backend fuses elementwise operations and schedules equations itself.
    """

    def simplify(inner: Expressions) -> Expressions:
        return simplified(inner, exact, fused)

    own = rolled(expressions, fused)
    if any(e.primitive.lists for e in own.equations):  # merge equal inputs of loops first, so that the loop passes see them
        own = extract(Rewriter(own, index(exact, fused), exact).run())
        own = with_shorter_loops(own, simplify, exact, fused)
    if not exact:
        own = put_together(with_numbers(own))
    own = extract(Rewriter(own, index(exact, fused), exact).run())
    shorter = own if exact else with_factor_products(own)
    own = own if shorter is own else extract(shorter)
    return own if fused else in_order(own)
