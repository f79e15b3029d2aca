"""The reductions of a loop nest: accumulators, blocks with error compensation, and functions with quick formulas.

`Reduce` says which elements a nest reduces, without an order. `lowered` replaces it by loads, operations and stores:

- If the innermost loops reduce, an accumulator in a register receives the values. A long sum consists of sums of blocks, added
  with error compensation; it is at least as accurate as NumPy's sum. If loops around them reduce too, the sums are added to the
  element in memory.
- If the reduction is complete in one iteration, the value is stored.
- Otherwise the element in memory receives the values one after the other.

NumPy multiplies the elements of a product in order. In another order, as in vector lanes, a partial product may overflow or
underflow although none does in NumPy's order, and an infinite one may then be multiplied by zero. The fast product of a block
is therefore used only if no partial product in any order leaves the normal range. The product before the block times all
factors above 1 must be finite, and times all factors below 1 it must be normal. Other blocks are multiplied in order.

Functions with a quick formula use it for whole blocks. A block with a rare argument, for which the formula is invalid, is
computed again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from functad.loops.build import Code, Index
from functad.loops.elementary.table import ELEMENTARY, called_symbol, definition
from functad.loops.ir import REALS, Call, For, Load, Node, Op, Reduce, Store, affine, is_name, renamed
from functad.loops.schedule import chain, length_of
from functad.loops.values import Value, where

BLOCK = 256
"""The number of elements summed without error compensation, and computed by quick formulas before these are checked."""

LARGE = 16_384
"""Longer loops compute the remainder with scalar calls; shorter loops use a masked vector."""

SHORT = 16
"""Products of fewer elements are always computed in order."""

_SMALLEST_NORMAL = {"double": 2.0**-1022, "float": 2.0**-126}
_LEAST = {"double": -math.inf, "float": -math.inf, "i64": -(2**63), "i32": -(2**31), "i1": 0}
_LARGEST = {"double": math.inf, "float": math.inf, "i64": 2**63 - 1, "i32": 2**31 - 1, "i1": 1}


def start_of(how: str, kind: str) -> float:
    """Return the result of a reduction of no elements."""
    return {"sum": 0, "prod": 1, "any": 0, "all": 1, "max": _LEAST[kind], "min": _LARGEST[kind]}[how]


def combined(how: str, x: Value, y: Value) -> Value:
    """Return the reduction of two values."""
    if how in ("any", "all") or x.kind == "i1":
        return x | y if how in ("any", "max") else x & y
    if how == "sum":
        return x.body.emit("add", x.kind, x, y, loose="reassoc") if x.is_real else x + y
    if how == "prod":
        return x * y
    if x.is_real:
        return x.body.call("maximum" if how == "max" else "minimum", x, y)
    return where(x > y, x, y) if how == "max" else where(x < y, x, y)


def lowered(code: Code) -> None:
    """Replace the reductions of the nests of a function, and use quick formulas in them."""
    nodes, code.nodes = code.nodes, []
    for node in nodes:
        loops = chain(node) if isinstance(node, For) else []
        nest = _Nest(code, loops) if loops else None
        if nest is not None and nest.is_changed:
            nest.write()
        else:
            code.nodes.append(node)


class Element(NamedTuple):
    """An element of a buffer that a nest reduces, or one for each iteration of some of its loops.

    Attributes:
        how, kind: the reduction and its type.
        buffer: the name of the buffer.
        steps: the coefficients of loop indices in the position.
        first: the constant term of the position.
        reduced: the numbers of the loops that reduce.
        start: the first of the innermost loops that all reduce.
    """

    how: str
    kind: str
    buffer: str
    steps: dict[str, int]
    first: int
    reduced: tuple[int, ...]
    start: int

    @property
    def is_rounded(self) -> bool:
        """`True` for a sum of real numbers."""
        return self.how == "sum" and self.kind in REALS

    @property
    def is_ordered(self) -> bool:
        """`True` if partial results in another order may overflow or underflow."""
        return self.how == "prod" and self.kind in REALS


class _Nest:
    """A nest of a function.

    Args:
        code: the function.
        loops: the loops, outermost first.
    """

    def __init__(self, code: Code, loops: Sequence[For]) -> None:
        self.code, self.loops = code, loops
        self.body = loops[-1].body
        self.straight = loops[-1].vector
        calls = [node.function for node in self.body if isinstance(node, Call) and node.pure]
        self.calls = any(_is_long(symbol) for symbol in calls)
        touched = {node.buffer for node in self.body if isinstance(node, Store)}
        self.repeats = touched.isdisjoint(node.buffer for node in self.body if isinstance(node, Load))
        self.long = self._length(-1) > BLOCK
        self.counted = self.straight and self.calls and self._length(-1) >= LARGE
        reduces = any(isinstance(node, Reduce) for node in self.body)
        quick = self.straight and self.repeats and any(_has_quick(symbol) for symbol in calls)
        self.is_changed = reduces or quick or self.counted
        self.elements: dict[int, Element] = {}
        if reduces:
            self._find_elements()
        self.every = list({id(e): e for e in self.elements.values()}.values())
        own = [e for e in self.every if e.reduced]
        self.numbers = [e for e in own if e.start == e.reduced[0] or (e.start < len(loops) and not e.is_ordered)]
        self.spread = [e for e in own if e not in self.numbers]
        self.quick = quick and not self.spread
        ordered = any(e.is_ordered for e in self.numbers)
        self.any_order = self.repeats and not self.spread and self._length(-1) >= SHORT and ordered
        self.scalars: dict[int, Value] = {}
        self.blocks: dict[int, Value] = {}
        self.rare: Value | None = None
        self.copies = 0

    def _length(self, number: int) -> float:
        length = length_of(self.loops[number])
        return math.inf if length is None else length

    def _find_elements(self) -> None:
        """Find the elements of the reductions, by the number of the node in the body."""
        made = {node.result: node for node in self.body if isinstance(node, Op)}
        known: dict[tuple[str, object], Element] = {}
        for number, node in enumerate(self.body):
            if not isinstance(node, Reduce):
                continue
            position = affine(node.position, made)
            assert position is not None, "the position of a reduction is a sum of loop indices with coefficients"
            steps, first = position
            key = node.buffer, (tuple(sorted(steps.items())), first)
            if key not in known:
                reduced = tuple([i for i, loop in enumerate(self.loops) if loop.variable not in steps])
                start = len(self.loops)
                while start - 1 in reduced:
                    start -= 1
                known[key] = Element(node.how, node.kind, node.buffer, steps, first, reduced, start)
            self.elements[number] = known[key]

    def write(self) -> None:
        """Write the nest."""
        self.scalars = {id(e): self.code.allocate(e.kind, 2) for e in self.numbers}
        self._level(0)

    def _level(self, axis: int) -> None:
        """Write a loop, and the loops inside it."""
        code, loop = self.code, self.loops[axis]
        for element in self.numbers:
            if element.start == axis:
                self._clear(element, self.scalars[id(element)], element.is_rounded)
        self._clear_arrays([e for e in self.every if e.reduced and e.reduced[0] == axis != e.start], axis)
        if axis == len(self.loops) - 1:
            self._innermost()
        else:
            with code.body() as nodes:
                self._level(axis + 1)
            code.nodes.append(loop._replace(body=tuple(nodes)))
        for element in self.numbers:
            if element.start == axis:
                self._finish(element)

    def _clear(self, element: Element, place: Value, compensated: bool = False) -> None:
        """Store the result of an empty reduction."""
        self.code.store(place, 0, self.code.constant(start_of(element.how, element.kind), element.kind))
        if compensated:
            self.code.store(place, 1, self.code.constant(0, element.kind))

    def _clear_arrays(self, elements: Sequence[Element], axis: int) -> None:
        """Store the results of empty reductions in all elements of an iteration of the loops before `axis`."""
        code = self.code
        groups: dict[tuple[int, ...], list[Element]] = defaultdict(list)
        for e in elements:
            groups[e.reduced].append(e)
        for reduced, own in groups.items():
            names: dict[str, str] = {}
            with ExitStack() as stack:
                for i, loop in enumerate(self.loops[axis:], axis):
                    if i not in reduced:
                        index = stack.enter_context(
                            code.loop(_index(code, loop.first), _index(code, loop.stop), step=loop.step)
                        )
                        names[loop.variable] = index.name
                for e in own:
                    start = code.constant(start_of(e.how, e.kind), e.kind)
                    code.store(Value(code, e.buffer, "ptr"), self._position(e, names), start)

    def _position(self, element: Element, names: dict[str, str]) -> Index:
        """Return the position of an element, with other names for loop indices."""
        values = [Value(self.code, names.get(name, name), "i64") for name in element.steps]
        return self.code.linear(values, list(element.steps.values()), element.first)

    def _finish(self, element: Element) -> None:
        """Store a result that was accumulated in a scalar."""
        code, place = self.code, self.scalars[id(element)]
        value = code.load(place, 0, element.kind)
        if element.is_rounded:
            value = where(abs(value) < math.inf, value + code.load(place, 1, element.kind), value)
        buffer, position = Value(code, element.buffer, "ptr"), self._position(element, {})
        if element.start != element.reduced[0]:
            value = combined(element.how, code.load(buffer, position, element.kind), value)
        code.store(buffer, position, value)

    # The innermost loop

    def _innermost(self) -> None:
        """Write the innermost loop, which LLVM vectorises; in blocks if it is long."""
        code, loop = self.code, self.loops[-1]
        first, stop = _index(code, loop.first), _index(code, loop.stop)
        counts = Counter(map(id, self.elements.values()))
        sizes = [counts[id(e)] * math.prod([self._length(i) for i in range(e.start, len(self.loops))]) for e in self.numbers]
        if not (self.quick or self.any_order or (self.numbers and (self.long or max(sizes) > BLOCK))):
            self._run(first, stop, straight=self.straight)
            return
        with ExitStack() as stack:
            low, high = first, stop
            if self.long:
                low = stack.enter_context(code.loop(first, stop, step=BLOCK))
                end, limit = low + BLOCK, code.integer(stop)
                high = where(end < limit, end, limit)
            self.blocks = {id(e): code.allocate(e.kind, 3 if e.is_ordered else 1) for e in self.numbers}
            self._clear_blocks(in_order=not self.any_order)
            if self.quick:
                self.rare = code.allocate("i1", 1)
                code.store(self.rare, 0, code.constant(0, "i1"))
            self._run(low, high, straight=self.straight, form="quick" if self.quick else "", in_order=not self.any_order)
            again = self._needs_order() if self.any_order else None
            if self.rare is not None:
                met = code.load(self.rare, 0, "i1")
                again = met if again is None else again | met
            if again is not None:
                with code.when(again):  # rare, so not vectorised
                    self._clear_blocks(in_order=True)
                    self._run(low, high, straight=False)
            for element in self.numbers:
                self._add_block(element)

    def _clear_blocks(self, *, in_order: bool) -> None:
        code = self.code
        for element in self.numbers:
            place = self.blocks[id(element)]
            self._clear(element, place)
            if element.is_ordered and in_order:
                code.store(place, 0, code.load(self.scalars[id(element)], 0, element.kind))
            elif element.is_ordered:
                code.store(place, 1, code.constant(1.0, element.kind))
                code.store(place, 2, code.constant(1.0, element.kind))

    def _needs_order(self) -> Value:
        """Finish the fast products of a block; return `True` (as a value) if one must be computed in order."""
        code, found = self.code, self.code.constant(0, "i1")
        for element in self.numbers:
            if element.is_ordered:
                kind, place = element.kind, self.blocks[id(element)]
                before = code.load(self.scalars[id(element)], 0, kind)
                code.store(place, 0, before * code.load(place, 0, kind))
                largest, least = [abs(before * code.load(place, i, kind)) for i in (1, 2)]
                found = found | ~((largest < math.inf) & (least >= _SMALLEST_NORMAL[kind]))
        return found

    def _multiply(self, place: Value, value: Value) -> None:
        """Multiply in any order; accumulate the factors above 1 and below 1 separately as well."""
        size = abs(value)
        factors = value, where(size > 1.0, size, size.like(1.0)), where(size < 1.0, size, size.like(1.0))
        for i, factor in enumerate(factors):
            known = self.code.load(place, i, value.kind)
            self.code.store(place, i, self.code.emit("mul", known.kind, known, factor, loose="reassoc"))

    def _add_block(self, element: Element) -> None:
        """Add the sum of a block to the total, and the rounding error of the addition to the correction."""
        code, place, kind = self.code, self.scalars[id(element)], element.kind
        block, before = code.load(self.blocks[id(element)], 0, kind), code.load(place, 0, kind)
        if element.is_ordered:  # the block began with the earlier product
            code.store(place, 0, block)
        elif not element.is_rounded:
            code.store(place, 0, combined(element.how, before, block))
        else:
            after = before + block
            part = after - before
            lost = (before - (after - part)) + (block - part)
            code.store(place, 1, code.load(place, 1, kind) + lost)
            code.store(place, 0, after)

    def _run(self, first: Index, stop: Index, *, straight: bool, form: str = "", in_order: bool = True) -> None:
        """Write the innermost loop over some of its indices."""
        code = self.code
        if straight and self.counted:
            first, stop = code.integer(first), code.integer(stop)
            most = ((stop - first) >> 6) << 6
            count = code.emit("freeze", "i64", most)  # LLVM knows only that it is a multiple of 64
            with code.body() as nodes:
                index = code.fresh("i64")  # counts from 0
                self._body(first + index, form, in_order, straight)
            code.nodes.append(For(index.name, "0", count.name, 1, tuple(nodes), vector=True, counted=True))
            first, straight = first + count, False
        with code.body() as nodes:
            index = code.fresh("i64") if self.copies else Value(code, self.loops[-1].variable, "i64")
            self._body(index, form if straight else "called", in_order, straight)
        masked = straight and self.calls
        code.nodes.append(For(index.name, _text(first), _text(stop), self.loops[-1].step, tuple(nodes), straight, masked))

    def _body(self, index: Value, form: str, in_order: bool, straight: bool) -> None:
        """Compute, store and reduce the elements of one iteration."""
        code = self.code
        names = {self.loops[-1].variable: index.name}
        code.vectors += straight
        local: dict[int, tuple[Element, str, Value]] = {}
        suffix, self.copies = f".{self.copies}" if self.copies else "", self.copies + 1
        for number, node in enumerate(self.body):
            if not isinstance(node, Reduce):
                self._write(node if index.name in names else renamed(node, names, suffix), form)
                continue
            element = self.elements[number]
            value = Value(code, names.get(node.value, node.value), node.kind)
            position = names.get(node.position, node.position)
            place = self.blocks.get(id(element)) or self.scalars.get(id(element))
            if place is not None and element.is_ordered and not in_order:
                self._multiply(place, value)
            elif place is not None:
                code.store(place, 0, combined(element.how, code.load(place, 0, element.kind), value))
            elif not element.reduced:
                if id(element) in local:
                    value = combined(element.how, local[id(element)][2], value)
                local[id(element)] = element, position, value
            else:
                buffer, own = Value(code, element.buffer, "ptr"), _index(code, position)
                code.store(buffer, own, combined(element.how, code.load(buffer, own, element.kind), value))
        for element, position, value in local.values():
            code.store(Value(code, element.buffer, "ptr"), _index(code, position), value)
        code.vectors -= straight

    def _write(self, node: Node, form: str) -> None:
        """Append a node; a call of an elementary function takes another form."""
        code = self.code
        if not form or not isinstance(node, Call) or not node.pure or not _is_long(node.function):
            code.nodes.append(node)
            return
        name, kind = node.function.split(".")[1], node.kind
        if form == "called":
            code.called[called_symbol(name, kind)] = name, kind
            code.nodes.append(node._replace(function=called_symbol(name, kind)))
            return
        if not _has_quick(node.function):
            code.nodes.append(node)
            return
        assert self.rare is not None
        beyond, quick = [definition(name, kind, fused=code.fused, form=own) for own in ("beyond", "quick")]
        for own in (beyond, quick):
            code.definitions[own.function.name] = own
        met = code.fresh("i1")
        code.nodes.append(Call(met.name, "i1", beyond.function.name, node.operands, pure=True))
        code.store(self.rare, 0, code.load(self.rare, 0, "i1") | met)
        code.nodes.append(node._replace(function=quick.function.name))


def _index(code: Code, text: str) -> Index:
    """Return the index with a name or literal."""
    return Value(code, text, "i64") if is_name(text) else int(text)


def _text(index: Index) -> str:
    return index.name if isinstance(index, Value) else str(index)


def _row(symbol: str) -> str | None:
    """Return the name of the elementary function that a module defines under a symbol, else `None`."""
    parts = symbol.split(".")
    return parts[1] if parts[0] == "@functad" and len(parts) == 3 else None


def _is_long(symbol: str) -> bool:
    """Return `True` for an elementary function that takes more than a few instructions."""
    name = _row(symbol)
    return name is not None and not ELEMENTARY[name].brief


def _has_quick(symbol: str) -> bool:
    name = _row(symbol)
    return name is not None and ELEMENTARY[name].quick is not None
