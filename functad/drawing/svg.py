"""SVG pictures of graphs: boxes in layers; colour and shape distinguish forward from derivative equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.display.amounts import counted
from functad.display.graph_layout import Box, Edge, count_points, lay_out
from functad.display.markup import Markup, picture, tag
from functad.drawing.graph import CONSTANT, FOLD, INPUT, LOOP, OUTPUT, Graph, Node
from functad.expressions.observers import BACKWARD, FORWARD, TANGENT

_LETTER, _SMALL = 7.25, 6.05
_LABEL = 15.0
_MARGIN = 10.0
_POINTS = 10_000
_COLORS = {FORWARD: "var(--ftd-blue)", BACKWARD: "var(--ftd-orange)", TANGENT: "var(--ftd-green)"}
_GREY = "var(--ftd-grey)"


def picture_of(graph: Graph, label: str, sorted_ports: list[dict[str, float]] | None = None) -> Markup:
    """Return the drawing of a graph.

    Args:
        graph: the graph.
        label: a description for screen readers.
        sorted_ports: the ports of each box, from left to right. Default: sorted after a first layout.
    """
    ports = sorted_ports or _ports(graph)
    boxes, edges = _parts(graph, ports)
    width, height = lay_out(boxes, edges)
    if sorted_ports is None and _sort_ports(graph, ports, boxes):
        return picture_of(graph, label, ports)
    legend, legend_width = _legend(graph, height + 2 * _MARGIN + 6)
    total = max(width, legend_width) + 2 * _MARGIN
    shift = _MARGIN + max(0.0, (legend_width - width) / 2)
    parts = [_edge(graph, edge) for edge in edges]
    for node, box, labels in zip(graph.nodes, boxes, ports, strict=True):
        parts += [_node(node, box), *_labels(box, labels)]
    drawn = tag("g", *parts, transform=f"translate({shift:g},{_MARGIN:g})")
    return picture(round(total, 1), round(height + 2 * _MARGIN + 28, 1), drawn, legend, label=label)


def fits(graph: Graph) -> bool:
    """Return `True` if a graph is small enough to draw; one with thousands of long edges would take minutes."""
    return count_points(*_parts(graph, _ports(graph))) <= _POINTS


def _parts(graph: Graph, ports: list[dict[str, float]]) -> tuple[list[Box], list[Edge]]:
    boxes = [_box(node, ports[i]) for i, node in enumerate(graph.nodes)]
    return boxes, [Edge(link.source, list(ports[link.source]).index(link.label), link.target) for link in graph.links]


def _ports(graph: Graph) -> list[dict[str, float]]:
    """Return the labels of the values that leave each box, with their widths."""
    found: list[dict[str, float]] = [{} for _ in graph.nodes]
    for link in graph.links:
        found[link.source][link.label] = len(link.label) * _SMALL + 10
    return found


def _sort_ports(graph: Graph, ports: list[dict[str, float]], boxes: Sequence[Box]) -> bool:
    """Sort the ports of each box by the positions of their targets; return `True` if an order changed."""
    ends: dict[tuple[int, str], list[float]] = {}
    for link in graph.links:
        ends.setdefault((link.source, link.label), []).append(boxes[link.target].x)
    changed = False
    for number, own in enumerate(ports):
        order = sorted(own, key=lambda label: sum(ends[number, label]) / len(ends[number, label]))
        changed = changed or order != list(own)
        ports[number] = {label: own[label] for label in order}
    return changed


def _box(node: Node, ports: dict[str, float]) -> Box:
    width = _width(node)
    below = sum(ports.values())
    offsets, x = [], -below / 2
    for taken in ports.values():
        offsets.append(x + taken / 2)
        x += taken
    return Box(
        max(width, below) + (8.0 if node.kind == FOLD else 0.0),
        _height(node) + (_LABEL if ports else 0.0),
        offsets or [0.0],
        late=node.kind in (INPUT, CONSTANT) or node.phase != FORWARD,
    )


def _height(node: Node) -> float:
    return 38.0 if node.detail else 25.0


def _edge(graph: Graph, edge: Edge) -> Markup:
    """Return an edge; it is dashed if it is a residual."""
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    of_target = target.phase if target.kind != OUTPUT else source.phase
    color = _GREY if of_target == FORWARD or source.kind == CONSTANT else _COLORS[of_target]
    kept = target.kind != OUTPUT and target.phase != source.phase and source.kind != CONSTANT
    points = edge.points
    x, y = points[0]
    way = [f"M{x:.1f} {y:.1f}"]
    for (x0, y0), (x1, y1) in zip(points[1::2], points[2::2], strict=False):
        middle = (y0 + y1) / 2
        way.append(f"V{y0:.1f}C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
    x, y = points[-1]
    way.append(f"V{y - 5:.1f}")
    line = tag("path", d="".join(way), fill="none", stroke=color, stroke_width="1.1", stroke_dasharray="4 3" if kept else None)
    head = tag("path", d=f"M{x - 3.2:.1f} {y - 6.5:.1f}L{x:.1f} {y:.1f}L{x + 3.2:.1f} {y - 6.5:.1f}Z", fill=color)
    return tag("g", line, head, class_="ftd-edge", data_from=str(edge.source), data_to=str(edge.target))


def _node(node: Node, box: Box) -> Markup:
    """Return a box with its text and its tooltip."""
    width, height = _width(node), _height(node)
    x, y = box.x - width / 2, box.y
    parts: list[Any] = [tag("title", node.tip)]
    if node.kind == FOLD:
        parts.append(_behind(node, x, y, width, height))
    parts.append(_outline(node, x, y, width, height, fill=True))
    if node.kind == LOOP:
        parts.append(_outline(node, x + 3, y + 3, width - 6, height - 6, fill=False))
    first = y + (16.5 if node.detail else height / 2 + 4)
    parts.append(_text(node.title, box.x, first, weight="600" if node.kind != CONSTANT else None))
    if node.detail:
        parts.append(_text(node.detail, box.x, y + 30, small=True))
    return tag("g", *parts, class_=f"ftd-node ftd-{node.kind}", data_phase=node.phase)


def _width(node: Node) -> float:
    """Return the width of the box itself; the labels below may be wider."""
    room = 34 if node.phase != FORWARD or node.kind in (INPUT, OUTPUT, LOOP) else 24
    return max(len(node.title) * _LETTER, len(node.detail) * _SMALL) + room


def _outline(node: Node, x: float, y: float, width: float, height: float, *, fill: bool) -> Markup:
    color = _GREY if node.kind in (INPUT, CONSTANT, OUTPUT) else _COLORS[node.phase]
    ink = {
        "fill": color if fill else "none",
        "fill_opacity": "0.13" if fill else None,
        "stroke": color,
        "stroke_width": "2" if node.kind == OUTPUT else "1.2",
        "stroke_dasharray": "3 2" if node.kind == CONSTANT else None,
    }
    if node.kind in (INPUT, CONSTANT, OUTPUT) or node.phase == FORWARD:
        radius = height / 2 if node.kind in (INPUT, OUTPUT) else 0 if node.kind == CONSTANT else 4
        return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", rx=f"{radius:g}", **ink)
    cut = min(8.0, height / 3)
    slant = cut if node.phase == BACKWARD else 0.0  # backward equations are octagons; tangent equations have two cut corners
    corners = [
        (x + cut, y),
        (x + width - slant, y),
        (x + width, y + slant),
        (x + width, y + height - cut),
        (x + width - cut, y + height),
        (x + slant, y + height),
        (x, y + height - slant),
        (x, y + cut),
    ]
    return tag("path", d="M" + "L".join([f"{a:.1f} {b:.1f}" for a, b in corners]) + "Z", stroke_linejoin="round", **ink)


def _behind(node: Node, x: float, y: float, width: float, height: float) -> Markup:
    """Return the visible part of a second box behind a folded one."""
    cut = 4.0 if node.phase == FORWARD else min(8.0, height / 3)
    right, top = x + width + 4, y - 4
    way = (
        f"M{x + cut:.1f} {y:.1f}V{top:.1f}H{right - cut:.1f}L{right:.1f} {top + cut:.1f}V{y + height - cut:.1f}H{x + width:.1f}"
    )
    return tag("path", d=way, fill="none", stroke=_COLORS[node.phase], stroke_width="1.2", stroke_linejoin="round")


def _labels(box: Box, labels: dict[str, float]) -> list[Markup]:
    y = box.y + box.height - 4
    return [_text(label, box.x + x, y, small=True) for label, x in zip(labels, box.ports, strict=True)] if labels else []


def _text(text: str, x: float, y: float, *, small: bool = False, weight: str | None = None, anchor: str = "middle") -> Markup:
    return tag(
        "text",
        text,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        text_anchor=anchor,
        font_weight=weight,
        style="font-size:10px" if small else None,
        fill_opacity="0.75" if small else None,
    )


def _legend(graph: Graph, y: float) -> tuple[Markup, float]:
    """Return the legend of the shapes and colours in the graph, and its width."""
    operations = [node.phase for node in graph.nodes if node.kind not in (INPUT, CONSTANT, OUTPUT)]
    kinds = [node.kind for node in graph.nodes]
    entries = [(Node("equation", phase, ""), phase) for phase in (FORWARD, BACKWARD, TANGENT) if phase in operations]
    entries += [(Node(kind, FORWARD, ""), kind) for kind in (INPUT, CONSTANT, OUTPUT) if kind in kinds]
    parts: list[Markup] = []
    x = _MARGIN
    for node, name in entries:
        parts += [_outline(node, x, y, 22, 11, fill=True), _text(name, x + 27, y + 9, small=True, anchor="start")]
        x += 27 + len(name) * _SMALL + 14
    if graph.folded:
        many = len([node for node in graph.nodes if node.kind == FOLD])
        text = f"{counted(graph.folded, 'equation')} folded into {counted(many, 'box', 'boxes')}"
        fold = Node(FOLD, FORWARD, "")
        parts += [_behind(fold, x, y, 22, 11), _outline(fold, x, y, 22, 11, fill=True)]
        parts.append(_text(text, x + 30, y + 9, small=True, anchor="start"))
        x += 30 + len(text) * _SMALL + 14
    return tag("g", *parts, class_="ftd-legend"), x - _MARGIN


def fixed(svg: str, palette: Sequence[tuple[str, str]]) -> str:
    """Return a drawing without a style sheet, with the colours of a palette, for programs without style sheets."""
    begin, end = svg.index("<style>"), svg.index("</style>") + len("</style>")
    plain = svg[:begin] + svg[end:]
    for name, value in palette:
        plain = plain.replace(f"var(--ftd-{name})", value)
    ink = dict(palette)["ink"]
    return plain.replace(
        ' class="ftd-view"', f' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="{ink}"', 1
    )
