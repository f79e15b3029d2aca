"""Layouts: no boxes overlap, edges go down, and few cross."""

import numpy as np
import pytest

from functad.drawing.svg import Box, Edge, lay_out


def random_graph(seed, count):
    generator = np.random.default_rng(seed)
    boxes = [Box(*generator.uniform(20, 120, 2), ports=(-8.0, 8.0), late=bool(generator.integers(2))) for _ in range(count)]
    pairs = {(int(generator.integers(0, t)), int(generator.integers(2)), t) for t in range(1, count) for _ in range(2)}
    return boxes, [Edge(*pair) for pair in sorted(pairs)]


def overlap(a, b):
    across = abs(a.x - b.x) < (a.width + b.width) / 2 - 1e-6
    return across and a.y < b.y + b.height - 1e-6 and b.y < a.y + a.height - 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_boxes_do_not_overlap_and_are_inside(seed):
    boxes, edges = random_graph(seed, 40)
    width, height = lay_out(boxes, edges)
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if overlap(a, b)]
    for box in boxes:
        assert -1e-6 <= box.x - box.width / 2 <= box.x + box.width / 2 <= width + 1e-6
        assert 0 <= box.y <= box.y + box.height <= height + 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_edges_go_from_port_to_box_and_always_down(seed):
    boxes, edges = random_graph(seed, 40)
    lay_out(boxes, edges)
    for edge in edges:
        source, target = boxes[edge.source], boxes[edge.target]
        assert source.layer < target.layer
        assert edge.points[0] == (source.x + source.ports[edge.port], source.y + source.height)
        assert edge.points[-1][1] == target.y
        assert abs(edge.points[-1][0] - target.x) <= target.width / 2
        heights = [y for _, y in edge.points]
        assert heights == sorted(heights)


@pytest.mark.parametrize("seed", range(8))
def test_edges_pass_beside_boxes(seed):
    """Where an edge is bent there is no box; where it goes straight down through a layer it keeps out of them."""
    boxes, edges = random_graph(seed, 40)
    lay_out(boxes, edges)
    for edge in edges:
        for (x, top), (_, bottom) in zip(edge.points[2:-1:2], edge.points[3:-1:2], strict=False):
            for box in boxes:
                if box.y < bottom and top < box.y + box.height:
                    assert abs(box.x - x) >= box.width / 2 - 1e-6
        for (_, top), (_, bottom) in zip(edge.points[1::2], edge.points[2::2], strict=False):
            assert not [box for box in boxes if box.y < bottom - 1e-6 and top + 1e-6 < box.y + box.height]


def test_what_is_late_stands_just_above_its_first_reader():
    boxes = [Box(20, 20), Box(20, 20), Box(20, 20), Box(20, 20, late=True), Box(20, 20)]
    lay_out(boxes, [Edge(0, 0, 1), Edge(1, 0, 2), Edge(2, 0, 4), Edge(3, 0, 4)])
    assert [box.layer for box in boxes] == [0, 1, 2, 2, 3]


def test_edges_that_need_not_cross_do_not():
    boxes = [Box(20, 20) for _ in range(6)]
    lay_out(boxes, [Edge(0, 0, 5), Edge(1, 0, 4), Edge(2, 0, 3)])
    assert sorted(range(3), key=lambda i: boxes[i].x) == sorted(range(3), key=lambda i: boxes[5 - i].x)


def test_a_chain_is_straight():
    boxes = [Box(20.0 + 10 * i, 20) for i in range(6)]
    lay_out(boxes, [Edge(i, 0, i + 1) for i in range(5)])
    assert {round(box.x, 6) for box in boxes} == {35.0}


def test_points_of_a_long_edge_stand_below_each_other():
    boxes = [Box(30, 20) for _ in range(8)]
    edge = Edge(0, 0, 7)
    lay_out(boxes, [Edge(i, 0, i + 1) for i in range(7)] + [edge])
    assert len({round(x, 6) for x, _ in edge.points[2:-2]}) == 1


def test_a_layout_is_the_same_each_time():
    first, second = random_graph(3, 30), random_graph(3, 30)
    assert lay_out(*first) == lay_out(*second)
    assert [(box.x, box.y) for box in first[0]] == [(box.x, box.y) for box in second[0]]


def test_nothing_and_one_box_are_laid_out():
    assert lay_out([], []) == (0.0, 0.0)
    assert lay_out([Box(30, 20)], []) == (30.0, 20.0)
