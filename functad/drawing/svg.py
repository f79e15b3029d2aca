"""SVG pictures of graphs: boxes in layers; colour and shape distinguish forward from derivative equations.

The layout follows Sugiyama, Tagawa and Toda (1981). Each box gets a layer below its sources (longest path). Edges that span
several layers pass through points in the layers between. Sweeps order each layer by the barycentres of its neighbours. Then
isotonic regression places each layer near its neighbours, in least squares. All edges from one port share their points as far
as they can.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from functad.display import Markup, counted, picture, tag
from functad.drawing.graph import CONSTANT, FOLD, INPUT, LOOP, OUTPUT, Graph, Node
from functad.expressions.records import BACKWARD, FORWARD, TANGENT

_LETTER, _SMALL = 7.25, 6.05
_LABEL = 15.0
_MARGIN = 10.0
_POINTS = 10_000
_COLORS = {FORWARD: "var(--ftd-blue)", BACKWARD: "var(--ftd-orange)", TANGENT: "var(--ftd-green)"}
_GREY = "var(--ftd-grey)"


def picture_of(graph: Graph, label: str) -> Markup:
    """Return the drawing of a graph; screen readers read the label."""
    first, edges = _parts(graph, _ports(graph))
    lay_out(first, edges)
    ports = _ports(graph, first)
    boxes, edges = _parts(graph, ports)
    width, height = lay_out(boxes, edges)
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
    boxes, edges = _parts(graph, _ports(graph))
    _set_layers(boxes, edges)
    points: dict[tuple[int, int], int] = {}
    for edge in edges:
        port = edge.source, edge.port
        points[port] = max(points.get(port, 0), boxes[edge.target].layer - boxes[edge.source].layer - 1)
    return sum(points.values()) <= _POINTS


def _parts(graph: Graph, ports: list[dict[str, float]]) -> tuple[list[Box], list[Edge]]:
    boxes = [_box(node, ports[i]) for i, node in enumerate(graph.nodes)]
    return boxes, [Edge(link.source, list(ports[link.source]).index(link.label), link.target) for link in graph.links]


def _ports(graph: Graph, boxes: Sequence[Box] = ()) -> list[dict[str, float]]:
    """Return the labels of the values that leave each box, with their widths, sorted by the positions of their targets."""
    targets: list[dict[str, list[int]]] = [{} for _ in graph.nodes]
    for link in graph.links:
        targets[link.source].setdefault(link.label, []).append(link.target)
    found = []
    for own in targets:
        places = {label: fmean([boxes[i].x for i in numbers]) if boxes else 0.0 for label, numbers in own.items()}
        found.append({label: len(label) * _SMALL + 10 for label in sorted(own, key=places.__getitem__)})
    return found


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


# Layout

_GAP = 26.0
_LANE = 12.0
_BETWEEN = 30.0
_ORDERINGS = 16
_PLACINGS = 40
_STRAIGHTENINGS = 4


@dataclass(slots=True)
class Box:
    """A box of a drawing.

    Attributes:
        width, height: the size, including the text below the box.
        ports: the positions where edges leave the box, relative to its middle.
        late: place the box as far down as possible, next to its readers.
        layer, x, y: the layer, the middle and the upper edge; set by the layout.
    """

    width: float
    height: float
    ports: Sequence[float] = (0.0,)
    late: bool = False
    layer: int = 0
    x: float = 0.0
    y: float = 0.0


@dataclass(slots=True)
class Edge:
    """An edge from a port of a box to another box.

    Attributes:
        source, port: the box and the port where the edge begins.
        target: the box where the edge ends.
        points: the path as (x, y), set by the layout. Every second piece is vertical; the others are to be drawn as curves.
    """

    source: int
    port: int
    target: int
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Item:
    """An item of a layer: a box, or a point on an edge.

    Attributes:
        width: the width of the item.
        box: the number of the box; -1 for a point.
        ups, downs: the pieces of edges to the adjacent layers.
        x: the middle.
        rank: the index in the layer.
    """

    width: float
    box: int = -1
    ups: list[_Piece] = field(default_factory=list)
    downs: list[_Piece] = field(default_factory=list)
    x: float = 0.0
    rank: int = 0


@dataclass(slots=True, eq=False)
class _Piece:
    """A piece of an edge between two layers; `start` and `end` are relative to the middles of both items."""

    upper: _Item
    lower: _Item
    start: float
    weight: float
    end: float = 0.0


def lay_out(boxes: Sequence[Box], edges: Sequence[Edge]) -> tuple[float, float]:
    """Set the positions of boxes, given in topological order, and the points of edges; return the width and the height."""
    _set_layers(boxes, edges)
    layers, chains, arrivals = _items(boxes, edges)
    _order(layers)
    _spread_arrivals(boxes, layers)
    _place(layers)
    items = [item for layer in layers for item in layer]
    left = min((item.x - item.width / 2 for item in items), default=0.0)
    for item in items:
        item.x -= left
        if item.box >= 0:
            boxes[item.box].x = item.x
    height = _set_heights(boxes, layers)
    _route(boxes, edges, layers, chains, arrivals)
    return max((item.x + item.width / 2 for item in items), default=0.0), height


def _set_layers(boxes: Sequence[Box], edges: Sequence[Edge]) -> None:
    for box in boxes:
        box.layer = 0
    for edge in sorted(edges, key=lambda e: e.source):
        boxes[edge.target].layer = max(boxes[edge.target].layer, boxes[edge.source].layer + 1)
    readers: dict[int, list[int]] = {}
    for edge in edges:
        readers.setdefault(edge.source, []).append(edge.target)
    for number in reversed(range(len(boxes))):
        if boxes[number].late and number in readers:
            boxes[number].layer = min([boxes[target].layer for target in readers[number]]) - 1


def _items(
    boxes: Sequence[Box], edges: Sequence[Edge]
) -> tuple[list[list[_Item]], dict[tuple[int, int, int], _Item], list[_Piece]]:
    """Return the items of each layer, the points of edges by box, port and layer, and the last piece of each edge."""
    layers: list[list[_Item]] = [[] for _ in range(max((box.layer for box in boxes), default=0) + 1)]
    items = [_Item(box.width, number) for number, box in enumerate(boxes)]
    for item, box in zip(items, boxes, strict=True):
        layers[box.layer].append(item)
    points: dict[tuple[int, int, int], _Item] = {}
    last = []
    for edge in edges:
        upper, start = items[edge.source], boxes[edge.source].ports[edge.port]
        for layer in range(boxes[edge.source].layer + 1, boxes[edge.target].layer):
            key = edge.source, edge.port, layer
            if key not in points:
                points[key] = _Item(0.0)
                layers[layer].append(points[key])
                _join(upper, points[key], start)
            upper, start = points[key], 0.0
        last.append(_join(upper, items[edge.target], start))
    return layers, points, last


def _join(upper: _Item, lower: _Item, start: float) -> _Piece:
    piece = _Piece(upper, lower, start, (1.0, 2.0, 8.0)[(upper.box < 0) + (lower.box < 0)])
    upper.downs.append(piece)
    lower.ups.append(piece)
    return piece


# The order within layers


def _order(layers: list[list[_Item]]) -> None:
    """Order the items of each layer so that few edges cross."""
    for layer in layers:
        _number(layer)
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_ORDERINGS):
        if not fewest:
            break
        for layer in layers[1:] if sweep % 2 == 0 else layers[-2::-1]:
            _sort(layer, up=sweep % 2 == 0)
        _exchange(layers)
        found = _crossings(layers)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept
        _number(layer)


def _number(layer: list[_Item]) -> None:
    for rank, item in enumerate(layer):
        item.rank = rank


def _sort(layer: list[_Item], *, up: bool) -> None:
    """Sort a layer by the barycentres of its neighbours above or below; items without neighbours keep their places."""
    keys = {}
    for item in layer:
        ends = _far_ends(item, up=up)
        keys[id(item)] = sum([rank + port / 1e4 for rank, port in ends]) / len(ends) if ends else None
    moving = iter(sorted([item for item in layer if keys[id(item)] is not None], key=lambda item: keys[id(item)] or 0.0))
    layer[:] = [item if keys[id(item)] is None else next(moving) for item in layer]
    _number(layer)


def _exchange(layers: list[list[_Item]]) -> None:
    """Swap adjacent items if that saves crossings; skip layers of more than 60 items."""
    for layer in layers:
        if len(layer) > 60:
            continue
        for i in range(len(layer) - 1):
            first, second = layer[i], layer[i + 1]
            ends = [(_far_ends(first, up=up), _far_ends(second, up=up)) for up in (True, False)]
            if sum([_pair(*both) for both in ends]) > sum([_pair(right, left) for left, right in ends]):
                layer[i], layer[i + 1] = second, first
        _number(layer)


def _far_ends(item: _Item, *, up: bool) -> list[tuple[int, float]]:
    """Return the far ends of the pieces of an item: the rank of the other item, and the place on it."""
    return [(p.upper.rank, p.start) for p in item.ups] if up else [(p.lower.rank, p.end) for p in item.downs]


def _pair(left: Sequence[tuple[int, float]], right: Sequence[tuple[int, float]]) -> int:
    """Return the number of crossings between the edges of two items with these far ends, the first one on the left."""
    return sum([a > b for a in left for b in right])


def _crossings(layers: list[list[_Item]]) -> int:
    count = 0
    for layer in layers[1:]:
        seen: list[tuple[int, float]] = []
        for item in layer:
            ends = _far_ends(item, up=True)
            count += sum([len(seen) - bisect_left(seen, (rank, port + 1e-9)) for rank, port in ends])
            for end in ends:
                insort(seen, end)
    return count


# Coordinates


def _spread_arrivals(boxes: Sequence[Box], layers: list[list[_Item]]) -> None:
    """Spread the ends of edges along the upper edge of a box, in the order of their sources."""
    for layer in layers:
        for item in layer:
            if item.box < 0 or len(item.ups) < 2:
                continue
            item.ups.sort(key=lambda piece: (piece.upper.rank, piece.start))
            step = min(16.0, (boxes[item.box].width - 16.0) / len(item.ups))
            for i, piece in enumerate(item.ups):
                piece.end = (i - (len(item.ups) - 1) / 2) * step


def _place(layers: list[list[_Item]]) -> None:
    """Set the middles of all items: in the order of their layers, without overlap, and near to their neighbours."""
    for layer in layers:
        x = 0.0
        for item, before in zip(layer, [None, *layer], strict=False):
            x += 0.0 if before is None else _apart(before, item)
            item.x = x
        for item in layer:
            item.x -= x / 2
    for sweep in range(_PLACINGS):
        order = layers if sweep % 2 == 0 else layers[::-1]
        one_sided = sweep < _PLACINGS // 4
        for layer in order:
            _settle(layer, above=not one_sided or sweep % 2 == 0, below=not one_sided or sweep % 2 == 1)
    for _ in range(_STRAIGHTENINGS):
        _straighten(layers)


def _straighten(layers: list[list[_Item]]) -> None:
    """Align chains of items, such as the points of a long edge, vertically where space permits."""
    room = {
        id(item): (left, right)
        for layer in layers
        for left, item, right in zip([None, *layer], layer, [*layer[1:], None], strict=False)
    }
    seen: set[int] = set()
    for layer in layers:
        for item in layer:
            shift, run, low, high = 0.0, [], -math.inf, math.inf
            following: tuple[_Item, float] | None = (item, 0.0)
            while following is not None and id(following[0]) not in seen:
                own, step = following
                left, right = room[id(own)]
                least = -math.inf if left is None else left.x + _apart(left, own) - shift - step
                most = math.inf if right is None else right.x - _apart(own, right) - shift - step
                if max(low, least) > min(high, most):
                    break
                shift, low, high = shift + step, max(low, least), min(high, most)
                run.append((own, shift))
                seen.add(id(own))
                following = _following(own)
            if len(run) > 1:
                x = min(max(sum([own.x - moved for own, moved in run]) / len(run), low), high)
                for own, moved in run:
                    own.x = x + moved


def _following(item: _Item) -> tuple[_Item, float] | None:
    """Return the item to align below an item, with its offset to the right, or `None`."""
    points = [piece for piece in item.downs if piece.lower.box < 0] if item.box < 0 else []
    ways = points or item.downs
    if len(ways) != 1:
        return None
    [piece] = ways
    if item.box >= 0 and piece.lower.box >= 0 and len(piece.lower.ups) > 1:
        return None
    return piece.lower, piece.start - piece.end


def _apart(left: _Item, right: _Item) -> float:
    gap = _GAP if left.box >= 0 and right.box >= 0 else _LANE if left.box < 0 and right.box < 0 else (_GAP + _LANE) / 2
    return left.width / 2 + gap + right.width / 2


def _settle(layer: list[_Item], *, above: bool, below: bool) -> None:
    """Move the items of a layer as near to their neighbours as possible without overlap: least squares, by pooling."""
    blocks: list[list[float]] = []  # mean, weight, count
    shift, shifts = 0.0, []
    for i, item in enumerate(layer):
        shift += _apart(layer[i - 1], item) if i else 0.0
        shifts.append(shift)
        near = [(p.weight, p.upper.x + p.start - p.end) for p in item.ups if above]
        near += [(p.weight, p.lower.x + p.end - p.start) for p in item.downs if below]
        weight = sum([w for w, _ in near])
        wanted = sum([w * x for w, x in near]) / weight if near else item.x
        blocks.append([wanted - shift, weight or 0.1, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, weight, count = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + mean * weight) / (last[1] + weight)
            last[1] += weight
            last[2] += count
    means = [mean for mean, _, count in blocks for _ in range(int(count))]
    for item, mean, own in zip(layer, means, shifts, strict=True):
        item.x = mean + own


def _set_heights(boxes: Sequence[Box], layers: list[list[_Item]]) -> float:
    """Set the upper edges of all boxes and return the total height."""
    y = 0.0
    for number, layer in enumerate(layers):
        tallest = max((boxes[item.box].height for item in layer if item.box >= 0), default=0.0)
        for item in layer:
            if item.box >= 0:
                boxes[item.box].y = y if boxes[item.box].layer else y + tallest - boxes[item.box].height
        y += tallest
        if number + 1 < len(layers):
            widest = max((abs(piece.lower.x - item.x) for item in layer for piece in item.downs), default=0.0)
            y += _BETWEEN + min(widest / 12, 34.0)
    return y


def _route(
    boxes: Sequence[Box],
    edges: Sequence[Edge],
    layers: list[list[_Item]],
    chains: dict[tuple[int, int, int], _Item],
    arrivals: Sequence[_Piece],
) -> None:
    """Set the points of all edges: vertical within a layer, curved between layers."""
    tops = [min([boxes[item.box].y for item in layer if item.box >= 0], default=0.0) for layer in layers]
    bottoms = [max([_foot(boxes[item.box]) for item in layer if item.box >= 0], default=0.0) for layer in layers]
    for edge, arrival in zip(edges, arrivals, strict=True):
        source, target = boxes[edge.source], boxes[edge.target]
        x = source.x + source.ports[edge.port]
        edge.points = [(x, _foot(source)), (x, bottoms[source.layer])]
        for layer in range(source.layer + 1, target.layer):
            x = chains[edge.source, edge.port, layer].x
            edge.points += [(x, tops[layer]), (x, bottoms[layer])]
        x = target.x + arrival.end
        edge.points += [(x, tops[target.layer]), (x, target.y)]


def _foot(box: Box) -> float:
    return box.y + box.height
