"""Containers are matched by key in the whole TensorFlow-style layer, whatever the order in which the keys were given."""

import dataclasses
import itertools
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape, errors
from tests.eager.taped import recorded


class Named(NamedTuple):
    z: Any
    a: Any
    m: Any


@dataclasses.dataclass
class Fields:
    z: Any
    a: Any
    m: Any


ORDERS = [dict(zip(order, order, strict=True)) for order in itertools.permutations("zam")]
MAPPINGS = {
    "dict": lambda **parts: dict(parts),
    "OrderedDict": lambda **parts: OrderedDict(parts),
    "defaultdict": lambda **parts: defaultdict(list, parts),
    "inside": lambda **parts: [{"q": OrderedDict(parts)}],
}
OTHERS = {"namedtuple": Named, "dataclass": Fields, "list": lambda **p: [p["z"], p["a"], p["m"]]}
ALL = {**MAPPINGS, **OTHERS}
SLOPES = {"z": 10.0, "a": 3.0, "m": 0.5}


def in_order(order, **parts):
    return {key: parts[key] for key in order}


def leaf(tree, key):
    """Return what stands at a key, or in its place, in one of the containers."""
    if isinstance(tree, list) and len(tree) == 1:
        tree = tree[0]["q"]
    if isinstance(tree, list):
        return tree["zam".index(key)]
    return tree[key] if isinstance(tree, dict) else getattr(tree, key)


PLAIN = ["dict", "OrderedDict", "defaultdict"]
PAIRS = [
    *[pytest.param(make, make, id=kind) for kind, make in ALL.items() if kind not in PLAIN],
    *[pytest.param(ALL[a], ALL[b], id=f"{a} and {b}") for a, b in itertools.product(PLAIN, repeat=2)],
]


@pytest.fixture
def x():
    return {key: functad.constant(value) for key, value in (("z", 3.0), ("a", 2.0), ("m", 5.0))}


def scaled(x):
    return {key: SLOPES[key] * x[key] for key in x}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("make", "other"), PAIRS)
def test_seeds(make, other, order, x):
    seeds = other(**in_order(order, z=1.0, a=20.0, m=300.0))
    wanted = [10.0, 60.0, 150.0]
    sources = [x[key] for key in "zam"]
    tape, y = recorded(lambda: make(**scaled(x)), sources, persistent=True)
    assert [float(g) for g in tape.gradient(y, sources, output_gradients=seeds)] == wanted
    assert [
        float(g)
        for g in functad.gradients_function(lambda *s: make(**scaled(dict(zip("zam", s, strict=True)))))(*sources, dy=seeds)
    ] == wanted
    value, vjp = functad.make_vjp(lambda *s: make(**scaled(dict(zip("zam", s, strict=True)))))(*sources)
    assert float(leaf(value, "a")) == 6.0
    assert [float(g) for g in vjp(seeds)] == wanted
    with functad.graph():
        targets = make(**scaled(x))
        found = functad.gradients([targets], sources, grad_ys=[seeds])
    assert [float(g) for g in found] == wanted


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("make", "other"), PAIRS)
def test_tangents(make, other, order, x):
    primals, tangents = make(**x), other(**in_order(order, z=1.0, a=20.0, m=300.0))
    with ForwardAccumulator(primals, tangents) as accumulator:
        y = x["z"] * x["a"] + x["m"]
        parts = make(**scaled(x))
    assert float(accumulator.jvp(y)) == 2.0 + 60.0 + 300.0
    found = accumulator.jvp(parts)
    assert [float(leaf(found, key)) for key in "zam"] == [10.0, 60.0, 150.0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ALL)
def test_sources(kind, order, x):
    sources = ALL[kind](**in_order(order, **x))
    tape, y = recorded(lambda: x["z"] * x["a"] + 7.0 * x["m"], sources, persistent=True, lists=True)
    for found in (tape.gradient(y, sources), tape.jacobian(y, sources)):
        assert [float(leaf(found, key)) for key in "zam"] == [2.0, 3.0, 7.0]
        assert type(found) is type(sources)
    if isinstance(sources, dict):
        assert list(tape.gradient(y, sources)) == list(order)
    value, (found,) = functad.value_and_gradients_function(lambda s: leaf(s, "z") * leaf(s, "a") + 7.0 * leaf(s, "m"))(sources)
    assert float(value) == 41.0
    assert [float(leaf(found, key)) for key in "zam"] == [2.0, 3.0, 7.0]
    listed = tape.expressions(y, sources)
    assert float(listed(*sources) if isinstance(sources, list) else listed(sources)) == 41.0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("make", "other"), PAIRS)
def test_custom_gradient(make, other, order, x):
    """The argument, what the gradient function returns, and the result may all have their keys in other orders."""
    reached = []

    @functad.custom_gradient
    def f(parts):
        def grad_fn(*dys):
            reached.append([float(dy) for dy in dys])
            return other(**in_order(order, z=1.0, a=20.0, m=300.0))

        return make(**{key: 2.0 * leaf(parts, key) for key in "mza"}), grad_fn

    sources = [x[key] for key in "zam"]
    with GradientTape() as tape:
        tape.watch(sources)
        out = f(make(**x))
        y = 7.0 * leaf(out, "z") + 11.0 * leaf(out, "a") + 13.0 * leaf(out, "m")
    assert [float(g) for g in tape.gradient(y, sources)] == [1.0, 20.0, 300.0]
    by_key = isinstance(out, dict) or (isinstance(out, list) and len(out) == 1)
    assert reached == [[11.0, 13.0, 7.0] if by_key else [7.0, 11.0, 13.0]]


@pytest.mark.parametrize("kind", PLAIN)
def test_lists_stand_for_dicts_in_the_order_of_sorted_keys(kind, x):
    sources = [x["z"], x["a"], x["m"]]
    for seeds in ([1.0, 2.0, None], (1.0, 2.0, 1.0)):
        tape, y = recorded(lambda: MAPPINGS[kind](**scaled(x)), sources)
        assert [float(g) for g in tape.gradient(y, sources, output_gradients=seeds)] == [10.0, 3.0, 1.0]

    @functad.custom_gradient
    def f(parts, other):
        return parts["z"] * other, lambda dy: [1.0, 2.0, 3.0, 4.0]

    tape, y = recorded(lambda: f(MAPPINGS[kind](**x), x["z"] * 1.0), sources)
    assert [float(g) for g in tape.gradient(y, sources)] == [7.0, 1.0, 2.0]


def test_gradients_by_arguments_may_be_dicts_beside_others_and_none(x):
    @functad.custom_gradient
    def f(parts, other, more):
        return other * 1.0, lambda dy: ({"m": 3.0, "z": None, "a": 2.0}, dy * 5.0, None)

    tape, y = recorded(lambda: f(x, x["m"] * 1.0, [x["z"], x["a"]]), x)
    found = tape.gradient(y, OrderedDict(x))
    assert {key: None if g is None else float(g) for key, g in found.items()} == {"z": None, "a": 2.0, "m": 8.0}


def test_recompute_grad_and_grad_pass_through(x):
    def f(parts):
        return OrderedDict(z=parts["z"] ** 2, a=parts["a"] ** 3, m=parts["m"] * parts["z"])

    for order in ORDERS:
        given = OrderedDict(in_order(order, **x))
        for wanted, function in (
            ([22.0, 240.0, 900.0], functad.recompute_grad(f)),
            ([2.0, 20.0, 300.0], functad.grad_pass_through(f)),
        ):
            with GradientTape() as tape:
                tape.watch(given)
                out = function(given)
                y = 2.0 * out["z"] + 20.0 * out["a"] + 300.0 * out["m"]
            found = tape.gradient(y, given)
            extra = 300.0 * 5.0 if wanted[0] == 22.0 else 0.0
            first = 12.0 + extra if extra else wanted[0]
            assert [float(found[key]) for key in "zam"] == [first, *wanted[1:]]


WRONG = {
    "missing": (lambda: {"z": 1.0, "a": 1.0}, ValueError, "must have the keys of {}, .*: 'm' is missing"),
    "extra": (
        lambda: {"z": 1.0, "a": 1.0, "m": 1.0, "b": 2.0},
        ValueError,
        "must have the keys of {}, .*: 'b' is none of them",
    ),
    "another": (lambda: {"z": 1.0, "a": 1.0, "n": 1.0}, ValueError, "must have .*'m' is missing, 'n' is none of them"),
    "a namedtuple": (lambda: Named(1.0, 1.0, 1.0), TypeError, "must be a dict .*, as {}, not a Named"),
    "a leaf": (lambda: 1.0, TypeError, "must be a dict .*, as {}, not a leaf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_match_is_refused_and_spends_nothing(case, x):
    make, kind, text = WRONG[case]
    sources = [x["z"], x["a"], x["m"]]
    tape, y = recorded(lambda: scaled(x), sources)
    with pytest.raises(kind, match="output_gradients " + text.format("target")) as raised:
        tape.gradient(y, sources, output_gradients=make())
    assert isinstance(raised.value, errors.FunctadError)
    assert __file__ in str(raised.value)
    assert [float(g) for g in tape.gradient(y, sources)] == [10.0, 3.0, 0.5]
    with pytest.raises(kind, match="tangents " + text.format("primals")):
        ForwardAccumulator(x, make())


def test_lists_and_tuples_of_other_lengths_are_refused(x):
    with pytest.raises(ValueError, match="tangents should be a list of 2, not a list of 3, as primals"):
        ForwardAccumulator([x["z"], x["a"]], [1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match=r"tangents\['q'\] must be a list of 2, as primals\['q'\], not a tuple of 2"):
        ForwardAccumulator({"q": [x["z"], x["a"]]}, {"q": (1.0, 2.0)})


def test_functions_see_dicts_in_the_order_of_the_user(x):
    given = {"z": 1.0, "a": 2.0, "m": 3.0}
    seen = []

    def f(parts):
        seen.append(list(parts))
        return {"y": parts["z"], "b": parts["a"] * parts["m"]}

    value, (found,) = functad.value_and_gradients_function(f)(given)
    assert seen == [list("zam")]
    assert (list(value), list(found)) == (["y", "b"], list("zam"))
    assert [float(g) for g in found.values()] == [1.0, 3.0, 2.0]


def test_a_jacobian_by_a_batch_takes_dicts_as_sources_of_arrays():
    z, a = functad.Variable(np.ones(2)), functad.Variable(np.ones((2, 2)))
    with GradientTape() as tape:
        y = a @ (z * 2.0)
    found = tape.jacobian(y, {"z": z, "a": a})
    assert list(found) == ["z", "a"]
    assert {key: g.shape for key, g in found.items()} == {"z": (2, 2), "a": (2, 2, 2)}
