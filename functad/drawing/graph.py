"""Graphs of expression lists: boxes for equations, inputs, constants and outputs; long lists are folded.

The end of the file writes graphs as text: DOT for Graphviz, and Mermaid.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from functad.display import bytes_text, counted, cut
from functad.expressions.expressions import Constant, Expressions, Row, call_name
from functad.expressions.listing import short_line
from functad.expressions.records import BACKWARD, FORWARD, TANGENT, Place
from functad.expressions.spec import ArraySpec, spec_or_none

INPUT, CONSTANT, OUTPUT, EQUATION, FOLD, LOOP = "input", "constant", "output", "equation", "fold", "loop"
_MANY = 24
_LETTERS = 22
_PORTS = 3


@dataclass(slots=True)
class Node:
    """A box of the graph.

    Attributes:
        kind: `input`, `constant`, `output`, `equation`, `loop` (an equation that holds lists) or `fold` (many equations).
        phase: `forward`, `backward` or `tangent`.
        title, detail: the text in the box.
        tip: the tooltip, one fact per line.
        count: the number of equations in the box.
    """

    kind: str
    phase: str
    title: str
    detail: str = ""
    tip: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A value from one box to another, with its type or the number of values as the label."""

    source: int
    target: int
    label: str


@dataclass(slots=True)
class Graph:
    """The boxes in topological order, and the links; no two links have the same ends and label."""

    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    folded: int = 0


@dataclass(slots=True)
class _Unit:
    """The equations of one box: their indices, and the text of the box if there are several."""

    indices: list[int]
    title: str
    detail: str
    phase: str


def graph_of(expressions: Expressions, results: Sequence[str], limit: int | None) -> Graph:
    """Return the graph of an expression list with named results and at most `limit` equation boxes."""
    rows = expressions._rows()
    units = _units(rows, limit)
    graph = Graph(folded=sum([len(unit.indices) for unit in units if len(unit.indices) > 1]))
    made = _Maker(expressions, graph)
    made.inputs()
    for unit in units:
        made.unit(unit, rows)
    made.outputs(results)
    made.finish()
    return graph


class _Maker:
    """Builds a graph box by box; `makers` has the box that computes each slot."""

    def __init__(self, expressions: Expressions, graph: Graph) -> None:
        self.expressions = expressions
        self.graph = graph
        self.makers: dict[int, int] = {}
        self.values: dict[tuple[int, int], dict[int, None]] = {}  # the slots between each source and target

    def add(self, node: Node) -> int:
        """Add a box and return its number."""
        self.graph.nodes.append(node)
        return len(self.graph.nodes) - 1

    def inputs(self) -> None:
        """Add the inputs; if there are many, one box per argument."""
        expressions = self.expressions
        used = {s for e in expressions.equations for s in e.inputs if type(s) is int} | set(expressions.outputs)
        slots = range(len(expressions.inputs))
        names = [_root(name) for name in expressions.inputs] if len(slots) > _MANY else list(expressions.inputs)
        for name, run in itertools.groupby(slots, lambda slot: names[slot]):
            own = list(run)
            specs = [expressions.specs[slot] for slot in own]
            size = bytes_text(sum([spec.nbytes for spec in specs]))
            detail = counted(len(own), "array") if len(own) > 1 else "" if own[0] in used else f"{specs[0]}, unused"
            number = self.add(Node(INPUT, FORWARD, name, detail, f"input {name}\n{_types(specs)}, {size}"))
            self.makers |= dict.fromkeys(own, number)

    def unit(self, unit: _Unit, rows: Sequence[Row]) -> None:
        """Add the box of some equations, the constants that they read, and the links to the box."""
        equations = [self.expressions.equations[i] for i in unit.indices]
        alone = len(equations) == 1
        constants = [self.constant(s, unit.phase) for s in equations[0].inputs if _is_array(s)] if alone else []
        number = self.add(_node_of(rows[unit.indices[0]]) if alone else _fold_of(unit, rows))
        for constant, spec in constants:
            self.graph.links.append(Link(constant, number, str(spec)))
        for equation in equations:
            for source in equation.inputs:
                if type(source) is int and (maker := self.makers.get(source, number)) != number:
                    self.values.setdefault((maker, number), {})[source] = None
            self.makers |= dict.fromkeys(equation.outputs, number)

    def constant(self, source: Any, phase: str) -> tuple[int, ArraySpec]:
        """Add the box of a constant array and return its number and spec."""
        spec = spec_or_none(source.value)
        assert spec is not None
        node = Node(CONSTANT, phase, "constant", "", f"constant {spec}, {bytes_text(spec.nbytes)}")
        return self.add(node), spec

    def outputs(self, results: Sequence[str]) -> None:
        """Add the outputs; if there are many, one box per root name such as an argument or `result`."""
        sources = self.expressions.outputs
        names = [_root(name) for name in results] if len(results) > _MANY else list(results)
        if len(set(names)) > _MANY:
            names = ["result"] * len(names)
        for name, run in itertools.groupby(range(len(sources)), lambda i: names[i]):
            own = list(run)
            specs = [self.expressions.results[i] for i in own]
            plain = [sources[i] for i in own if isinstance(sources[i], Constant)]
            detail = counted(len(own), "array") if len(own) > 1 else cut(repr(plain[0]), _LETTERS) if plain else ""
            size = bytes_text(sum([spec.nbytes for spec in specs]))
            number = self.add(Node(OUTPUT, FORWARD, name, detail, f"output {name}\n{_types(specs)}, {size}"))
            for i in own:
                source = sources[i]
                if not isinstance(source, Constant):
                    self.values.setdefault((self.makers[source], number), {})[source] = None

    def finish(self) -> None:
        """Add links for the values between boxes: one per type, or one with a count if many values leave the box."""
        specs = self.expressions.specs
        leaving: dict[int, set[int]] = {}
        for (source, _), slots in self.values.items():
            leaving.setdefault(source, set()).update(slots)
        for (source, target), slots in self.values.items():
            if len(leaving[source]) > _PORTS:
                self.graph.links.append(Link(source, target, counted(len(leaving[source]), "value")))
                continue
            self.graph.links += [Link(source, target, label) for label in dict.fromkeys([str(specs[slot]) for slot in slots])]


def _node_of(row: Row) -> Node:
    equation, place = row.equation, row.equation.place
    inner = row.lists
    name, _, params = call_name(equation).partition("[")
    plain = [repr(s) if isinstance(s, Constant) and not _is_array(s) else "·" for s in equation.inputs]
    shown = f"({', '.join(plain)})" if any(part != "·" for part in plain) else ""
    size = bytes_text(row.nbytes)
    tip = [row.text, f"{row.types}, {size}", *_line(row)]
    if inner:
        count = sum([len(own.equations) for _, own in inner])
        shown = counted(count, "equation")
        length = equation.params.get("length")
        shown = f"{shown}, {length} times" if isinstance(length, int) else shown
        tip += [f"{part}: {counted(len(own.equations), 'equation')}" for part, own in inner]
    detail = shown or params.removesuffix("]")
    kind = LOOP if inner else EQUATION
    return Node(kind, place.phase if place is not None else FORWARD, name, cut(detail, _LETTERS), "\n".join(tip), 1)


def _fold_of(unit: _Unit, rows: Sequence[Row]) -> Node:
    own = [rows[i] for i in unit.indices]
    names = Counter([row.equation.primitive.name for row in own])
    listed = ", ".join([f"{count} {name}" for name, count in names.most_common(8)])
    size = bytes_text(sum([row.nbytes for row in own]))
    tip = [f"{counted(len(own), 'equation')}, {size}", listed + (", ..." if len(names) > 8 else "")]
    ends = [line for row in (own[0], own[-1]) for line in _line(row)]
    return Node(FOLD, unit.phase, unit.title, unit.detail, "\n".join(dict.fromkeys([*tip, *ends])), len(own))


def _line(row: Row) -> list[str]:
    place = row.equation.place
    return [f"{short_line(place)}: {place.text}"] if place is not None and place.file else []


def _types(specs: Sequence[ArraySpec]) -> str:
    names = [str(spec) for spec in specs]
    return ", ".join(names[:6]) + (f", ... ({len(names)})" if len(names) > 6 else "")


def _is_array(source: Any) -> bool:
    """Return `True` if a source is a constant array; constant numbers are written into the box of their reader."""
    spec = spec_or_none(source.value) if isinstance(source, Constant) else None
    return spec is not None and spec.ndim > 0


def _root(name: str) -> str:
    return name.replace(".", "[").partition("[")[0] or name


# Folding


def _units(rows: Sequence[Row], limit: int | None) -> list[_Unit]:
    """Split a list into boxes: single equations if the limit allows, else calls, lines and runs of equations are folded."""
    units = [_single(i, row) for i, row in enumerate(rows)]
    if limit is None or len(units) <= limit:
        return units
    calls = _joined_by(lambda place: (place.call, place.function), units, rows)
    for folded in (calls, _joined_by(lambda place: (place.where, cut(place.text, _LETTERS)), units, rows)):
        opened = _opened(folded, rows, limit)
        if limit <= 2 * len(opened) <= 2 * limit:
            return opened
    return list(_chunks(calls if len(calls) > limit else units, rows, limit))


def _opened(units: list[_Unit], rows: Sequence[Row], limit: int) -> list[_Unit]:
    """Split the smallest units into single equations again, as many as the limit allows."""
    left = limit - len(units)
    single: set[int] = set()
    for unit in sorted(units, key=lambda unit: (len(unit.indices), -unit.indices[0])):  # the last is often the outermost call
        left -= len(unit.indices) - 1
        if left < 0:
            break
        single.add(unit.indices[0])
    return [
        part
        for unit in units
        for part in ([_single(i, rows[i]) for i in unit.indices] if unit.indices[0] in single else [unit])
    ]


def _single(number: int, row: Row) -> _Unit:
    place = row.equation.place
    return _Unit([number], row.equation.primitive.name, "", place.phase if place is not None else FORWARD)


def _joined_by(key: Callable[[Place], tuple[Any, str]], units: Sequence[_Unit], rows: Sequence[Row]) -> list[_Unit]:
    """Join consecutive single equations of one phase with the same key of their places; the key ends with the title."""

    def key_of(unit: _Unit) -> Any:
        place = rows[unit.indices[0]].equation.place
        return (unit.phase, *key(place)) if place is not None and place.file else (id(unit), "")

    runs = [(made[-1], list(run)) for made, run in itertools.groupby(units, key_of)]
    return [own[0] if len(own) == 1 else _joined(own, rows, title) for title, own in runs]


def _chunks(units: Sequence[_Unit], rows: Sequence[Row], limit: int) -> Iterator[_Unit]:
    """Yield at most `limit` units of consecutive equations; each has one phase, unless there are more runs of phases."""
    runs = [list(run) for _, run in itertools.groupby(units, lambda unit: unit.phase)]
    if len(runs) > limit:
        runs = [list(units)]
    size = -(-len(units) // (limit - len(runs) + 1))
    for run in runs:
        for start in range(0, len(run), size):
            own = run[start : start + size]
            yield own[0] if len(own) == 1 else _joined(own, rows)


def _joined(units: Sequence[_Unit], rows: Sequence[Row], title: str = "") -> _Unit:
    """Join several units into one. The default of the title is the common title, the common line or the primitives."""
    indices = [i for unit in units for i in unit.indices]
    phase = Counter([unit.phase for unit in units]).most_common(1)[0][0]
    count = counted(len(indices), "equation")
    titles = {unit.title for unit in units if len(unit.indices) > 1}
    places = [rows[i].equation.place for i in indices]
    first = places[0]
    if title:
        return _Unit(indices, title, count, phase)
    if len(titles) == 1 and all(len(unit.indices) > 1 for unit in units):
        return _Unit(indices, f"{len(units)} x {titles.pop()}", count, phase)
    if first is not None and first.file and len({place.where for place in places if place is not None}) == 1:
        return _Unit(indices, cut(first.text, _LETTERS), count, phase)
    common = Counter([rows[i].equation.primitive.name for i in indices]).most_common()
    named = ", ".join([*[name for name, _ in common[:2]], *["..."][: len(common) > 2]])
    return _Unit(indices, count, cut(named, _LETTERS), phase)


# Graphs as text

_DOT_SHAPES = {
    INPUT: 'shape=box, style="rounded,filled", fillcolor="#eeeeee"',
    CONSTANT: 'shape=note, color="#6b6b6b"',
    OUTPUT: 'shape=box, style="rounded,bold"',
    EQUATION: "shape=box",
    LOOP: "shape=box, peripheries=2",
    FOLD: "shape=box3d",
}
_DOT_PHASES = {
    FORWARD: ', color="#1f6fb2"',
    BACKWARD: ', shape=octagon, color="#a85400"',
    TANGENT: ', shape=hexagon, color="#2b7d3f"',
}
_MERMAID_SHAPES = {
    INPUT: ("([", "])"),
    CONSTANT: ("[/", "/]"),
    OUTPUT: ("([", "])"),
    EQUATION: ("[", "]"),
    LOOP: ("[[", "]]"),
    FOLD: ("[[", "]]"),
}
_OPERATIONS = (EQUATION, LOOP, FOLD)


def dot(graph: Graph) -> str:
    """Return the graph in DOT, the language of Graphviz; equations of a backward pass are octagons."""
    lines = [
        "digraph functad {",
        "  rankdir=TB;",
        '  node [fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=9];',
    ]
    for number, node in enumerate(graph.nodes):
        shape = _DOT_SHAPES[node.kind] + (_DOT_PHASES[node.phase] if node.kind in _OPERATIONS else "")
        lines.append(f"  n{number} [label={_quoted(_label(node))}, tooltip={_quoted(node.tip)}, {shape}];")
    lines += [f"  n{link.source} -> n{link.target} [label={_quoted(link.label)}];" for link in graph.links]
    return "\n".join([*lines, "}"])


def mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flowchart for Markdown pages; equations of derivatives are hexagons."""
    lines = ["flowchart TD"]
    for number, node in enumerate(graph.nodes):
        opening, closing = _MERMAID_SHAPES[node.kind]
        if node.kind in _OPERATIONS and node.phase != FORWARD:
            opening, closing = "{{", "}}"
        group = node.phase if node.kind in _OPERATIONS else node.kind
        lines.append(f'  n{number}{opening}"{_coded(_label(node))}"{closing}:::{group}')
    lines += [f'  n{link.source} -->|"{_coded(link.label)}"| n{link.target}' for link in graph.links]
    lines += [f"  classDef {group} stroke:{color},fill:none" for group, color in _MERMAID_COLORS.items()]
    return "\n".join(lines)


_MERMAID_COLORS = {
    FORWARD: "#1f6fb2",
    BACKWARD: "#a85400",
    TANGENT: "#2b7d3f",
    **dict.fromkeys((INPUT, CONSTANT, OUTPUT), "#6b6b6b"),
}


def _label(node: Node) -> str:
    return f"{node.title}\n{node.detail}" if node.detail else node.title


def _quoted(text: str) -> str:
    """Return a text as a DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _coded(text: str) -> str:
    """Return a text with Mermaid's special characters as numeric codes."""
    signs = {sign: f"#{ord(sign)};" for sign in '#"<>&`[]{}|\\'}
    return "".join([signs.get(sign, sign) for sign in text]).replace("\n", "<br/>")
