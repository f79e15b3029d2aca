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
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import mark_needed, marks_at
from functad.transforms.closed_lists import positional_structures


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
        own = without_dead(Rewriter(own, index(exact, fused), exact).run())
        own = with_shorter_loops(own, simplify, exact, fused)
    if not exact:
        own = put_together(with_numbers(own))
    own = without_dead(Rewriter(own, index(exact, fused), exact).run())
    shorter = own if exact else with_factor_products(own)
    own = own if shorter is own else without_dead(shorter)
    return own if fused else in_order(own)


def without_dead(expressions: Expressions) -> Expressions:
    """Return a list without the equations whose results no output needs; its inputs are positional, its result is a tuple."""
    count, specs = len(expressions.inputs), expressions.specs
    needed = mark_needed(marks_at(expressions.outputs, len(specs)), expressions.equations)
    number = list(range(len(specs)))
    kept, own = [], list(specs[:count])
    for e in expressions.equations:
        for slot in e.outputs:
            if needed[slot]:
                break
        else:
            continue
        inputs = tuple([number[s] if type(s) is int else s for s in e.inputs])
        for slot in e.outputs:
            number[slot] = len(own)
            own.append(specs[slot])
        outputs = tuple([number[s] for s in e.outputs])
        same = inputs == e.inputs and outputs == e.outputs
        kept.append(e if same else Equation(e.primitive, inputs, e.params, outputs))
    results = tuple([number[s] if type(s) is int else s for s in expressions.outputs])
    ins, outs = positional_structures(count, len(results))
    return Expressions(expressions.inputs, tuple(kept), results, tuple(own), ins, outs)
