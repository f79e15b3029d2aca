"""Layout of a drawing: boxes in layers, ordered for few crossings, with smooth edges.

The steps are from Sugiyama, Tagawa and Toda (1981). Each box gets a layer below its sources (longest path). Edges that span
several layers pass through points in the layers between. Sweeps order each layer by the barycentres of its neighbours. Then
isotonic regression places each layer near its neighbours, in least squares. All edges from one port share their points as far
as they can.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _Item:
    """An item of a layer: a box, or a point on an edge.

    Attributes:
        width: the width of the item.
        box: the number of the box; -1 for a point.
        ups, downs: neighbours in the adjacent layers: the item, the weight, and both positions relative to the middles.
        x: the middle.
        rank: the index in the layer.
    """

    width: float
    box: int
    ups: list[tuple[_Item, float, float, float]] = field(default_factory=list)
    downs: list[tuple[_Item, float, float, float]] = field(default_factory=list)
    x: float = 0.0
    rank: int = 0


def lay_out(boxes: Sequence[Box], edges: Sequence[Edge]) -> tuple[float, float]:
    """Set the positions of boxes and the points of edges.

    Args:
        boxes: the boxes, in topological order.
        edges: the edges; no two have the same ends.

    Returns:
        The width and the height of the drawing.
    """
    _set_layers(boxes, edges)
    layers, chains = _items(boxes, edges)
    _order(layers)
    _spread_arrivals(boxes, layers)
    _place(layers)
    left = min((item.x - item.width / 2 for layer in layers for item in layer), default=0.0)
    for layer in layers:
        for item in layer:
            item.x -= left
            if item.box >= 0:
                boxes[item.box].x = item.x
    width = max((item.x + item.width / 2 for layer in layers for item in layer), default=0.0)
    height = _set_heights(boxes, layers)
    _route(boxes, edges, layers, chains)
    return width, height


def count_points(boxes: Sequence[Box], edges: Sequence[Edge]) -> int:
    """Return the number of points where edges would cross layers; the time and memory of a layout grow with it."""
    _set_layers(boxes, edges)
    ends: dict[tuple[int, int], int] = {}
    for edge in edges:
        port = edge.source, edge.port
        ends[port] = max(ends.get(port, 0), boxes[edge.target].layer - boxes[edge.source].layer - 1)
    return sum(ends.values())


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


def _items(boxes: Sequence[Box], edges: Sequence[Edge]) -> tuple[list[list[_Item]], dict[tuple[int, int], dict[int, _Item]]]:
    """Return the items of each layer, and for each port the items on its edges by layer."""
    layers: list[list[_Item]] = [[] for _ in range(max((box.layer for box in boxes), default=0) + 1)]
    items = [_Item(box.width, number) for number, box in enumerate(boxes)]
    for item, box in zip(items, boxes, strict=True):
        layers[box.layer].append(item)
    chains: dict[tuple[int, int], dict[int, _Item]] = {}
    for edge in edges:
        start, end = boxes[edge.source].layer, boxes[edge.target].layer
        chain = chains.setdefault((edge.source, edge.port), {start: items[edge.source]})
        for layer in range(start + 1, end):
            if layer not in chain:
                chain[layer] = _Item(0.0, -1)
                layers[layer].append(chain[layer])
                _join(chain[layer - 1], chain[layer], boxes[edge.source].ports[edge.port] if layer == start + 1 else 0.0)
        _join(chain[end - 1], items[edge.target], boxes[edge.source].ports[edge.port] if end == start + 1 else 0.0)
    return layers, chains


def _join(upper: _Item, lower: _Item, offset: float) -> None:
    weight = (1.0, 2.0, 8.0)[(upper.box < 0) + (lower.box < 0)]
    upper.downs.append((lower, weight, offset, 0.0))
    lower.ups.append((upper, weight, 0.0, offset))


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
        near = item.ups if up else item.downs
        keys[id(item)] = sum([other.rank + own / 1e4 for other, _, _, own in near]) / len(near) if near else None
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
            before = _pair(first.ups, second.ups) + _pair(first.downs, second.downs)
            if before > _pair(second.ups, first.ups) + _pair(second.downs, first.downs):
                layer[i], layer[i + 1] = second, first
        _number(layer)


def _pair(left: Sequence[tuple[_Item, float, float, float]], right: Sequence[tuple[_Item, float, float, float]]) -> int:
    """Return the number of crossings between the edges of two items, the first one on the left."""
    return sum([(a.rank, p) > (b.rank, q) for a, _, _, p in left for b, _, _, q in right])


def _crossings(layers: list[list[_Item]]) -> int:
    count = 0
    for layer in layers[1:]:
        seen: list[tuple[int, float]] = []
        for item in layer:
            ends = [(other.rank, port) for other, _, _, port in item.ups]
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
            item.ups.sort(key=lambda end: (end[0].rank, end[3]))
            step = min(16.0, (boxes[item.box].width - 16.0) / len(item.ups))
            for i, (other, weight, _, port) in enumerate(item.ups):
                arrival = (i - (len(item.ups) - 1) / 2) * step
                item.ups[i] = other, weight, arrival, port
                place = next(k for k, end in enumerate(other.downs) if end[0] is item and end[2] == port)
                other.downs[place] = item, weight, port, arrival


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
    room: dict[int, tuple[_Item | None, _Item | None]] = {}
    for layer in layers:
        for i, item in enumerate(layer):
            room[id(item)] = layer[i - 1] if i else None, layer[i + 1] if i + 1 < len(layer) else None
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
    points = [(lower, own) for lower, _, own, _ in item.downs if lower.box < 0]
    if len(points) == 1 and (item.box < 0 or len(item.downs) == 1):
        return points[0]
    if len(item.downs) == 1:
        lower, _, own, arrival = item.downs[0]
        return (lower, own - arrival) if len(lower.ups) == 1 or item.box < 0 else None
    return None


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
        near = [*(item.ups if above else ()), *(item.downs if below else ())]
        weight = sum([w for _, w, _, _ in near])
        wanted = sum([w * (other.x + theirs - own) for other, w, own, theirs in near]) / weight if near else item.x
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
            widest = max((abs(other.x - item.x) for item in layer for other, *_ in item.downs), default=0.0)
            y += _BETWEEN + min(widest / 12, 34.0)
    return y


def _route(
    boxes: Sequence[Box],
    edges: Sequence[Edge],
    layers: list[list[_Item]],
    chains: dict[tuple[int, int], dict[int, _Item]],
) -> None:
    """Set the points of all edges: vertical within a layer, curved between layers."""
    tops = [min([boxes[item.box].y for item in layer if item.box >= 0], default=0.0) for layer in layers]
    bottoms = [max([_foot(boxes[item.box]) for item in layer if item.box >= 0], default=0.0) for layer in layers]
    arrivals = {
        (id(other), item.box, port): own
        for layer in layers
        for item in layer
        if item.box >= 0
        for other, _, own, port in item.ups
    }
    for edge in edges:
        source, target = boxes[edge.source], boxes[edge.target]
        chain = chains[edge.source, edge.port]
        x = source.x + source.ports[edge.port]
        edge.points = [(x, _foot(source)), (x, bottoms[source.layer])]
        for layer in range(source.layer + 1, target.layer):
            edge.points += [(chain[layer].x, tops[layer]), (chain[layer].x, bottoms[layer])]
        port = source.ports[edge.port] if target.layer == source.layer + 1 else 0.0
        x = target.x + arrivals[id(chain[target.layer - 1]), edge.target, port]
        edge.points += [(x, tops[target.layer]), (x, target.y)]


def _foot(box: Box) -> float:
    return box.y + box.height
