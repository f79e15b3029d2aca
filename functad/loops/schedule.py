"""The schedule of loop nests: merged and unrolled loops, the order of the loops, and strips that stay in the cache.

A nest is a chain of `For` loops in which each body consists of the next loop only. The position of each load and store is a sum
of loop indices with coefficients. `flattened` merges neighbouring loops that all arrays traverse alike, and unrolls short
innermost loops.

`scheduled` moves the loop with the shortest steps through memory to the innermost place. If
arrays disagree about that loop, as in `x.T + y`, it divides the innermost loop into strips and moves the loop over the strips
outwards. The cache lines of a strip then serve several iterations of the loop around it.

Loops are only exchanged if no iteration reads or writes an element before an iteration that came first writes it. Each element
of a sum still receives its terms in the same order.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from functad.loops.build import Code
from functad.loops.ir import (
    Allocate,
    Block,
    Call,
    For,
    Function,
    If,
    Leave,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    Store,
    affine,
    is_name,
    operands_of,
    renamed,
    result_of,
    walk,
)

STRIP = 32
"""The length of a strip: so many cache lines of an array are read in turn.

With strips, `x.T + y` of 2048 x 2048 takes 15 ms in place of 39, `x.T * 2` of 4000 x 4000 takes 33 in place of 107, and
`np.sum(x.T * y.T, axis=0)` of 1000 x 1000 takes 1.6 in place of 5.2. Strips of 64 are no faster.
"""

LARGE = 4_096
"""Nests with fewer iterations are left alone: their arrays are in the cache."""

LINE = 8
"""The steps of a loop that cost as much as a cache line, in elements."""


UNROLLED = 8
"""Innermost loops of up to this many iterations together are unrolled."""


class Access(NamedTuple):
    """A load or store in a nest.

    Attributes:
        buffer: the name of the buffer.
        writes: `True` for a store.
        steps: the coefficient of each loop index in the position.
        first: the constant term of the position.
    """

    buffer: str
    writes: bool
    steps: dict[str, int]
    first: int


# Merged and unrolled loops


def flattened(code: Code) -> None:
    """Merge the loops of the nests of a function that all arrays traverse alike, and unroll short innermost loops."""
    code.nodes = [_flat(code, node) if isinstance(node, For) else node for node in code.nodes]


def _flat(code: Code, node: For) -> For:
    """Return a nest with merged and unrolled loops."""
    loops = chain(node)
    if any(isinstance(own, (For, If, Block, Loop)) for own in loops[-1].body) or any(length_of(loop) is None for loop in loops):
        return node
    body = _Body(code, loops)
    groups = [[loops[0]]]
    for loop in loops[1:]:
        if body.joins(groups[-1][-1], loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    sizes = [math.prod([length_of(loop) or 0 for loop in group]) for group in groups]
    count, size = 0, 1
    for n in reversed(sizes):
        size *= n
        if size > UNROLLED or math.prod(sizes) // size < UNROLLED:
            break
        count += 1
    if len(groups) == len(loops) and not count:
        return node
    kept = len(groups) - count
    for values in itertools.product(*map(range, sizes[kept:])):
        body.add({group[-1].variable: value for group, value in zip(groups[kept:], values, strict=True)})
    nodes = tuple(body.nodes)
    for i in reversed(range(kept)):
        last = loops[-1] if i == kept - 1 else groups[i][-1]._replace(vector=False, masked=False)
        nodes = (last._replace(variable=groups[i][-1].variable, first="0", stop=str(sizes[i]), body=nodes),)
    [found] = nodes
    assert isinstance(found, For)
    return found


class _Body:
    """The body of a nest, which is written again for other loops. Equal operations are written once.

    Args:
        code: the function.
        loops: the loops of the nest.

    Attributes:
        nodes: the new nodes.
    """

    def __init__(self, code: Code, loops: Sequence[For]) -> None:
        self.code, self.body = code, loops[-1].body
        self.nodes: list[Node] = []
        self.depth = {loop.variable: i for i, loop in enumerate(loops)}
        self.merged: set[str] = set()
        self.places: dict[int, tuple[dict[str, int], int]] = {}  # positions, by the number of the load or store
        self.values: set[str] = set()  # names that are read other than in positions
        self.stored = {node.buffer for node in self.body if isinstance(node, (Store, Reduce))}
        self._copies = 0
        self._known: dict[Any, str] = {}
        made = {node.result: node for node in self.body if isinstance(node, Op)}
        for number, node in reversed(list(enumerate(self.body))):
            if isinstance(node, (Load, Store, Reduce)):
                place = affine(node.position, made)
                if place is None:
                    self.values.add(node.position)
                else:
                    self.places[number] = place
                if not isinstance(node, Load):
                    self.values.add(node.value)
            elif not _is_position(node) or node.result in self.values:  # type: ignore[union-attr]
                self.values.update([operand for _, operand in operands_of(node)])

    def joins(self, outer: For, inner: For) -> bool:
        """Merge two neighbouring loops if each position depends only on the number of an iteration of both."""
        length = length_of(inner)
        assert length is not None
        if {outer.variable, inner.variable} & self.values or (inner.first, inner.step, outer.first, outer.step) != (
            "0",
            1,
            "0",
            1,
        ):
            return False
        steps = [steps for steps, _ in self.places.values()]
        if any(own.get(outer.variable, 0) != own.get(inner.variable, 0) * length for own in steps):
            return False
        self.merged.add(outer.variable)
        return True

    def add(self, values: dict[str, int]) -> None:
        """Add the nodes of an iteration; `values` has the known indices."""
        names = {name: str(value) for name, value in values.items()}
        suffix, self._copies = f".unrolled{self._copies}" if self._copies else "", self._copies + 1
        for number, node in enumerate(self.body):
            if number not in self.places and _is_position(node) and node.result not in self.values:  # type: ignore[union-attr]
                continue
            own, position = result_of(node), self._position(*self.places[number], names) if number in self.places else ""
            node = renamed(node, names, suffix)
            if position:
                node = node._replace(position=position)  # type: ignore[call-arg]
            if own is None or isinstance(node, Allocate):
                self.nodes.append(node)
                continue
            known = self._value(node)
            if known is None:
                self.nodes.append(node)
            else:
                names[own[1]] = known

    def _value(self, node: Node) -> str | None:
        """Return the known name or literal of the result of a node, else `None`."""
        if isinstance(node, Op) and node.of == "i64" and node.name in _FOLDED and not any(map(is_name, node.operands)):
            return str(int(_FOLDED[node.name](*map(int, node.operands))))
        if isinstance(node, Op) and node.name == "select" and not is_name(node.operands[0]):
            return node.operands[1 if int(node.operands[0]) else 2]
        if (isinstance(node, Load) and node.buffer in self.stored) or (isinstance(node, Call) and not node.pure):
            return None
        key = node._replace(result="")  # type: ignore[call-arg]
        known = self._known.get(key)
        if known is None:
            self._known[key] = node.result  # type: ignore[union-attr]
        return known

    def _position(self, steps: dict[str, int], first: int, names: dict[str, str]) -> str:
        """Write the operations that compute a position, and return its name or literal."""
        total = ""
        for name in sorted(steps, key=lambda name: self.depth.get(name, -1)):
            own = names.get(name, name)
            if not is_name(own):
                first += steps[name] * int(own)
            elif name not in self.merged:
                term = own if steps[name] == 1 else self._operation("mul", own, str(steps[name]))
                total = self._operation("add", total, term) if total else term
        return total if total and not first else self._operation("add", total, str(first)) if total else str(first)

    def _operation(self, name: str, *operands: str) -> str:
        node = Op("", name, "i64", "i64", operands)
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self.code.fresh("i64").name
            self.nodes.append(node._replace(result=known))
        return known


_FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "udiv": operator.floordiv, "urem": operator.mod,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
"""The operations on known indices."""


def _is_position(node: Node) -> bool:
    """Return `True` for an operation that may be a term of a position."""
    return isinstance(node, Op) and node.kind == "i64" and node.name in ("add", "sub", "mul")


def chain(node: For) -> list[For]:
    """Return the loops of a nest, outermost first."""
    found = [node]
    while len(node.body) == 1 and isinstance(node.body[0], For):
        node = node.body[0]
        found.append(node)
    return found


# The order of the loops


def scheduled(function: Function) -> Function:
    """Return a function with loops in the order of memory. Its buffers share no memory."""
    return function._replace(body=_body(function.body))


def _body(body: Sequence[Node]) -> tuple[Node, ...]:
    return tuple([_nest(node) if isinstance(node, For) else node for node in body])


def _nest(node: For) -> Node:
    """Return a nest in its best order."""
    loops = nest_of(node)
    accesses = accesses_of(loops) if len(loops) > 1 and _is_large(loops) else None
    if accesses is None:
        return node
    body = loops[-1].body
    best = _innermost(loops, accesses)
    if best < len(loops) - 1 and all(may_exchange(loops[best], other, loops, accesses) for other in loops[best + 1 :]):
        loops = [*loops[:best], *loops[best + 1 :], loops[best]]
    place = next((i for i, loop in enumerate(loops[:-1]) if _reuses(loops[-1], loop, accesses)), None)
    if place is not None and all(may_exchange(loop, loops[-1], loops, accesses) for loop in loops[place:-1]):
        return nested(loops[:place], (stripped(loops[place:], body),))
    return nested(loops, body)


def _innermost(loops: Sequence[For], accesses: Sequence[Access]) -> int:
    """Return the place of the loop with the shortest steps; a loop that only adds to an element does not count."""
    found = len(loops) - 1
    for i in reversed(range(len(loops) - 1)):
        adds = any(access.writes and not access.steps.get(loops[i].variable) for access in accesses)
        if not adds and cost_of(loops[i], accesses) < cost_of(loops[found], accesses):
            found = i
    return found


def nest_of(node: For) -> list[For]:
    """Return the loops of a nest, outermost first."""
    found = [node]
    while len(node.body) == 1 and isinstance(node.body[0], For) and not node.counted:
        node = node.body[0]
        if node.counted or node.masked or {node.first, node.stop} & {loop.variable for loop in found}:
            break
        found.append(node)
    return found


def nested(loops: Sequence[For], body: tuple[Node, ...]) -> For:
    """Return a nest of loops around a body. Only the innermost loop is a vector loop."""
    vector = any(loop.vector for loop in loops)
    for i, loop in enumerate(reversed(loops)):
        body = (loop._replace(body=body, vector=vector and i == 0),)
    [node] = body
    assert isinstance(node, For)
    return node


# Analysis


def accesses_of(loops: Sequence[For]) -> list[Access] | None:
    """Return the loads and stores of a nest; `None` if not all of them are known."""
    body = loops[-1].body
    made: dict[str, Op] = {}
    computed = {own[1] for node in walk(body) if not isinstance(node, For) and (own := result_of(node)) is not None}
    found = []
    for node in walk(body):
        if isinstance(node, Op):
            made[node.result] = node
            if node.name == "address":
                return None
        elif (isinstance(node, Call) and not node.pure) or isinstance(node, (For, Leave, Loop, If, Reduce)):
            return None
        elif isinstance(node, (Load, Store)):
            position = affine(node.position, made)
            if position is None or not computed.isdisjoint(position[0]):
                if isinstance(node, Store):
                    return None
                found.append(Access(node.buffer, False, {"?": 1}, 0))
                continue
            found.append(Access(node.buffer, isinstance(node, Store), *position))
    written = {access.buffer for access in found if access.writes}
    return None if any("?" in access.steps and access.buffer in written for access in found) else found


def length_of(loop: For) -> int | None:
    """Return the number of iterations; `None` if it is not known."""
    if is_name(loop.first) or is_name(loop.stop):
        return None
    return max(0, -(-(int(loop.stop) - int(loop.first)) // loop.step))


def cost_of(loop: For, accesses: Sequence[Access]) -> int:
    """Return the cost of the memory accesses of an iteration if a loop is innermost, in elements."""
    return sum(
        min(abs(access.steps.get(loop.variable, 0)) * loop.step, LINE) - 1
        for access in accesses
        if access.steps.get(loop.variable)
    )


def may_exchange(outer: For, inner: For, loops: Sequence[For], accesses: Sequence[Access]) -> bool:
    """Return `True` if two loops of a nest may be exchanged.

    An exchange reverses the order of two accesses to one element that are `m > 0` iterations of the outer loop and `-n < 0`
    iterations of the inner loop apart.
    """
    return not any(
        _is_reversed(one, other, outer, inner, loops)
        for one in accesses
        for other in accesses
        if one.writes and one.buffer == other.buffer
    )


def _is_reversed(one: Access, other: Access, outer: For, inner: For, loops: Sequence[For]) -> bool:
    """Return `True` if an exchange may reverse the order of two accesses to an element."""
    if one.steps != other.steps:
        return True
    gap = other.first - one.first
    terms = sorted(
        [(abs(one.steps[loop.variable]) * loop.step, loop) for loop in loops if one.steps.get(loop.variable)], key=_step
    )
    while terms:
        reach = _reach(terms[:-1])
        if reach is None or terms[-1][0] <= reach + abs(gap):
            break
        _, loop = terms.pop()  # both accesses have the same index of this loop
        if loop in (outer, inner):
            return False
    rest = _reach([term for term in terms if term[1] not in (outer, inner)])
    a, b = [one.steps.get(loop.variable, 0) * loop.step for loop in (outer, inner)]
    count = length_of(inner)
    if not a or not b or rest is None or count is None:
        return True
    for m in range(1, (abs(b) * (count - 1) + rest + abs(gap)) // abs(a) + 1):
        for sign in (1, -1):  # m iterations of the outer loop later, n of the inner loop earlier; and the other way round
            if any(abs(a * m - b * n - sign * gap) <= rest for n in _near(a * m - sign * gap, b, rest, count)):
                return True
    return False


def _step(term: tuple[int, For]) -> int:
    return term[0]


def _reach(terms: Sequence[tuple[int, For]]) -> int | None:
    """Return the largest difference of positions by the indices of loops; `None` if a length is not known."""
    total = 0
    for step, loop in terms:
        length = length_of(loop)
        if length is None:
            return None
        total += step * (length - 1)
    return total


def _near(target: int, step: int, rest: int, count: int) -> range:
    """Return the numbers from 1 to `count - 1` whose product with `step` may be within `rest` of `target`."""
    low, high = sorted(((target - rest) / step, (target + rest) / step))
    return range(max(1, int(low) - 1), min(count - 1, int(high) + 1) + 1)


# Strips


def _is_large(loops: Sequence[For]) -> bool:
    size = 1
    for loop in loops:
        length = length_of(loop)
        size *= LARGE if length is None else length
    return size >= LARGE


def _reuses(inner: For, outer: For, accesses: Sequence[Access]) -> bool:
    """Return `True` if an array has long steps along the inner loop, and short ones along the outer loop."""
    length = length_of(inner)
    if inner.step != 1 or (length is not None and length < 2 * STRIP):
        return False
    return any(
        abs(access.steps.get(inner.variable, 0)) >= LINE and 0 < abs(access.steps.get(outer.variable, 0)) < LINE
        for access in accesses
    )


def stripped(loops: Sequence[For], body: tuple[Node, ...]) -> For:
    """Return a nest with the innermost loop divided into strips, and the loop over the strips outermost."""
    inner = loops[-1]
    strip = f"{inner.variable}.strip"
    end, more, stop = [f"{strip}.{name}" for name in ("limit", "fits", "last")]
    nest = nested([*loops[:-1], inner._replace(first=strip, stop=stop)], body)
    bound = (
        Op(end, "add", "i64", "i64", (strip, str(STRIP))),
        Op(more, "lt", "i1", "i64", (end, inner.stop)),
        Op(stop, "select", "i64", "i64", (more, end, inner.stop)),
    )
    return For(strip, inner.first, inner.stop, STRIP, (*bound, nest))
