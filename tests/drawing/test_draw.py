"""`functad.draw`: the structure of the pictures, and of the same graphs as text."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError, InputError

SVG = "{http://www.w3.org/2000/svg}"


def layer(w, b, x):
    return np.tanh(x @ w + b)


def network(params, x):
    for w, b in params:
        x = layer(w, b, x)
    return x


def loss(params, x, y):
    return np.mean((network(params, x) - y) ** 2)


def chain(x):
    for _ in range(150):
        x = np.sin(x) * 0.9
    return x


def rows(x, w):
    def step(h, v):
        h = np.tanh(w * h + v)
        return h, h

    return functad.scan(step, 0.0, x)[1]


PARAMS = [(np.ones((3, 4)), np.ones(4)), (np.ones((4, 2)), np.ones(2))]
ARGS = PARAMS, np.ones((5, 3)), np.ones((5, 2))


class Picture:
    """An SVG as a tree: its boxes with their text and tips, and its edges."""

    def __init__(self, svg):
        self.root = ET.fromstring(svg)
        groups = list(self.root.iter(f"{SVG}g"))
        self.nodes = [g for g in groups if "ftd-node" in g.get("class", "")]
        self.edges = [(int(g.get("data-from")), int(g.get("data-to"))) for g in groups if g.get("class") == "ftd-edge"]
        self.kinds = [g.get("class").removeprefix("ftd-node ftd-") for g in self.nodes]
        self.phases = [g.get("data-phase") for g in self.nodes]
        self.tips = [g.find(f"{SVG}title").text for g in self.nodes]
        self.titles = [g.find(f"{SVG}text").text for g in self.nodes]
        self.texts = [text.text for text in self.root.iter(f"{SVG}text")]

    def of(self, kind):
        return [title for title, own in zip(self.titles, self.kinds, strict=True) if own == kind]

    def extent(self, node):
        """Return the sides of a box: left, upper, right, lower."""
        shape = [part for part in node if part.tag in (f"{SVG}rect", f"{SVG}path")][-1]
        if shape.tag == f"{SVG}rect":
            x, y, w, h = (float(shape.get(name)) for name in ("x", "y", "width", "height"))
            return x, y, x + w, y + h
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", shape.get("d"))]
        return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def picture(*args, **kwargs):
    return Picture(functad.draw(*args, **kwargs).svg)


def test_each_equation_is_a_box_and_each_reading_an_edge():
    drawing = functad.draw(loss, *ARGS)
    shown, listed = Picture(drawing.svg), drawing.expressions
    names = [e.primitive.name for e in listed.equations]
    assert shown.of("equation") == names
    assert shown.of("input") == list(listed.inputs)
    assert shown.of("output") == ["result"]
    read = sum(len({s for s in e.inputs if isinstance(s, int)}) for e in listed.equations)
    assert len(shown.edges) == read + 1


def test_a_square_has_one_edge_and_results_that_are_read_twice_have_two():
    shown = picture(lambda x: x * x + np.sin(x), 1.0)
    assert shown.titles == ["x", "multiply", "sin", "add", "result"]
    assert sorted(shown.edges) == [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    "options", [{}, {"backward": True}, {"backward": True, "limit": 8}, {"backward": True, "limit": None}], ids=str
)
def test_boxes_do_not_overlap_and_edges_go_down(options):
    shown = picture(loss, *ARGS, **options)
    extents = [shown.extent(node) for node in shown.nodes]
    for i, (left, upper, right, lower) in enumerate(extents):
        for other in extents[:i]:
            assert right <= other[0] or other[2] <= left or lower <= other[1] or other[3] <= upper
    for source, target in shown.edges:
        assert source < target
        assert extents[source][3] < extents[target][1]


def test_the_backward_part_has_colour_and_shape_of_its_own():
    shown = picture(loss, *ARGS, backward=True)
    for node, kind, phase in zip(shown.nodes, shown.kinds, shown.phases, strict=True):
        if kind == "equation":
            shape = node.find(f"{SVG}path" if phase == "backward" else f"{SVG}rect")
            assert shape.get("stroke") == ("var(--ftd-orange)" if phase == "backward" else "var(--ftd-blue)")
    gradient = functad.make_expressions(functad.value_and_grad(loss))(*ARGS)
    assert shown.phases.count("backward") >= sum(e.place.phase == "backward" for e in gradient.equations)
    names = ["params[0][0]", "params[0][1]", "params[1][0]", "params[1][1]", "x", "y"]
    assert shown.of("output") == ["result", *[f"gradient of {name}" for name in names]]
    dashed = [path for path in shown.root.iter(f"{SVG}path") if path.get("stroke-dasharray") == "4 3"]
    assert dashed  # what the forward part keeps
    assert {"forward", "backward", "input", "output"} <= set(shown.texts)


def test_a_gradient_is_drawn_as_backward_is():
    shown = picture(functad.grad(loss), *ARGS)
    assert "backward" in shown.phases
    assert "layer" in functad.draw(functad.grad(loss), *ARGS, limit=9).dot


def test_tangents_have_their_own_shape():
    shown = picture(lambda x: functad.jvp(np.sin, (x,), (1.0,)), 2.0)
    assert "tangent" in shown.phases
    assert "var(--ftd-green)" in {path.get("stroke") for path in shown.root.iter(f"{SVG}path")}


def test_the_drawn_backward_part_computes_the_gradient():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3)

    def f(x, n):
        return np.sum(np.sin(x) ** 2) * n, x * 2.0

    drawing = functad.draw(f, x, 3, backward=True)
    (value, doubled), (gradient,) = drawing.expressions(x, 3)
    steps = np.eye(3) * 1e-6
    by_differences = [(sum(map(np.sum, f(x + h, 3))) - sum(map(np.sum, f(x - h, 3)))) / 2e-6 for h in steps]
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-7)
    np.testing.assert_allclose(value, np.sum(np.sin(x) ** 2) * 3)
    np.testing.assert_array_equal(doubled, x * 2.0)


def test_tips_tell_equation_type_bytes_and_source():
    line = layer.__code__.co_firstlineno + 1
    tip = next(tip for tip in picture(layer, *PARAMS[0], np.ones((5, 3))).tips if "tanh" in tip.splitlines()[0])
    assert tip.splitlines() == ["d = tanh c", "float64[5,4], 160 B", f"test_draw.py:{line}: return np.tanh(x @ w + b)"]


def test_values_are_labelled_by_their_types():
    shown = picture(layer, *PARAMS[0], np.ones((5, 3)))
    assert shown.texts.count("float64[5,4]") == 3
    assert shown.texts.count("float64[3,4]") == 1


def test_values_that_leave_a_box_stand_in_the_order_of_where_they_go():
    shown = picture(loss, *ARGS, backward=True, limit=10)
    extents = [shown.extent(node) for node in shown.nodes]
    ways = [g.find(f"{SVG}path").get("d") for g in shown.root.iter(f"{SVG}g") if g.get("class") == "ftd-edge"]
    ends = {}  # by box and by where an edge leaves it, the middles of the boxes that it goes to
    for (source, target), way in zip(shown.edges, ways, strict=True):
        start = float(re.match(r"M([\d.]+)", way)[1])
        ends.setdefault(source, {}).setdefault(start, []).append(extents[target][0] + extents[target][2])
    several = [own for own in ends.values() if len(own) > 1]
    assert [len(own) for own in several] == [3, 3]
    for own in several:
        means = [np.mean(own[start]) for start in sorted(own)]
        assert means == sorted(means)


def test_constants_are_boxes_and_numbers_are_written_into_equations():
    table = np.ones((2, 3))
    shown = picture(lambda x: (x + table) * 2.0, np.ones((2, 3)))
    assert shown.of("constant") == ["constant"]
    assert "(·, 2.0)" in shown.texts
    assert any(tip == "constant float64[2,3], 48 B" for tip in shown.tips)


def test_unused_inputs_and_constant_results_are_shown():
    shown = picture(lambda x, y: (x + 1.0, 3.0), 1.0, np.ones(2))
    assert "float64[2], unused" in shown.texts
    assert shown.of("output") == ["result[0]", "result[1]"]
    assert "3.0" in shown.texts


def test_loops_tell_what_is_in_them():
    shown = picture(rows, np.ones(7), 0.5)
    assert shown.of("loop") == ["scan"]
    assert "3 equations, 7 times" in shown.texts
    assert "body: 3 equations" in shown.tips[shown.kinds.index("loop")]


def test_calls_are_folded_where_boxes_are_few():
    drawing = functad.draw(loss, *ARGS, limit=6)
    shown = Picture(drawing.svg)
    assert shown.of("fold") == ["layer", "layer"]
    assert shown.of("equation") == ["subtract", "power", "mean"]
    assert "6 equations folded into 2 boxes" in shown.texts
    assert repr(drawing) == "drawing of loss: 9 equations; 6 of them folded, 5 boxes"


@pytest.mark.parametrize(("backward", "limit"), [(False, 40), (True, 40), (True, 7), (False, 3)])
def test_long_lists_are_folded_to_the_limit_and_nothing_is_lost(backward, limit):
    drawing = functad.draw(chain, 1.0, backward=backward, limit=limit)
    shown = Picture(drawing.svg)
    boxes = [k for k in shown.kinds if k in ("equation", "fold", "loop")]
    assert len(boxes) <= limit
    counts = [int(tip.split()[0].replace(",", "")) for tip, k in zip(shown.tips, shown.kinds, strict=True) if k == "fold"]
    assert sum(counts) + boxes.count("equation") == len(drawing.expressions.equations)
    assert len(drawing.svg) < 200_000


def test_phases_that_change_often_are_folded_too():
    shown = picture(functad.hessian(lambda x: np.sum(np.sin(x) * x)), np.ones(3), limit=1)
    assert len(shown.of("fold")) == 1


def test_pictures_that_would_take_minutes_have_fewer_boxes():
    drawing = functad.draw(chain, 1.0, backward=True, limit=None)
    boxes = re.fullmatch(r"drawing of chain: 749 equations; \d+ of them folded, (\d+) boxes", repr(drawing))
    assert 40 < int(boxes[1]) < 749
    assert repr(functad.draw(chain, 1.0, limit=None)) == "drawing of chain: 300 equations"


def test_lines_are_folded_where_there_are_no_calls():
    def f(x):
        y = np.sin(x) * 2.0 + np.cos(x) * 3.0
        z = np.exp(y) * y - 1.0
        return np.sum(z)

    shown = picture(f, np.ones(3), limit=4)
    assert shown.of("fold") == ["y = np.sin(x) * 2.0...", "z = np.exp(y) * y -..."]
    assert shown.of("equation") == ["sum"]
    shown = picture(f, np.ones(3), limit=6)
    assert shown.of("fold") == ["y = np.sin(x) * 2.0..."]
    assert shown.of("equation") == ["exp", "multiply", "subtract", "sum"]


def test_one_long_line_is_cut_into_parts():
    shown = picture(chain, 1.0, limit=20)
    assert shown.of("fold") == ["x = np.sin(x) * 0.9"] * 20
    assert shown.texts.count("15 equations") == 20


def test_many_calls_of_one_function_are_folded_together():
    def many(x):
        for _ in range(60):
            x = layer(x, 1.0, x)
        return x

    assert picture(many, np.ones((2, 2)), limit=10).of("fold") == ["6 x layer"] * 10


def test_many_inputs_and_outputs_are_one_box_for_each_argument():
    shown = picture(lambda xs, y: [np.sin(x) * y for x in xs], [1.0] * 60, 2.0, limit=None)
    assert shown.of("input") == ["xs", "y"]
    assert shown.of("output") == ["result"]
    assert shown.texts.count("60 arrays") == 2


def test_names_are_escaped_everywhere():
    def inner(d):
        return d['"a<b>&\\|'] * 2.0

    drawing = functad.draw(lambda d: inner(d), {'"a<b>&\\|': 1.0})
    shown = Picture(drawing.svg)
    assert shown.of("input") == ["d['\"a<b>&\\\\|']"]
    assert "<lambda>" in shown.root.find(f"{SVG}title").text
    check_dot(drawing.dot)
    check_mermaid(drawing.mermaid)
    assert ET.fromstring(drawing._repr_html_()).tag == "div"


def check_dot(text):
    """Check that each line is one of those that a graph may have, with strings closed and count nodes and edges."""
    string = r'"(?:[^"\\\n]|\\.)*"'
    attributes = rf"\[\w+=(?:{string}|\w+)(?:, \w+=(?:{string}|\w+))*\];"
    lines = text.splitlines()
    assert lines[0] == "digraph functad {"
    assert lines[-1] == "}"
    nodes = [re.fullmatch(rf"  n(\d+) {attributes}", line) for line in lines[4:-1] if "->" not in line.partition("[")[0]]
    edges = [re.fullmatch(rf"  n(\d+) -> n(\d+) {attributes}", line) for line in lines[4:-1] if "->" in line.partition("[")[0]]
    assert all(nodes)
    assert all(edges)
    known = {match[1] for match in nodes}
    assert {end for match in edges for end in match.groups()} <= known
    return len(nodes), len(edges)


def check_mermaid(text):
    """Check the same of a flowchart; within strings there may be no sign that means something."""
    lines = text.splitlines()
    assert lines[0] == "flowchart TD"
    content = r'"(?:[^"<>\[\]{}|`\\]|<br/>)*"'
    shapes = rf"(?:\(\[{content}\]\)|\[\[{content}\]\]|\[/{content}/\]|\[{content}\]|\{{\{{{content}\}}\}})"
    nodes = [line for line in lines[1:] if re.fullmatch(rf"  n\d+{shapes}:::\w+", line)]
    edges = [line for line in lines[1:] if re.fullmatch(rf"  n\d+ -->\|{content}\| n\d+", line)]
    classes = [line for line in lines[1:] if line.startswith("  classDef ")]
    assert len(nodes) + len(edges) + len(classes) == len(lines) - 1
    used = {line.rpartition(":::")[2] for line in nodes}
    assert used <= {line.split()[1] for line in classes}
    return len(nodes), len(edges)


@pytest.mark.parametrize("f", [lambda: functad.draw(loss, *ARGS, backward=True), lambda: functad.draw(rows, np.ones(4), 0.5)])
def test_texts_for_other_programs_have_the_same_graph(f):
    drawing = f()
    shown = Picture(drawing.svg)
    assert check_dot(drawing.dot) == check_mermaid(drawing.mermaid) == (len(shown.nodes), len(shown.edges))
    assert drawing.dot.count("shape=octagon") == drawing.mermaid.count('{{"')
    assert drawing.dot.count("shape=octagon") == shown.phases.count("backward") - shown.of("constant").count("constant")


def test_files_are_written_by_their_ends(tmp_path):
    drawing = functad.draw(loss, *ARGS)
    for name, text in (("a.svg", drawing.svg), ("a.dot", drawing.dot), ("a.gv", drawing.dot), ("a.mmd", drawing.mermaid)):
        drawing.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == f"{text}\n"
    with pytest.raises(InputError, match=r"must end in \.svg, \.dot, \.gv, \.mmd"):
        drawing.save(tmp_path / "a.png")
    with pytest.raises(InputError, match="theme is 'light', 'dark' or None"):
        drawing.save(tmp_path / "a.svg", theme="blue")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dot", "a.gv", "a.mmd", "a.svg"]


@pytest.mark.parametrize(("theme", "ink"), [("light", "#222"), ("dark", "#ddd")])
def test_files_with_fixed_colours_need_no_style(tmp_path, theme, ink):
    functad.draw(loss, *ARGS, backward=True).save(tmp_path / "a.svg", theme=theme)
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "var(" not in text
    assert "<style" not in text
    assert ET.fromstring(text).get("fill") == ink


def test_pictures_bring_colours_for_light_and_dark_pages():
    svg = functad.draw(np.sin, 1.0).svg
    assert "prefers-color-scheme:dark" in svg
    assert '[data-jp-theme-light="false"]' in ET.fromstring(svg).find(f"{SVG}style").text


def test_a_list_needs_no_arguments_and_keeps_its_names():
    listed = functad.make_expressions(loss)(*ARGS)
    drawing = functad.draw(listed)
    assert drawing.expressions is listed
    both = functad.draw(listed, backward=True)
    assert both.expressions.inputs == listed.inputs
    assert "return np.tanh(x @ w + b)" in both.svg


def test_lists_without_places_are_drawn():
    listed = functad.make_expressions(chain)(1.0)
    bare = listed.replace(equations=tuple([type(e)(e.primitive, e.inputs, e.params, e.outputs) for e in listed.equations]))
    assert len(Picture(functad.draw(bare, limit=10).svg).of("fold")) == 10


def test_what_cannot_be_drawn_says_so():
    with pytest.raises(AbstractValueError):
        functad.draw(lambda x: x if x > 0 else -x, 1.0)
    with pytest.raises(InputError, match=r"limit=0 leaves no box"):
        functad.draw(np.sin, 1.0, limit=0)
    with pytest.raises(InputError, match=r"needs an argument of floating point .* 3\.0 in place of 3"):
        functad.draw(lambda n: n * 2, 3, backward=True)
