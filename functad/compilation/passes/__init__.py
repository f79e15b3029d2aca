"""The passes over expression lists, in the order in which they run.

Each pass is a function from a list to a list with the same results. With the environment variable `FUNCTAD_DUMP=pass`, the list
is printed before the first pass and after each pass that changed it. The lists inside loops and branches take the same passes.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple

from functad.backends.factors import FACTORISING, with_factors
from functad.compilation.passes.cholesky import with_factor_products
from functad.compilation.passes.layout import with_layouts
from functad.compilation.passes.loops import with_lists, with_shorter_loops
from functad.compilation.passes.peephole import Rewriter, match
from functad.compilation.passes.rewrites import index, routines_index
from functad.compilation.passes.schedule import in_order
from functad.compilation.passes.systems import with_substitution
from functad.compilation.rolling.rolled import rolled
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.linalg.lapack import routines
from functad.process import DUMP, context_variable, setting
from functad.transforms.lists import extract


class Options(NamedTuple):
    """The options of a simplification.

    Attributes:
        exact: `True` if results must stay equal bit for bit.
        fused: `True` if the backend fuses elementwise operations and schedules equations itself.
    """

    exact: bool = False
    fused: bool = False


class Pass(NamedTuple):
    """One pass.

    Attributes:
        name: the name, for dumps.
        run: the function from a list to a list with the same results.
        needed: returns `False` for lists and options for which the pass is left out.
    """

    name: str
    run: Callable[[Expressions, Options], Expressions]
    needed: Callable[[Expressions, Options], bool] = lambda own, options: True


def _rewritten(own: Expressions, options: Options) -> Expressions:
    return extract(Rewriter(own, index(options.exact, options.fused), options.exact).run())


def _with_shorter_loops(own: Expressions, options: Options) -> Expressions:
    return with_shorter_loops(own, lambda inner: run_passes(inner, options), options.exact, options.fused)


def _with_factor_products(own: Expressions, options: Options) -> Expressions:
    found = with_factor_products(own)
    return own if found is own else extract(found)


def _has_loops(own: Expressions, options: Options) -> bool:
    return any(e.primitive.lists for e in own.equations)


def _may_round(own: Expressions, options: Options) -> bool:
    return not options.exact


PASSES = (
    Pass("roll: make a scan of repeated equations", lambda own, options: rolled(own, options.fused)),
    Pass("rewrite: merge equal inputs of loops", _rewritten, _has_loops),
    Pass("loops: simplify their lists, hoist invariant work, drop dead results", _with_shorter_loops, _has_loops),
    Pass("rewrite: fold constants, share equal equations, apply the table of rewrites", _rewritten),
    Pass("factors: use the structure of cotangents of Cholesky factors", _with_factor_products, _may_round),
    Pass("order: reduce the peak memory", lambda own, options: in_order(own), lambda own, options: not options.fused),
)
"""All passes, in order. Their results may be differentiated."""


def _with_routines(own: Expressions, options: Options) -> Expressions:
    table = routines_index(options.fused)
    equations = [with_lists(e, lambda inner: _with_routines(inner, options)) for e in own.equations]
    own = own.replace(equations=tuple(equations)) if any(map(operator.is_not, equations, own.equations)) else own
    rewriter, makers = Rewriter(own, table), {e.outputs[0]: e for e in own.equations if len(e.outputs) == 1}
    roots = [(e, pattern) for e in makers.values() for pattern in table.by_root.get(e.primitive, ())]
    found = any(match(pattern.root, e, makers, rewriter.number_of) is not None for e, pattern in roots)
    return extract(rewriter.run()) if found else own


def _with_substitution(own: Expressions, options: Options) -> Expressions:
    found = with_substitution(own)
    return own if found is own else extract(found)


_LEAST_SHARED = 128
"""Matrices with fewer rows are factorised by NumPy for each system: the calls of LAPACK from Python take 80 us."""


def _is_shared(matrix: ArraySpec, columns: int, uses: int) -> bool:
    """Return `True` if several equations use the LU factors of a matrix."""
    return uses > 1 and matrix.ndim == 2 and matrix.shape[0] >= _LEAST_SHARED and (columns > 0 or matrix.dtype.kind == "f")


def _with_factors(own: Expressions, options: Options) -> Expressions:
    """Return the list for NumPy with shared LU factors. Other backends share factors themselves."""
    if options.fused or not any(e.primitive in FACTORISING for e in own.equations) or (found := routines()) is None:
        return own
    return with_factors(own, _is_shared, found.integer)


PROGRAM_PASSES = (
    Pass("routines: Gram matrices, ties", _with_routines, _may_round),
    Pass("systems: solve by substitution where the matrix is triangular", _with_substitution, _may_round),
    Pass("factors: factorise a matrix once", _with_factors, _may_round),
    Pass(
        "layout: store arrays with short rows column by column",
        lambda own, options: with_layouts(own),
        lambda own, options: not options.exact and not options.fused,
    ),
)
"""The passes over the list of a program, in order. Their results have no derivatives."""


_AFTER: ContextVar[Callable[[str, Expressions], object] | None] = context_variable("after each pass", default=None)


def after_each_pass(call: Callable[[str, Expressions], object] | None) -> AbstractContextManager[None]:
    """Call a function with the name and the result of each pass, for tests and tools; `None` for no function."""
    return setting(_AFTER, call)


def run_passes(expressions: Expressions, options: Options, passes: Sequence[Pass] = PASSES) -> Expressions:
    """Return the list after all passes."""
    after = _AFTER.get() or (_dump if os.environ.get(DUMP) == "pass" else None)
    own = expressions
    if after is not None and passes is PASSES:
        after("before all passes", own)
    for each in passes:
        if each.needed(own, options):
            before, own = own, each.run(own, options)
            if after is not None and own is not before:
                after(each.name, own)
    return own


def simplified(expressions: Expressions, exact: bool = False, fused: bool = False) -> Expressions:
    """Return a list with the same results and fewer equations.

    Args:
        expressions: the list, after dead code elimination.
        exact: `True` if results must stay equal bit for bit.
        fused: `True` if the backend fuses elementwise operations and schedules equations itself.
    """
    return run_passes(expressions, Options(exact, fused))


def of_program(expressions: Expressions, exact: bool = False, fused: bool = False) -> Expressions:
    """Return the list that a backend compiles, for a simplified list. The arguments are the same as in `simplified`."""
    return run_passes(expressions, Options(exact, fused), PROGRAM_PASSES)


def _dump(name: str, own: Expressions) -> None:
    sys.stderr.write(f"-- {name}\n{own}\n")
