"""Speculation: plain products in place of guarded ones, for programs that check their results for NaN.

A guarded product (`functad.primitives.safe`), in which an exact zero wins over infinity, checks its result for NaN and replaces
it. A NaN of a plain product reaches the results if all its readers are sums, products and functions that return NaN for NaN.
So the program computes plain products, which takes a third less time. It runs the guarded list only if a result has a NaN.

Scans that are linear in their carries (backward passes) multiply the factors of the carries before the loop. The pullback of
`sigmoid(x)` multiplies a cotangent by three arrays in succession. The arrays do not depend on the cotangent, so their product
is computed for all steps at once, and each step computes one product. The product of the factors may leave the range of the
dtype where successive products with the cotangent do not. Overflow makes the results infinite or NaN. `FACTORS` detects
underflow and returns NaN. The program then runs the guarded list.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.passes.hoist import Writer
from functad.compilation.passes.loops import with_shorter_loops
from functad.compilation.passes.peephole import Rewriter
from functad.compilation.passes.rewrites import index
from functad.control.scan import SCAN
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of, mark_reached, marks_at
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.elementwise.selection import DROPPED, KEPT
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.safe import passed_on
from functad.transforms.linear import is_linear_in
from functad.transforms.lists import extract, trace


class Unguarded(NamedTuple):
    """A list without guards.

    Attributes:
        expressions: the list.
        checked: positions of the results that are checked: if one has a NaN, the program runs the guarded list.
        finite: `True` if an infinity in a checked result has the same effect.
    """

    expressions: Expressions
    checked: tuple[int, ...]
    finite: bool = False


def unguarded(expressions: Expressions) -> Unguarded | None:
    """Return a list without the guards that a check of the results can replace, or `None` if there are no such guards."""
    own, taken = _without_guards(expressions, [False] * len(expressions.outputs))
    if not taken:
        return None
    combined, changed = with_coefficients(own)
    shorter = with_shorter_loops(extract(combined), extract) if changed else own  # `extract` moves no signs
    if has_factors(shorter):
        shorter, changed = own, []
    reached = {*taken, *changed}
    for e in own.equations:
        if not reached.isdisjoint(inputs_of(e)):
            reached.update(e.outputs)
    checked = tuple([i for i, s in enumerate(own.outputs) if type(s) is int and s in reached])
    return Unguarded(_simplified(shorter), checked, bool(changed))


def _simplified(expressions: Expressions) -> Expressions:
    return extract(Rewriter(expressions, index(False, False)).run())


def _without_guards(expressions: Expressions, hidden: Sequence[bool]) -> tuple[Expressions, list[int]]:
    """Return a list without guards, and the slots that may be NaN because a guard is missing.

    Args:
        expressions: the list.
        hidden: for each output, `True` if a NaN in the output may stay undetected.
    """
    lost = _lost(expressions, hidden)
    writer, moved, taken = Writer(list(expressions.specs)), dict[int, Any](), list[int]()
    specs, equations = writer.specs, writer.equations
    for e in expressions.equations:
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in e.inputs])
        new = Equation(e.primitive, inputs, e.params, e.outputs)
        if e.primitive is SCAN:
            body, inside = _without_guards(e.params["body"], _hidden_in(e, lost))
            if inside:
                new = Equation(SCAN, inputs, {**e.params, "body": _simplified(body)}, e.outputs)
                taken += e.outputs
        elif e.primitive.plain is not None and not lost[e.outputs[0]] and _has_mask(e, specs):
            made = _plain(e.primitive, tuple([_spec(s, specs) for s in inputs]))
            if made.results == [specs[e.outputs[0]]]:
                [moved[e.outputs[0]]] = found = writer.inline(made, inputs)
                taken += found
                continue
        equations.append(new)
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs, specs=tuple(specs)), taken


def _has_mask(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Return `False` for `KEPT` and `DROPPED` with a second argument that is not boolean, else `True`."""
    return e.primitive not in (KEPT, DROPPED) or _spec(e.inputs[1], specs).dtype.kind == "b"


def _spec(source: Any, specs: Sequence[ArraySpec]) -> ArraySpec:
    return specs[source] if type(source) is int else spec_of(source.value)


@functools.lru_cache(maxsize=4096)
def _plain(primitive: Any, specs: Sequence[ArraySpec]) -> Expressions:
    """Return the list of the plain version of a guarded primitive."""
    return trace("jit", primitive.plain, specs)


def hides_nan(expressions: Expressions, slots: Sequence[int]) -> bool:
    """Return `True` if a NaN in one of the slots may not reach the results of a list.

    A NaN in a slot is visible if each element of the slot reaches a result through functions that return NaN for NaN. Other
    readers of the slot do not matter then.
    """
    first = min(slots, default=0)
    lost = _lost(expressions, [False] * len(expressions.outputs), first)
    candidates = {s for s in slots if lost[s]}
    if not candidates:
        return False
    outputs = [s for s in expressions.outputs if type(s) is int]
    seen = marks_at(outputs, len(expressions.specs))
    used = set(outputs)
    for e in reversed(expressions.equations):
        if e.outputs[-1] < first:
            break
        used.update(inputs_of(e))
        if e.primitive.reads_all and any(seen[s] for s in e.outputs):
            for place in passed_on(e, expressions.specs):
                if type(source := e.inputs[place]) is int:
                    seen[source] = True
    return any(not seen[s] and s in used for s in candidates)


def _lost(expressions: Expressions, hidden: Sequence[bool], first: int = 0) -> list[bool]:
    """Return for each slot `True` if a NaN in it may not reach a checked result. Slots before `first` may be wrong."""
    lost = [False] * len(expressions.specs)

    def lose(source: Any) -> None:
        if type(source) is int:
            lost[source] = True

    for source, is_hidden in zip(expressions.outputs, hidden, strict=True):
        if is_hidden:
            lose(source)
    for e in reversed(expressions.equations):
        if e.outputs[-1] < first:
            break
        if e.primitive is SCAN:
            for source, is_lost in zip(e.inputs, _lost(e.params["body"], _hidden_in(e, lost)), strict=False):
                if is_lost:
                    lose(source)
            continue
        passing = passed_on(e, expressions.specs) if not any(lost[s] for s in e.outputs) else ()
        for place, source in enumerate(e.inputs):
            if place not in passing:
                lose(source)
    return lost


def _hidden_in(scan: Equation, lost: Sequence[bool]) -> list[bool]:
    """Return for each output of the body of a scan `True` if a NaN in it may stay undetected."""
    hidden = [lost[s] for s in scan.outputs]
    for _ in range(scan.params["carries"] + 1):  # a carry hidden by a step is hidden in the step before too
        inside = _lost(scan.params["body"], hidden)
        found = [a or (i < scan.params["carries"] and inside[i]) for i, a in enumerate(hidden)]
        if found == hidden:
            break
        hidden = found
    return hidden


_ADD: Any = ENTRIES[np.add]
_SUBTRACT: Any = ENTRIES[np.subtract]
_MULTIPLY: Any = ENTRIES[np.multiply]
_DIVIDE: Any = ENTRIES[np.divide]
_NEGATIVE: Any = ENTRIES[np.negative]

_SMALLEST = {np.dtype(kind): float(np.finfo(kind).smallest_normal) for kind in (np.float32, np.float64)}


def _product_of_factors(x: Any, y: Any) -> Any:
    """Return `x * y`, with NaN in all elements if one element underflows."""
    out = x * y
    size = abs(out)
    tiny = _SMALLEST[out.dtype]
    if not out.size or size.item(size.argmin()) >= tiny:  # `argmin` takes 0.6 us of 120, a reduction 1.7 us
        return out
    return out * np.nan if np.any((size < tiny) & (x != 0) & (y != 0)) else out


FACTORS = elementwise(
    _product_of_factors,
    lambda g, y: g * y,
    lambda g, x: g * x,
    spec=ufunc_spec(np.multiply, keeps_weak=True),
    doc="as multiply; NaN where the product underflows",
    registered=False,
)


class _Product(NamedTuple):
    """A value of a step as `base * factor`, where `factor` does not depend on the carries.

    Attributes:
        base: the slot of the first factor.
        factor: the source of the second factor.
        steps: the number of operations that the product replaces.
    """

    base: int
    factor: Any
    steps: int


def with_coefficients(expressions: Expressions) -> tuple[Expressions, list[int]]:
    """Return a list with one factor per carry in linear scans, and the slots of all results of the changed scans.

    A factor may leave the range of its dtype where successive products do not. Then the results are infinite or NaN. A scan is
    changed only if all values computed from its results are linear in them, so that the program can detect this.
    """
    equations, changed = list(expressions.equations), list[int]()
    for i, e in enumerate(expressions.equations):
        if e.primitive is not SCAN or not any(spec.shape for spec in e.params["body"].specs):  # scalars take no time
            continue
        body, carries = e.params["body"], range(e.params["carries"])
        after = expressions.replace(equations=expressions.equations[i + 1 :])
        if not _is_linear(body, carries) or not _is_linear(after, e.outputs):
            continue
        new = _Regrouped(body, len(carries)).run()
        if new is not None:
            equations[i] = Equation(SCAN, e.inputs, {**e.params, "body": new}, e.outputs)
            changed += e.outputs
    return expressions.replace(equations=tuple(equations)), changed


def _is_linear(expressions: Expressions, slots: Iterable[int]) -> bool:
    """Return `True` if all values that depend on some slots are linear in them, and pass NaN on."""
    moving = set(slots)
    for e in expressions.equations:
        places = [i for i, s in enumerate(e.inputs) if type(s) is int and s in moving]
        if not places:
            continue
        moving.update(e.outputs)
        if e.primitive is SCAN:
            if not _is_linear(e.params["body"], [*places, *range(e.params["carries"])]):
                return False
        elif not is_linear_in(e.primitive, tuple(places), e.params) or not {*places} <= {*passed_on(e, expressions.specs)}:
            return False
    return True


class _Regrouped:
    """A rewrite of the body of a scan."""

    def __init__(self, body: Expressions, carries: int) -> None:
        self.body = body
        self.specs = list(body.specs)
        self.moving = mark_reached(marks_at(range(carries), len(body.specs)), body.equations)
        self.equations: list[Equation] = []
        self.products: dict[int, _Product] = {}
        self.saved = 0

    def run(self) -> Expressions | None:
        """Return the rewritten body, or `None` if it saves nothing."""
        for e in self.body.equations:
            product = self._product(e)
            if product is None:
                self.equations.append(e)
                continue
            [slot] = e.outputs
            self.products[slot] = product
            if product.steps == 1:
                self.equations.append(e)
            else:
                self.saved += 1
                self.equations.append(Equation(_MULTIPLY, (product.base, product.factor), {}, (slot,)))
        return self.body.replace(equations=tuple(self.equations), specs=tuple(self.specs)) if self.saved else None

    def _product(self, e: Equation) -> _Product | None:
        """Return the result of an equation as a product, or `None` if it is not one."""
        if len(e.outputs) != 1 or not self.moving[e.outputs[0]]:
            return None
        out, moving = self.specs[e.outputs[0]], [s for s in inputs_of(e) if self.moving[s]]
        if out.dtype not in _SMALLEST or any(self.specs[s] != out for s in moving):
            return None
        if e.primitive is _MULTIPLY:
            [fixed] = [s for s in e.inputs if s not in moving]
            known = self.products.get(moving[0])
            if known is None:
                return _Product(moving[0], fixed, 1) if self._fits(fixed, out) else None
            return self._made(FACTORS, (known.factor, fixed), known.base, known.steps + 1, out)
        found = [self.products[s] for s in moving if s in self.products]
        if len(found) != len(e.inputs) or len({p.base for p in found}) != 1:
            return None
        if e.primitive is _NEGATIVE or e.primitive is _ADD or e.primitive is _SUBTRACT:
            count = sum(p.steps for p in found) + 1
            return self._made(e.primitive, tuple([p.factor for p in found]), found[0].base, count, out)
        return None

    def _fits(self, factor: Any, out: ArraySpec) -> bool:
        spec = spec_of(factor.value) if isinstance(factor, Constant) else self.specs[factor]
        return (spec.weak or spec.dtype == out.dtype) and spec.ndim <= out.ndim

    def _made(self, primitive: Primitive, given: tuple[Any, ...], base: int, count: int, out: ArraySpec) -> _Product | None:
        """Write the equation of a factor and return the product, or `None` if the factor does not fit `out`."""
        specs = [s.value if isinstance(s, Constant) else self.specs[s] for s in given]
        spec = primitive.spec(*specs)
        if not all(self._fits(s, out) for s in given) or (primitive is FACTORS and spec.weak):
            return None
        slot = len(self.specs)
        self.specs.append(spec)
        self.equations.append(Equation(primitive, given, {}, (slot,)))
        return _Product(base, slot, count)


def has_factors(expressions: Expressions) -> bool:
    """Return `True` if steps of a scan multiply factors, which takes longer than two products with the carry."""
    bodies = [e.params["body"] for e in expressions.equations if e.primitive is SCAN]
    return any(any(e.primitive is FACTORS for e in body.equations) or has_factors(body) for body in bodies)
