"""`profile`: what it lists, that the parts make the whole, what it leaves as it was, and how it is shown."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import functad
from functad.errors import InputError, OutputError, UnconnectedWarning
from functad.profiling import measure
from functad.profiling.profile import UNSEEN


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Measure few rounds."""
    monkeypatch.setattr(measure, "ROUNDS", (2, 3))


@pytest.fixture
def ticking(monkeypatch):
    """Let the clock go on by one microsecond each time it is read, and measure few rounds: times are exact then."""
    count = itertools.count()
    monkeypatch.setattr(measure, "clock", lambda: next(count) * 1e-6)
    measure.walk_time.cache_clear()
    yield
    measure.walk_time.cache_clear()


def layer(w, x):
    h = x @ w
    return np.tanh(h)


def loss(p, x, y):
    h = layer(p["a"], x)
    z = layer(p["b"], h)
    return np.mean((z - y) ** 2)


def arguments(n=3):
    generator = np.random.default_rng(0)
    p = {"a": generator.normal(size=(n, n)), "b": generator.normal(size=(n, 2))}
    return p, generator.normal(size=(n, n)), generator.normal(size=(n, 2))


def of(rows, **wanted):
    [found] = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return found


# What is listed


def test_each_line_stands_there_with_its_code_calls_and_bytes(ticking):
    found = functad.profile(loss, *arguments())
    product = of(found.rows, operation="np.matmul")
    assert product.function == "layer"
    assert product.code == "h = x @ w"
    assert re.search(r"test_profile.py:\d+$", product.line)
    assert product.calls == 2
    assert product.bytes >= 2 * 3 * 3 * 8  # two products of at least (3, 3), and what the rules make
    assert {row.code for row in found.lines()} == {
        "h = x @ w",
        "return np.tanh(h)",
        "return np.mean((z - y) ** 2)",
    }


def test_with_a_clock_that_ticks_each_operation_takes_one_tick(ticking):
    found = functad.profile(loss, *arguments())
    assert [row for row in found.rows if not np.isclose(row.forward, row.calls * 1e-6)] == []
    assert of(found.rows, operation="np.tanh").backward == pytest.approx(2e-6)
    assert sum(row.share for row in found.rows) == pytest.approx(1.0)
    assert found.total.operations == sum(row.calls for row in found.rows) == 7


def test_parts_of_the_total_add_up(ticking):
    total = functad.profile(loss, *arguments()).total
    assert total.numpy + total.python + total.recording == pytest.approx(total.time)
    assert total.time == pytest.approx(total.forward + total.backward)
    assert min(total.numpy, total.python, total.recording) >= 0


def test_functions_have_the_time_of_what_they_call(ticking):
    found = functad.profile(loss, *arguments())
    outer, inner = found.functions()
    assert (outer.function, outer.calls, outer.share) == ("loss", 7, pytest.approx(1.0))
    assert (inner.function, inner.calls) == ("layer", 4)


def test_bars_lie_on_each_other_as_functions_call(ticking):
    [bar] = functad.profile(loss, *arguments()).bars()
    assert bar.name == "loss"
    assert [inner.name for inner in bar.bars] == ["layer", "return np.mean((z - y) ** 2)"]
    assert [inner.name for inner in bar.bars[0].bars] == ["h = x @ w", "return np.tanh(h)"]
    assert bar.time == pytest.approx(sum(inner.time for inner in bar.bars))


def test_a_large_array_counts_with_its_bytes_and_a_view_with_none():
    rows = functad.profile(lambda x: np.sum(np.sin(x).reshape(100, 100).T), np.ones(10_000)).rows
    assert of(rows, operation="np.sin").bytes >= 80_000
    [view] = [row for row in rows if "transpose" in row.operation]
    assert view.forward >= 0
    assert view.bytes == 0


def test_memory_is_what_the_arrays_take():
    total = functad.profile(lambda x: np.sum(np.exp(np.sin(x))), np.ones(50_000)).total
    assert 2 * 400_000 <= total.peak <= 8 * 400_000
    assert total.function_peak < total.peak


def test_code_in_which_nothing_is_differentiated_is_seen(ticking):
    def f(x):
        for _ in range(900):
            measure.clock()
        return np.sum(x)

    found = functad.profile(f, np.ones(3))
    row = of(found.rows, operation=UNSEEN)
    assert row.forward == pytest.approx(901e-6, abs=2e-6)
    assert row.share > 0.9
    assert "compute it once" in repr(found)


def test_work_of_functad_between_operations_is_not_taken_for_the_users():
    @functad.checkpoint
    def inner(x):
        return np.sin(np.exp(x))

    assert {row.operation for row in functad.profile(lambda x: np.sum(inner(x)), np.ones(3)).rows} == {
        "checkpoint of inner",
        "np.sum",
    }


def test_writes_in_place_and_branches_are_profiled():
    def f(x):
        out = np.zeros_like(x)
        for i in range(3):
            out[i] = x[i] ** 2 if x[i] > 0 else -x[i]
        return np.sum(out)

    found = functad.profile(f, np.array([1.0, -2.0, 3.0]))
    [line] = [row for row in found.lines() if row.code.startswith("out[i]")]
    assert line.calls >= 9
    assert found.compiled.seconds is not None  # a path for the values
    numbers = functad.profile(lambda x: x * float(functad.stop_gradient(x)), 2.0).compiled
    assert numbers.seconds is None
    assert "float()" in numbers.reason


# What may be given


def test_results_that_are_arrays_or_trees_are_pulled_back_with_ones():
    found = functad.profile(lambda x: {"a": np.sin(x), "b": (x * 1j, 3)}, np.ones(4))
    assert of(found.rows, operation="np.sin").backward > 0
    assert found.compiled.seconds is not None


def test_trainable_variables_are_differentiated_where_there_are_some():
    layer = functad.nn.Dense(2, inputs=3, rng=0)
    found = functad.profile(lambda x: np.sum(layer(x) ** 2), np.ones((4, 3)))
    assert sorted(found.inputs) == ["the Variable 'dense/bias'", "the Variable 'dense/kernel'"]
    assert found.compiled.seconds is not None
    both = functad.profile(lambda m, x: np.sum(m(x)), layer, np.ones((4, 3)), argnums=1)
    assert both.inputs[0] == "args[1]"
    assert len(both.inputs) == 3


def test_a_compiled_function_is_profiled_by_its_own_source():
    @functad.jit(static_argnums=1)
    def power(x, n):
        for _ in range(n):
            x = x * x
        return np.sum(x)

    found = functad.profile(power, np.ones(3), 4)
    assert of(found.rows, operation="np.multiply").calls == 4
    assert "is compiled" in repr(found)
    assert found.compiled.seconds is not None


def test_integers_that_steer_a_loop_are_static_when_it_is_compiled():
    found = functad.profile(lambda x, n: sum([x**i for i in range(n)]), 1.5, 4)
    assert found.compiled.static == (1,)
    assert "static_argnums=(1,)" in repr(found)


def test_auxiliary_results_and_keywords():
    found = functad.profile(
        lambda x, *, scale: (np.sum(x * scale), "aux"), np.ones(3), has_aux=True, argnames="scale", scale=2.0
    )
    assert found.inputs == ("kwargs['scale']",)


class Model(functad.Module):
    def __init__(self):
        super().__init__()
        self.weight = functad.Variable(np.ones(3))

    @functad.jit
    def compiled(self, x):
        return np.sum(self.weight * x)

    def __call__(self, x):
        return np.sum(self.weight * x)


MODEL = Model()
KINDS = {
    "a module": (MODEL, [np.ones(3)], ["np.multiply", "np.sum"]),
    "a compiled method": (MODEL.compiled, [np.ones(3)], ["np.multiply", "np.sum"]),
    "a derivative": (functad.grad(lambda x: np.sum(x**2)), [np.ones(3)], ["np.add", "np.multiply", "np.power", "np.sum"]),
    "a compiled derivative": (functad.jit(functad.grad(lambda x: x * x)), [2.0], ["np.add", "np.multiply"]),
    "a function of NumPy": (np.sin, [np.ones(3)], ["np.sin"]),
    "complex numbers": (lambda z: np.exp(z), [np.array([1 + 1j])], ["np.exp"]),
    "a derivative inside": (lambda x: functad.grad(lambda y: np.sin(y))(x) * 2, [0.3], ["np.cos", "np.multiply", "np.sin"]),
    "a batch inside": (lambda x: functad.vmap(lambda y: np.sin(y))(x), [np.ones(3)], ["np.sin"]),
    "nothing to do": (lambda x: 3.0, [1.0], []),
    "the argument": (lambda x: x, [1.0], []),
    "nothing in it": (lambda x: np.sum(x), [np.zeros(0)], ["np.sum"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_functions_of_every_kind_are_profiled(name):
    f, args, expected = KINDS[name]
    found = functad.profile(f, *args)
    assert sorted({row.operation for row in found.rows}) == expected
    assert found.compiled.seconds is not None
    assert max(map(len, repr(found).splitlines())) <= 80
    ET.fromstring(found._repr_html_())
    assert functad.doctor(f, *args).of("error") == ()


@pytest.mark.parametrize("args", [(3,), ("text",), ()])
def test_nothing_to_differentiate_raises(args):
    with pytest.raises(InputError, match=r"nothing to differentiate|has 0 positional"):
        functad.profile(lambda *given: 1.0, *args)


def test_a_result_that_is_no_array_raises():
    with pytest.raises(OutputError):
        functad.profile(lambda x: "text", 1.0)


def test_random_branches_are_told():
    count = itertools.count()

    def f(x):
        return np.sum(np.sin(x)) if next(count) % 2 else np.sum(x)

    assert "Not all runs did the same operations" in repr(functad.profile(f, np.ones(3)))


# What stays as it was


def test_arguments_random_numbers_and_variables_stay_what_they_are():
    average = functad.Variable(np.zeros(3), trainable=False)
    weight = functad.Variable(np.ones(3))
    generator = np.random.default_rng(0)
    state = generator.bit_generator.state

    def f(x, generator):
        x += 1.0
        average.assign(average * 0.9 + 0.1)
        return np.sum(weight * x * generator.normal(size=3)) + np.random.rand()  # noqa: NPY002

    x = np.ones(3)
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.get_state()[1].copy()  # noqa: NPY002
    functad.profile(f, x, generator)
    assert (x == 1).all()
    assert (average.numpy() == 0).all()
    assert generator.bit_generator.state == state
    assert (np.random.get_state()[1] == expected).all()  # noqa: NPY002


def test_profiling_keeps_the_note_of_a_cut_derivative():
    v = functad.Variable(1.0, trainable=False)

    def f(x):
        v.assign(x)
        functad.profile(assigning, 2.0)
        return v * 2.0

    def assigning(x):
        out = x * v
        v.assign(x)
        return out

    with pytest.warns(UnconnectedWarning, match="holds a copy"):
        assert functad.grad(f)(3.0) == 0.0
    assert float(v) == 3.0


def test_each_run_gets_one_copy_for_what_is_one_array():
    x = np.ones(3)
    seen = []
    functad.profile(lambda w, a, b: (seen.append(a is b), np.sum(w * a * b))[1], 2.0, x, x)
    assert seen[0]


# How it is shown


def many_lines(x):
    a = np.sin(x)
    b = np.cos(a)
    c = np.exp(b)
    d = np.tanh(c)
    e = d * 2
    f = e + 1
    g = f / 3
    h = g - a
    i = np.sqrt(h * h + 1)
    j = np.log(i + 1)
    k = j * b
    m = k + c + a_function_with_a_rather_long_name_that_does_not_fit_into_any_column_at_all(x, x)
    return np.sum(m)


def a_function_with_a_rather_long_name_that_does_not_fit_into_any_column_at_all(first, second):
    return first * second


@pytest.mark.parametrize("f", [many_lines, lambda x: np.sum(x)])
def test_text_has_at_most_80_columns_and_notebooks_well_formed_markup(f):
    found = functad.profile(f, np.ones(5))
    assert max(map(len, repr(found).splitlines())) <= 80
    page = ET.fromstring(found._repr_html_())
    heads = [cell.text for cell in page.iter("th")]
    assert heads[:7] == ["line", "code", "calls", "forward", "backward", "made", "share"]
    codes = {cell.text for cell in page.iter("code")}
    assert {row.code for row in found.lines()} <= codes


def test_the_picture_is_as_wide_as_the_times(ticking):
    found = functad.profile(loss, *arguments())
    svg = ET.fromstring(found.svg())
    boxes = list(svg.iter("{http://www.w3.org/2000/svg}rect"))
    [whole] = found.bars()
    colours = {box.get("fill") for box in boxes}
    assert colours == {"var(--ftd-blue)", "var(--ftd-orange)"}
    first, second = boxes[:2]  # those of the whole function
    assert float(first.get("width")) / 760 == pytest.approx(whole.forward / whole.time, abs=0.01)
    assert float(second.get("x")) == pytest.approx(float(first.get("width")), abs=1)
    told = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert any(text.startswith("layer (test_profile.py") for text in told)
