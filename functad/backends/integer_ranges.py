"""Ranges of Python integers in an expression list.

Python integers are unbounded. NumPy raises OverflowError if a Python integer does not fit the integer dtype of the other
operand. Compiled code holds Python integers as int64. `large_equations` returns the equations for which int64 may give a
different result. It propagates the range of each Python integer through the list and its loops (interval arithmetic).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions, inner_lists, source_spec
from functad.expressions.spec import ArraySpec
from functad.primitives.indexing.read import GATHER
from functad.primitives.table import Table

Range: TypeAlias = tuple[int, int]
"""The smallest and the largest value of a Python integer."""

INT64 = (-(2**63), 2**63 - 1)
INT32 = (-(2**31), 2**31 - 1)

PLAIN_STEPS = 64
"""The number of loop steps that are followed one by one. Later, ranges may grow only by a constant in each step."""

MOST_STEPS = 2**40
"""The assumed largest number of steps of a `while_loop`: more steps would take longer than ten minutes."""

Slots: TypeAlias = dict[int, "Range | None"]
Growth: TypeAlias = tuple[int, "Range"]


def large_equations(expressions: Expressions, given: Sequence[Range | None]) -> list[int]:
    """Return the indices of the equations with Python integers that may not fit int64 or the dtype of another operand.

    Args:
        expressions: the list.
        given: for each input, the range of a Python integer; `None` for anything else.
    """
    return _followed(expressions, given).large


def results_fit(expressions: Expressions, given: Sequence[Range | None]) -> bool:
    """Return `True` if int64 holds every Python integer of a list, its results included."""
    found = _followed(expressions, given)
    return not found.large and found.fits


def integers_of(expressions: Expressions) -> list[int]:
    """Return the positions of the inputs that are Python integers."""
    return [i for i, spec in enumerate(expressions.specs[: len(expressions.inputs)]) if is_python_integer(spec)]


def is_python_integer(spec: ArraySpec) -> bool:
    """Return `True` for a spec of Python integers; a Python bool is 0 or 1."""
    return spec.weak and spec.dtype.kind in "ib"


class _Followed(NamedTuple):
    """The ranges in one run of a list.

    Attributes:
        ranges: by slot, the range of a Python integer; `None` if it is unknown.
        growths: by slot, the carry and the range of the difference between the value and this carry.
        large: the indices of the equations for which int64 may be too small.
        results: the ranges of the results.
        moved: the growths of the results; `None` for a result that is not a carry plus a range.
        fits: `True` if int64 holds the results.
    """

    ranges: Slots
    growths: dict[int, Growth]
    large: list[int]
    results: list[Range | None]
    moved: list[Growth | None]
    fits: bool


def _followed(expressions: Expressions, given: Sequence[Range | None], carries: int = 0) -> _Followed:
    """Follow the ranges of Python integers through a list; the first `carries` inputs are the carry of a loop."""
    specs = expressions.specs
    ranges: Slots = {i: r for i, r in enumerate(given) if is_python_integer(specs[i])}
    ranges.update({i: (0, 1) for i in ranges if specs[i].dtype.kind == "b"})
    growths: dict[int, Growth] = {i: (i, (0, 0)) for i in ranges if i < carries}
    large = []

    for number, equation in enumerate(expressions.equations):
        operands = [_range_of(s, ranges) for s in equation.inputs]
        given_specs = [source_spec(s, specs) for s in equation.inputs]
        results = [specs[s] for s in equation.outputs]
        if not any(map(is_python_integer, (*given_specs, *results))) and not holds_lists(equation):
            continue
        found, fits = _results(equation, operands, results)
        for s, spec, r in zip(equation.outputs, results, found, strict=True):
            if is_python_integer(spec):
                ranges[s] = (0, 1) if spec.dtype.kind == "b" else r
                fits = fits and _within(ranges[s], INT64)
        if not fits or not _operands_fit(equation, operands, given_specs, results):
            large.append(number)
        growth = _growth(equation, operands, growths)
        if growth is not None:
            growths[equation.outputs[0]] = growth
    outs = [_range_of(s, ranges) for s in expressions.outputs]
    moved = [None if isinstance(s, Constant) else growths.get(s) for s in expressions.outputs]
    fit = all(_within(r, INT64) for r, spec in zip(outs, expressions.results, strict=True) if is_python_integer(spec))
    return _Followed(ranges, growths, large, outs, moved, fit)


def _range_of(source: int | Constant, ranges: Slots) -> Range | None:
    if not isinstance(source, Constant):
        return ranges.get(source)
    return (int(source.value), int(source.value)) if type(source.value) in (int, bool) else None


def _within(found: Range | None, limits: Range) -> bool:
    return found is not None and limits[0] <= found[0] and found[1] <= limits[1]


def _operands_fit(
    equation: Equation, operands: Sequence[Range | None], given: Sequence[ArraySpec], results: Sequence[ArraySpec]
) -> bool:
    """Return `True` if int64 and the integer dtypes of the other operands hold the Python integers among the operands."""
    strong = (
        [] if holds_lists(equation) or equation.primitive is GATHER else [spec for spec in (*given, *results) if not spec.weak]
    )
    limits = [INT64, *[(int(np.iinfo(s.dtype).min), int(np.iinfo(s.dtype).max)) for s in strong if s.dtype.kind in "iu"]]
    inexact = any(spec.dtype.kind in "fc" for spec in strong)
    for source, own, spec in zip(equation.inputs, operands, given, strict=True):
        if not is_python_integer(spec):
            continue
        if isinstance(source, Constant) and inexact and len(limits) == 1:
            continue  # the compiler converts the literal to floating point as NumPy does
        if not all(_within(own, each) for each in limits):
            return False
    return True


def holds_lists(equation: Equation) -> bool:
    """Return `True` if an equation holds lists."""
    return equation.primitive.inner is not None or bool(list(inner_lists(equation.params)))


def _results(
    equation: Equation, operands: Sequence[Range | None], specs: Sequence[ArraySpec]
) -> tuple[list[Range | None], bool]:
    """Return the ranges of the results of an equation, and `True` if int64 is enough for all nested lists."""
    unknown: list[Range | None] = [None] * len(specs)
    params, inner = equation.params, equation.primitive.inner
    if inner is not None:
        found = _followed(inner, operands)
        return found.results, not found.large and found.fits
    if "branches" in params:
        return _branches(params["branches"], operands[1:])
    if isinstance(params.get("body"), Expressions) and "carries" in params:
        last, rows, fits = _loop(params, operands)
        return [*last, *rows, *unknown][: len(specs)], fits
    if holds_lists(equation):
        return unknown, not any(map(is_python_integer, specs))
    rule = RANGES.find(equation.primitive)
    known = [r for r in operands if r is not None and max(map(abs, r)).bit_length() <= MOST_BITS]
    if rule is None or len(known) != len(operands):
        return unknown, True
    return [rule(*known)], True


def _branches(branches: Sequence[Expressions], operands: Sequence[Range | None]) -> tuple[list[Range | None], bool]:
    each = [_followed(branch, operands) for branch in branches]
    found = [_joined(list(of_one)) for of_one in zip(*[branch.results for branch in each], strict=True)]
    return found, not any(branch.large or not branch.fits for branch in each)


def _joined(found: Sequence[Range | None]) -> Range | None:
    known = [r for r in found if r is not None]
    return (min(r[0] for r in known), max(r[1] for r in known)) if known and len(known) == len(found) else None


# Loops


def _loop(params: Any, operands: Sequence[Range | None]) -> tuple[list[Range | None], list[Range | None], bool]:
    """Return the ranges of the last carry and of the other results, and `True` if int64 is enough in all steps."""
    body, cond, carries = params["body"], params.get("cond"), params["carries"]
    first, outer = list(operands[:carries]), list(operands[carries : len(body.inputs)])
    loop = _Loop(body, cond, first, outer, params.get("length"))
    state = loop.settled()
    last = _followed(body, [*loop.entered(state), *outer])
    fits = not last.large and last.fits
    if cond is not None:
        test = _followed(cond, [*state, *outer])
        fits = fits and not test.large
    return state, last.results[carries:], fits


class _Loop:
    """Computes ranges of the carry of a loop that hold in all steps.

    Args:
        body: the list of one step.
        cond: the condition of a `while_loop`.
        first: the ranges of the first carry.
        outer: the ranges of the other inputs of a step.
        length: the number of steps; `None` if it is unknown.
    """

    def __init__(
        self,
        body: Expressions,
        cond: Expressions | None,
        first: list[Range | None],
        outer: list[Range | None],
        length: int | None,
    ) -> None:
        self.body, self.cond, self.first, self.outer = body, cond, first, outer
        self.length = MOST_STEPS if length is None else length
        self.integers = [i for i in range(len(first)) if is_python_integer(body.specs[i])]

    def settled(self) -> list[Range | None]:
        """Return ranges that hold in all steps; `None` for an unknown range."""
        state = [r if i in self.integers else None for i, r in enumerate(self.first)]
        if not self.integers:
            return state
        open_ = set(self.integers)
        while open_ and (found := self._constant_growth(state, open_)):
            state = [found.get(i, r) for i, r in enumerate(state)]
            open_ -= set(found)
        return self._step_by_step(state, open_)

    def entered(self, state: Sequence[Range | None], unknown: Sequence[int] | set[int] = ()) -> list[Range | None]:
        """Return the ranges at the start of a step, where the condition holds."""
        limits = self._limits(state, unknown)
        return [_met(r, limits.get(i)) for i, r in enumerate(state)]

    def _limits(self, state: Sequence[Range | None], unknown: Sequence[int] | set[int] = ()) -> dict[int, tuple[Any, Any]]:
        """Return the bounds that the condition sets for carries."""
        if self.cond is None or isinstance(self.cond.outputs[0], Constant):
            return {}
        known = [None if i in unknown else r for i, r in enumerate(state)]
        found = _followed(self.cond, [*known, *self.outer])
        return _bounds(self.cond, found.ranges, self.cond.outputs[0], len(state))

    def _run(self, state: Sequence[Range | None], unknown: set[int]) -> _Followed:
        given = [None if i in unknown else r for i, r in enumerate(self.entered(state, unknown))]
        return _followed(self.body, [*given, *self.outer], len(state))

    def _constant_growth(self, state: Sequence[Range | None], unknown: set[int]) -> dict[int, Range]:
        """Return the ranges of carries that change by a value of a known range in each step."""
        moved, found = self._run(state, unknown).moved, {}
        steps = self._steps(state, unknown, moved)
        for i in unknown:
            growth, first = moved[i], self.first[i]
            if growth is None or growth[0] != i or first is None:
                continue
            low, high = growth[1]
            found[i] = (first[0] + min(low, 0) * steps, first[1] + max(high, 0) * steps)
        return found

    def _steps(self, state: Sequence[Range | None], unknown: set[int], moved: Sequence[Growth | None]) -> int:
        """Return an upper bound of the number of steps. The condition may bound a carry that grows in each step."""
        most = self.length
        for i, (low, high) in self._limits(state, unknown).items():
            growth, first = moved[i], self.first[i]
            if growth is None or growth[0] != i or first is None:
                continue
            least, largest = growth[1]
            if least > 0 and high is not None:
                most = min(most, max(0, (high - first[0]) // least + 1))
            elif largest < 0 and low is not None:
                most = min(most, max(0, (first[1] - low) // -largest + 1))
        return most

    def _step_by_step(self, state: list[Range | None], open_: set[int]) -> list[Range | None]:
        """Follow the remaining carries for `PLAIN_STEPS` steps. Carries that still change then become unknown."""
        for _ in range(min(self.length, PLAIN_STEPS)):
            after = self._run(state, set()).results
            new = [_joined([r, after[i]]) if i in open_ else r for i, r in enumerate(state)]
            if new == state:
                return state
            state = new
            if any(not _within(state[i], INT64) for i in open_):
                break
        else:
            if self.length <= PLAIN_STEPS:
                return state
        return [None if i in open_ else r for i, r in enumerate(state)]


def _met(found: Range | None, limits: tuple[Any, Any] | None) -> Range | None:
    """Return the part of a range within limits."""
    if found is None or limits is None:
        return found
    low = found[0] if limits[0] is None else max(found[0], limits[0])
    high = found[1] if limits[1] is None else min(found[1], limits[1])
    return (low, high) if low <= high else found


def _bounds(cond: Expressions, ranges: Slots, slot: Any, carries: int) -> dict[int, tuple[Any, Any]]:
    """Return the bounds of carries that follow from a true slot of a condition."""
    made = next((e for e in cond.equations if slot in e.outputs), None)
    if made is None or len(made.inputs) != 2:
        return {}
    function = made.primitive.function
    if function in (np.logical_and, np.bitwise_and):
        left, right = [{} if isinstance(s, Constant) else _bounds(cond, ranges, s, carries) for s in made.inputs]
        return {i: right.get(i) or left[i] for i in (*left, *right)} if not left.keys() & right.keys() else {**right, **left}
    if function not in (np.less, np.less_equal, np.greater, np.greater_equal):
        return {}
    x, y = made.inputs if function in (np.less, np.less_equal) else reversed(made.inputs)
    strict = int(function in (np.less, np.greater))
    found: dict[int, tuple[Any, Any]] = {}
    below, above = _range_of(x, ranges), _range_of(y, ranges)
    if not isinstance(x, Constant) and x < carries and above is not None:
        found[x] = (None, above[1] - strict)
    if not isinstance(y, Constant) and y < carries and below is not None:
        found[y] = (below[0] + strict, None)
    return found


def _growth(equation: Equation, operands: Sequence[Range | None], growths: dict[int, Growth]) -> Growth | None:
    """Return the carry that a sum or a difference is based on, and the range of the difference to this carry."""
    function, sources = equation.primitive.function, equation.inputs
    if function is np.positive and not isinstance(sources[0], Constant):
        return growths.get(sources[0])
    if function not in (np.add, np.subtract):
        return None
    pairs = [(0, 1), (1, 0)] if function is np.add else [(0, 1)]
    for i, j in pairs:
        source, other = sources[i], operands[j]
        growth = None if isinstance(source, Constant) else growths.get(source)
        if growth is not None and other is not None:
            rule = RANGES.find(equation.primitive)
            total = None if rule is None else rule(growth[1], other)
            return None if total is None else (growth[0], total)
    return None


# Interval arithmetic

MOST_BITS = 256
"""Ranges of integers with more bits are treated as unknown."""

RANGES: Table[Callable[..., Range | None]] = Table()
"""By primitive, the rule from the ranges of the operands to the range of the result."""

_rule: Callable[..., Callable[[Callable[..., Range | None]], Callable[..., Range | None]]] = RANGES.add


def _corners(function: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """Return the rule of a function that takes its extreme values at the ends of ranges."""

    def rule(a: Range, b: Range) -> Range:
        found = [function(x, y) for x in a for y in b]
        return min(found), max(found)

    return rule


@_rule(np.floor_divide)
def _quotient(a: Range, b: Range) -> Range:
    most = max(map(abs, a))
    return -most, most


@_rule(np.remainder)
def _remainder(a: Range, b: Range) -> Range:
    if b[0] > 0:
        return 0, b[1] - 1
    return min(b[0], 0), max(b[1], 0)


@_rule(np.left_shift)
def _left_shift(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x << y)(a, b) if b[0] >= 0 and b[1] <= MOST_BITS else None


@_rule(np.right_shift)
def _right_shift(a: Range, b: Range) -> Range | None:
    return (min(a[0], 0), max(a[1], 0)) if b[0] >= 0 else None


@_rule(np.power)
def _power(a: Range, b: Range) -> Range | None:
    most = max(map(abs, a))
    if b[0] < 0 or (most > 1 and b[1] > MOST_BITS):
        return None
    if a[0] == a[1] and b[0] == b[1]:
        return a[0] ** b[0], a[0] ** b[0]
    largest = max(1, most ** min(b[1], MOST_BITS))
    return (-largest if a[0] < 0 else 0), largest


def _bits(a: Range, b: Range) -> Range:
    """Return the range of all integers with as many bits as the operands."""
    most = 2 ** max(x.bit_length() for x in (*a, *b))
    return (0 if min(a[0], b[0]) >= 0 else -most), most - 1


@_rule(np.bitwise_and)
def _and(a: Range, b: Range) -> Range:
    tops = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(tops)) if tops else _bits(a, b)


@_rule(np.absolute)
def _absolute(a: Range) -> Range:
    ends = sorted(map(abs, a))
    return (0 if a[0] <= 0 <= a[1] else ends[0]), ends[1]


_rule(np.add)(lambda a, b: (a[0] + b[0], a[1] + b[1]))
_rule(np.subtract)(lambda a, b: (a[0] - b[1], a[1] - b[0]))
_rule(np.multiply)(_corners(lambda x, y: x * y))
_rule(np.negative)(lambda a: (-a[1], -a[0]))
_rule(np.positive, np.conjugate, np.real)(lambda a: a)
_rule(np.imag)(lambda a: (0, 0))
_rule(np.invert)(lambda a: (-a[1] - 1, -a[0] - 1))
_rule(np.sign)(lambda a: (-1, 1))
_rule(np.square)(lambda a: (0, max(map(abs, a)) ** 2))
_rule(np.bitwise_or, np.bitwise_xor)(_bits)
