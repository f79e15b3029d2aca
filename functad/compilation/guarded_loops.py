"""Loops of a function that `jit` traces with guards: `while error > tol`, `for ... if converged: break`.

A trace with guards has the iterations of such a loop one after the other. `Loops` keeps a graph of all traces of a function
that contain a loop. A node of the graph is a guard, and an edge is the value of the guard with the equations up to the next
guard. If the state of the Python code at a guard equals an earlier state of the trace (see `functad.compilation.states`), the
edge leads back to the node of the earlier guard. Code in an equal state goes on in an equal way, so the edges of a node hold
for every iteration. Each further trace must have the equations of the edges that it takes; otherwise the code depends on state
that no guard shows, and the graph is given up.

The list of a path then has one `while_loop` in place of the iterations. The carry of the loop is the Tensors and counters of
the state that later equations read. The body follows the edges that lead back to the node, with `cond` where there are
several. The loop ends if a guard takes no such edge. The equations and guards behind the loop follow as before: the path is
taken only if its guards hold for the last carry. So the result is exact whatever ends the loop, and a new edge, such as the
other branch of an `if` inside the loop, is one more trace.

A counter is guarded by its regime: an integer that is equal for all values that the code cannot distinguish before the next
guard. The last step of a `range`, or the step before a comparison changes, is an edge of its own.

A loop is made when a trace has returned to a guard at least twice. A trace without such a loop keeps its list.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.guards import Guard
from functad.compilation.states import Counter, State
from functad.control.branches import cond
from functad.control.loops import while_loop
from functad.errors import UnsupportedError
from functad.expressions.digest import digest
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.elementwise.elementary import ADD
from functad.primitives.elementwise.guard import GUARD
from functad.transforms.lists import extract, trace
from functad.trees import LEAF, Structure

MOST_EDGES = 64
"""The loops of a path have at most so many guarded values. A loop with more branches is not compiled as a loop."""

_INT64 = np.dtype(np.int64)
_COUNT = ArraySpec((), _INT64)

Source = int | Constant


class Unrolled(NamedTuple):
    """A trace with guards before equations were removed.

    Attributes:
        equations, specs: the equations of the trace and the specs of its slots.
        inputs, names: the slots of the inputs and their names.
        outputs: the sources of the results, without the vector of guarded values.
        place: the position of this vector among the outputs of the list.
        vector: its slot.
        pieces: the slots of the guarded values.
        guards, states: the guards, and the state of the Python code at each.
        structure: the structure of the result.
    """

    equations: Sequence[Equation]
    specs: Sequence[ArraySpec]
    inputs: Sequence[int]
    names: Sequence[str]
    outputs: Sequence[Source]
    place: int
    vector: int
    pieces: Sequence[int]
    guards: Sequence[Guard]
    states: Sequence[State | None]
    structure: Structure

    def repeats(self) -> bool:
        """Return `True` if the trace returns to a guard at least twice."""
        open_states: list[Any] = []
        counts: dict[Any, int] = {}
        for state in self.states:
            key = None if state is None else state.key
            if key is not None and key in open_states:
                del open_states[open_states.index(key) + 1 :]
                counts[key] = counts.get(key, 0) + 1
            else:
                open_states.append(key)
        return max(counts.values(), default=0) >= 2


class HiddenStateError(Exception):
    """A trace differs from an earlier one with the same guarded values."""


class Edge:
    """The equations that follow a value of a guard, up to the next guard or to the end.

    Attributes:
        equations: the equations.
        target: the node of the next guard; `None` at the end.
        back: `True` if the edge leads back to an earlier node.
        args: the sources of the parameters of the target, or of the results.
        leads: the loops around to which the edge leads back, in the end.
    """

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.target: Node | None = None
        self.back = False
        self.args: list[Source] = []
        self.leads: set[Node] = set()
        self.is_known = False


class Node:
    """A guard.

    Attributes:
        guard: the guard of the first trace.
        parameters: the values of the Tensors of the state, of the counters, and of the guard.
        tensors: the number of Tensors.
        counters: the counters.
        edges: the edges, by the guarded value and the regimes of the counters.
        is_loop: `True` if an edge leads back here.
    """

    def __init__(self, guard: Guard, parameters: list[int], tensors: int, counters: Sequence[Counter]) -> None:
        self.guard = guard
        self.parameters = parameters
        self.tensors = tensors
        self.counters = counters
        self.edges: dict[bytes, Edge] = {}
        self.is_loop = False

    def returns(self, header: Node) -> list[bytes]:
        """Return the values with an edge that leads back to a loop, this node or one before it."""
        return [key for key, edge in self.edges.items() if header in edge.leads]


def _may_stop(node: Node, header: Node) -> bool:
    """Return `True` if an iteration may take an edge that leads neither back nor is known."""
    waiting = [node]
    while waiting:
        own = waiting.pop()
        keys = own.returns(header)
        if own is not header and not _is_complete(own, keys):
            return True
        targets = [own.edges[key].target for key in keys if not own.edges[key].back]
        waiting += [target for target in targets if target is not None]
    return False


def _is_complete(node: Node, keys: Sequence[bytes]) -> bool:
    """Return `True` if the guard of a node can have no other value."""
    return node.guard.wanted == "bool" and not node.counters and len(keys) == 2


class _Open:
    """A node on the way to the running position of a trace."""

    def __init__(self, node: Node, values: dict[int, Source]) -> None:
        self.node = node
        self.values = values  # before the first guard of the node
        self.state: State | None = None
        self.key = b""


class Way(NamedTuple):
    """A trace as a way through the graph, without the iterations of loops.

    Attributes:
        trace: the trace. The list with loops replaces its list.
        start: the edge to the first node.
        steps: the nodes and the values of their guards.
        unrolled: the inputs of the trace.
        specs: their specs.
        counts: the positions of results that are counters, integers of Python.
    """

    trace: Any
    start: Edge
    steps: list[tuple[Node, bytes]]
    unrolled: Unrolled
    specs: Sequence[ArraySpec]
    counts: Sequence[int]

    @property
    def size(self) -> int:
        """The number of edges inside the loops of the way. A way with more edges than before has a new list."""
        known: set[int] = set()
        return sum([len(_inside(node, known)) for node, _ in self.steps])

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The values of the guards."""
        return tuple([key for _, key in self.steps])

    def folded(self) -> Any:
        """Return the trace with loops in its list and with the guards of the way."""
        guards: list[Guard] = []

        def run(*leaves: Any) -> tuple[Any, ...]:
            return _Writing().outputs(self, leaves, guards)

        found = copy.copy(self.trace)
        found.counts = self.counts
        found.expressions = extract(trace("jit", run, self.specs), names=self.unrolled.names)
        found.guards = guards
        return found


class Loops:
    """The graph of the traces of a function for one kind of arguments.

    Attributes:
        ways: the ways of the traces, by the values of their guards.
    """

    def __init__(self) -> None:
        self.ways: dict[tuple[bytes, ...], Way] = {}
        self._specs: list[ArraySpec] = []
        self._of_slots: Sequence[ArraySpec] = ()
        self._counts: list[int] = []
        self._start = Edge()

    def add(self, own: Any, unrolled: Unrolled) -> Way:
        """Add a trace, and return its way.

        Raises:
            HiddenStateError: the trace differs from an earlier one with the same guarded values, or has loops with too many
            branches.
        """
        if not self._start.is_known:
            self._specs = [unrolled.specs[slot] for slot in unrolled.inputs]
        steps = self._walked(unrolled)
        own.unrolled = None
        small = unrolled._replace(equations=(), specs=(), pieces=(), guards=(), states=())
        way = Way(own, self._start, steps, small, self._specs[: len(small.inputs)], self._counts)
        if way.size > MOST_EDGES:
            raise HiddenStateError
        return self.ways.setdefault(way.keys, way)

    # The graph

    def _fresh(self, spec: ArraySpec) -> int:
        self._specs.append(spec)
        return len(self._specs) - 1

    def _walked(self, own: Unrolled) -> list[tuple[Node, bytes]]:
        """Follow a trace through the graph, and add the nodes and edges that it has first."""
        values: dict[int, Source] = {slot: i for i, slot in enumerate(own.inputs)}
        self._of_slots = own.specs
        opened: list[_Open] = []
        edge, number, pieces = self._start, {slot: i for i, slot in enumerate(own.pieces)}, list[Equation]()
        for equation in own.equations:
            if equation.outputs[:1] == (own.vector,) and equation.outputs[0] not in number:
                continue
            if (i := number.get(equation.outputs[0])) is None:
                pieces.append(equation)
                continue
            self._follow(edge, pieces, values)
            pieces = []
            [slot] = equation.inputs
            values, edge = self._at_guard(edge, values, opened, own.guards[i], own.states[i], slot, own.specs)
            for position in equation.outputs:
                values[position] = values[slot]  # type: ignore[index]
        self._follow(edge, pieces, values)
        args = [_found(values, source) for source in own.outputs]
        results = [self._result(edge, opened, own, i, source) for i, source in enumerate(args)]
        self._counts = [i for i, (a, b) in enumerate(zip(args, results, strict=True)) if a is not b]
        args = results
        self._arrive(edge, None, False, args)
        return [(each.node, each.key) for each in opened]

    def _at_guard(
        self,
        edge: Edge,
        values: dict[int, Source],
        opened: list[_Open],
        guard: Guard,
        state: State | None,
        piece: Any,
        specs: Sequence[ArraySpec],
    ) -> tuple[dict[int, Source], Edge]:
        """Arrive at a guard. Return the values behind it, and the edge that follows."""
        back = next((i for i, each in enumerate(opened) if state and each.state and each.state.key == state.key), None)
        slots = () if state is None else state.slots
        counters = () if state is None else state.counters
        args = [_found(values, slot) for slot in slots]
        args += self._counted(edge, opened, state)
        args.append(_found(values, piece))
        if back is not None:
            entry = opened[back]
            node, values = entry.node, dict(entry.values)
            if not edge.is_known:
                node.is_loop = True
                for each in opened[back:]:
                    each.node.edges[each.key].leads.add(node)
            self._arrive(edge, node, True, args)
            del opened[back + 1 :]
        else:
            if edge.is_known:
                if edge.back or edge.target is None or edge.target.tensors != len(slots):
                    raise HiddenStateError
                node = edge.target
            else:
                kinds = [*[specs[slot] for slot in slots], *[_COUNT] * len(counters), specs[piece]]
                node = Node(guard, [self._fresh(spec) for spec in kinds], len(slots), counters)
            self._arrive(edge, node, False, args)
            entry = _Open(node, values)
            opened.append(entry)
        if [each.fixed[1:] for each in node.counters] != [each.fixed[1:] for each in counters]:
            raise HiddenStateError
        values = dict(values)
        values.update(zip(slots, node.parameters, strict=False))
        values[piece] = node.parameters[-1]
        entry.state = state
        regimes = [int(each.regime(each.value)) for each in counters]
        entry.key = guard.key + np.array(regimes, np.int64).tobytes()
        return values, node.edges.setdefault(entry.key, Edge())

    def _counted(self, edge: Edge, opened: list[_Open], state: State | None) -> list[Source]:
        """Return the sources of the counters of a state: the value at the guard before, and the steps since."""
        if state is None or not state.counters:
            return []
        before = next((each for each in reversed(opened) if each.state is not None), None)
        known: dict[Any, tuple[int, int]] = {}
        if before is not None and before.state is not None and before.state.key[0] == state.key[0]:
            places = before.node.parameters[before.node.tensors :]
            known = {c.name: (c.value, place) for c, place in zip(before.state.counters, places, strict=False)}
        return [self._after(edge, known.get(c.name), c, c.value) for c in state.counters]

    def _after(self, edge: Edge, known: tuple[int, int] | None, counter: Counter, value: int) -> Source:
        """Return the source of a value of a counter: its value and source at the guard before, and the steps since."""
        if known is None:
            return Constant(np.int64(value))
        before, source = known
        steps = value - before
        if steps == 0:
            return source
        if not -counter.down <= steps <= counter.up:
            raise HiddenStateError
        inputs = source, Constant(np.int64(steps))
        given = next((e for e in edge.equations if e.primitive is ADD and _same(e.inputs, inputs)), None)
        if given is None:
            if edge.is_known:
                raise HiddenStateError
            given = Equation(ADD, inputs, {}, (self._fresh(_COUNT),))
            edge.equations.append(given)
        return given.outputs[0]

    def _result(self, edge: Edge, opened: Sequence[_Open], own: Unrolled, i: int, source: Source) -> Source:
        """Return the source of a returned integer of Python that is a counter, or the given source."""
        for entry in reversed(opened):
            for k, counter in enumerate(() if entry.state is None else entry.state.counters):
                if counter.returned is None or _leaf(own.structure, *counter.returned) != i:
                    continue
                if not isinstance(source, Constant) or type(source.value) is not int:
                    raise HiddenStateError
                known = counter.value, entry.node.parameters[entry.node.tensors + k]
                return self._after(edge, known, counter, source.value)
        return source

    def _follow(self, edge: Edge, equations: Sequence[Equation], values: dict[int, Source]) -> None:
        """Add equations to a new edge, or compare them with the equations of a known one."""
        if edge.is_known and len(edge.equations) < len(equations):
            raise HiddenStateError
        for i, e in enumerate(equations):
            inputs = tuple([_found(values, source) for source in e.inputs])
            if edge.is_known:
                known = edge.equations[i]
                if (
                    known.primitive is not e.primitive
                    or not _same(known.inputs, inputs)
                    or len(known.outputs) != len(e.outputs)
                ):
                    raise HiddenStateError
                if (known.params or e.params) and _key(known.params) != _key(e.params):
                    raise HiddenStateError
            else:
                outputs = tuple([self._fresh(self._of_slots[slot]) for slot in e.outputs])
                known = Equation(e.primitive, inputs, e.params, outputs, e.place)
                edge.equations.append(known)
            values.update(zip(e.outputs, known.outputs, strict=True))

    def _arrive(self, edge: Edge, target: Node | None, back: bool, args: list[Source]) -> None:
        """Set the target of a new edge, or compare it with the target of a known one."""
        if not edge.is_known:
            edge.target, edge.back, edge.args, edge.is_known = target, back, args, True
        elif edge.target is not target or edge.back is not back or not _same(edge.args, args):
            raise HiddenStateError


# The list with loops


class _Writing:
    """Write the list of a way: evaluate its edges in a trace without values."""

    def __init__(self) -> None:
        self._needed: set[int] = set()

    def outputs(self, way: Way, leaves: Sequence[Any], guards: list[Guard]) -> tuple[Any, ...]:
        """Return the results, the vector of guarded values, and further results. Append the guards of the way."""
        steps, place = way.steps, way.unrolled.place
        edges = [way.start, *[node.edges[key] for node, key in steps]]
        self._note(edges, [node for node, _ in steps])
        values: dict[int, Any] = dict(enumerate(leaves))
        pieces = []
        holds: Any = None  # a loop must not run, perhaps for ever, if a guard before it does not hold
        for edge, (node, key) in zip(edges, steps, strict=False):
            self._run(edge, values)
            self._enter(edge, values, holds)
            taken = _takes(node, key, values)
            holds = taken if holds is None else holds & taken
            piece, expected = _asked(node, values), np.frombuffer(key, np.int64)
            pieces.append(GUARD(piece, value=expected, line=node.guard.line))
            size = len(node.guard.key)
            value = node.guard.value if key[:size] == node.guard.key else expected[0] if size == 8 else expected
            guards.append(node.guard._replace(value=value, key=key))
        self._run(edges[-1], values)
        outs = [_value(values, source) for source in edges[-1].args]
        vector = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return (*outs[:place], vector, *outs[place:])

    def _note(self, edges: Sequence[Edge], nodes: Sequence[Node]) -> None:
        """Find the values that the way reads, loops included."""
        every = list(edges)
        makers: dict[int, list[Source]] = {}
        waiting: list[Source] = list(edges[-1].args)
        known: set[int] = set()
        for node in nodes:
            waiting += node.parameters[node.tensors :]
            every += _inside(node, known)
        for edge in every:
            for e in edge.equations:
                for slot in e.outputs:
                    makers[slot] = list(e.inputs)
            if edge.target is not None:
                waiting += edge.target.parameters[edge.target.tensors :]
                for parameter, source in zip(edge.target.parameters, edge.args, strict=True):
                    makers.setdefault(parameter, []).append(source)
        while waiting:
            source = waiting.pop()
            if type(source) is int and source not in self._needed:
                self._needed.add(source)
                waiting += makers.get(source, [])

    def _run(self, edge: Edge, values: dict[int, Any]) -> None:
        """Evaluate the equations of an edge that are needed."""
        for e in edge.equations:
            if self._needed.isdisjoint(e.outputs):
                continue
            out = e.primitive(*[_value(values, source) for source in e.inputs], **e.params)
            values.update(zip(e.outputs, out if e.primitive.multiple else (out,), strict=True))

    def _enter(self, edge: Edge, values: dict[int, Any], holds: Any = None) -> None:
        """Give the node behind an edge its parameters. If it is a loop, run the loop, unless `holds` is false."""
        node = edge.target
        assert node is not None
        given = zip(node.parameters, edge.args, strict=True)
        values.update({place: _value(values, source) for place, source in given if place in self._needed})
        if node.is_loop and (ways := node.returns(node)):
            self._loop(node, ways, values, holds)

    def _loop(self, node: Node, ways: Sequence[bytes], values: dict[int, Any], holds: Any) -> None:
        """Write the `while_loop` of a node, and give its parameters their last values."""
        carried = [place for place in self._changed(node) if place in self._needed]
        inits = [values[place] for place in carried]

        stops = _may_stop(node, node)  # inside an iteration

        def goes_on(state: list[Any]) -> Any:
            own = {**values, **dict(zip(carried, state, strict=False))}
            taken = functools.reduce(operator.or_, [_takes(node, key, own) for key in ways])
            taken = taken if holds is None else taken & holds
            return taken & state[-1] if stops else taken

        def step(state: list[Any]) -> list[Any]:
            own = {**values, **dict(zip(carried, state, strict=False))}
            after = self._branches(node, node, carried, own, surely=True)
            return after if stops else after[:-1]

        last = while_loop(goes_on, step, [*inits, np.bool_(True)] if stops else inits)
        values.update(zip(carried, last, strict=False))

    def _branches(self, node: Node, header: Node, carried: list[int], values: dict[int, Any], *, surely: bool) -> list[Any]:
        """Return the carry of `header` after an iteration, and `True`; or the carry before, and `False`.

        Args:
            node: the node that the iteration has reached.
            header: the node of the loop.
            carried: the values that the loop carries.
            values: all values.
            surely: the guard of `node` takes one of the edges that lead back.
        """
        keys = node.returns(header)
        complete = surely or _is_complete(node, keys)

        reads = self._reads(node, header).union(carried)

        def along(i: int, own: dict[int, Any]) -> list[Any]:
            edge, own = node.edges[keys[i]], dict(own)
            self._run(edge, own)
            if edge.target is header and edge.back:
                given = dict(zip(header.parameters, edge.args, strict=True))
                return [*[_value(own, given[place]) for place in carried], np.bool_(True)]
            assert edge.target is not None
            self._enter(edge, own)
            return self._branches(edge.target, header, carried, own, surely=False)

        def among(i: int, own: dict[int, Any]) -> list[Any]:
            if i == len(keys):
                return [*[own[place] for place in carried], np.bool_(False)]
            if complete and i == len(keys) - 1:
                return along(i, own)
            places = [place for place in own if place in reads]
            operands = [own[place] for place in places]
            return list(
                cond(
                    _takes(node, keys[i], own),
                    lambda *given: along(i, dict(zip(places, given, strict=True))),
                    lambda *given: among(i + 1, dict(zip(places, given, strict=True))),
                    *operands,
                )
            )

        return among(0, values)

    def _reads(self, node: Node, header: Node) -> set[int]:
        """Return the values that an iteration may read from a node on."""
        edges = _until(node, header)
        found = {source for edge in edges for e in edge.equations for source in e.inputs if type(source) is int}
        found.update(node.parameters)
        for edge in edges:
            assert edge.target is not None
            found.update(source for source in edge.args if type(source) is int)
        return found & self._needed

    def _changed(self, node: Node) -> list[int]:
        """Return the parameters of a loop that an iteration changes."""
        edges = [edge for edge in _inside(node, set()) if edge.target is not None]
        same = _origins([edge for edge in edges if edge.target is not node])
        found = set[int]()
        for edge in edges:
            if edge.target is node:
                given = zip(node.parameters, edge.args, strict=True)
                found |= {place for place, source in given if type(source) is not int or _end(same, source) != place}
        return [place for place in node.parameters if place in found]


def _origins(edges: Sequence[Edge]) -> dict[int, int]:
    """Return, for each parameter of the targets of edges, the one value that it has, if there is one."""
    same: dict[int, int] = {}
    sources: dict[int, set[Any]] = {}
    for edge in edges:
        assert edge.target is not None
        for place, source in zip(edge.target.parameters, edge.args, strict=True):
            sources.setdefault(place, set()).add(source)
    more = True
    while more:
        more = False
        for place, own in sources.items():
            ends = {_end(same, source) for source in own} - {place}
            if place not in same and len(ends) == 1 and type(end := ends.pop()) is int:
                same[place], more = end, True
    return same


def _end(same: dict[int, int], source: Any) -> Any:
    while source in same:
        source = same[source]
    return source


def _inside(node: Node, known: set[int]) -> list[Edge]:
    """Return the edges of all iterations of a loop; none if the node is no loop."""
    found = []
    for edge in _until(node, node) if node.is_loop else ():
        if id(edge) not in known:
            known.add(id(edge))
            found.append(edge)
    return found


def _until(node: Node, header: Node) -> list[Edge]:
    """Return the edges from a node back to a loop, with the edges of the loops between."""
    found, waiting = dict[int, Edge](), [(node, header)]
    while waiting:
        own, end = waiting.pop()
        for edge in own.edges.values():
            if end in edge.leads and id(edge) not in found:
                found[id(edge)] = edge
                if edge.target is not None and not edge.back:
                    waiting.append((edge.target, end))
                    if edge.target.is_loop:
                        waiting.append((edge.target, edge.target))
    return list(found.values())


def _asked(node: Node, values: dict[int, Any]) -> Any:
    """Return the guarded values and the regimes of the counters at a node, as a vector."""
    piece = values[node.parameters[-1]]
    counters = zip(node.counters, node.parameters[node.tensors :], strict=False)
    regimes = [np.reshape(counter.regime(values[place]), (1,)) for counter, place in counters]
    return np.concatenate([piece, *regimes]) if regimes else piece


def _takes(node: Node, key: bytes, values: dict[int, Any]) -> Any:
    """Return the truth value of "the guard and the regimes of the counters have this value"."""
    expected = np.frombuffer(key, np.int64)
    piece, size = values[node.parameters[-1]], len(expected) - len(node.counters)
    found = piece[0] == expected[0] if size == 1 else np.all(piece == expected[:size])
    counters = zip(node.counters, node.parameters[node.tensors :], strict=False)
    for (counter, place), regime in zip(counters, expected[size:].tolist(), strict=True):
        found = found & (counter.regime(values[place]) == regime)
    return found


def _leaf(structure: Structure, count: int, position: int) -> int | None:
    """Return the number of the leaf at a position of a returned tuple of `count` elements; `None` if it is no leaf."""
    if count == 0:
        return 0 if structure is LEAF else None
    if structure.kind is not tuple or len(structure.children) != count or structure.children[position] is not LEAF:
        return None
    return sum([child.leaves for child in structure.children[:position]])


def _found(values: dict[int, Source], source: Any) -> Source:
    """Return the source in the graph for a slot or a constant of a trace.

    Raises:
        HiddenStateError: the slot belongs to an earlier iteration of a loop, and to no state.
    """
    if isinstance(source, Constant):
        return source
    try:
        return values[source]
    except KeyError:
        raise HiddenStateError from None


def _value(values: dict[int, Any], source: Source) -> Any:
    return source.value if isinstance(source, Constant) else values[source]


def _same(own: Sequence[Source], others: Sequence[Source]) -> bool:
    """Return `True` if sources are the same slots and equal constants."""
    return len(own) == len(others) and all(
        a == b if type(a) is int or type(b) is int else _key(a.value) == _key(b.value)  # type: ignore[union-attr]
        for a, b in zip(own, others, strict=True)
    )


def _key(value: Any) -> Any:
    """Return a key that is equal for equal constants and parameters."""
    kind = type(value)
    if kind in (int, str, bool, type(None)):
        return kind, value
    if kind is float or issubclass(kind, (complex, np.generic)):
        return kind, repr(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return kind, value.dtype, value.shape, value.strides, value.tobytes()
    if kind is tuple or kind is list:
        return kind, tuple(map(_key, value))
    if kind is slice:
        return kind, _key(value.start), _key(value.stop), _key(value.step)
    if kind is Expressions:
        try:
            return kind, digest(value)
        except UnsupportedError:
            return kind, id(value)
    if hasattr(value, "items"):
        return kind, tuple([(name, _key(part)) for name, part in value.items()])
    try:
        hash(value)
    except TypeError:
        return kind, id(value)
    return kind, value
