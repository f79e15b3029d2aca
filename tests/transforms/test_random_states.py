"""Random numbers that a function draws while it is traced are constants of the list: a warning says so."""

from __future__ import annotations

import functools
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import FrozenRandomWarning, InputError

X = np.arange(1.0, 4.0)
RNG = np.random.default_rng(5)
LEGACY = np.random.RandomState(5)
PYTHONS = random.Random(5)
BITS = np.random.PCG64(5)
SEEDS = np.random.SeedSequence(5)


class Noisy:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.generators = {"a": [np.random.default_rng(2)]}

    def times(self, x: Any) -> Any:
        return x * self.rng.random()

    def from_items(self, x: Any) -> Any:
        return x * self.generators["a"][0].random()


def frozen_warnings(call: Callable[[], Any]) -> list[str]:
    """Return the texts of the warnings about frozen random numbers that a call gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in found if issubclass(warning.category, FrozenRandomWarning)]


def drawing(draw: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda x: x * draw()


def from_default(x: Any, rng: np.random.Generator = np.random.default_rng(3)) -> Any:  # noqa: B008 - the test is about it
    return x * rng.normal()


def second_normal(x: Any) -> Any:
    return x * np.random.normal()  # noqa: NPY002 - the legacy generator is tested


DRAWS: dict[str, Callable[[Any], Any]] = {
    "np.random": lambda x: x * np.random.rand(3),  # noqa: NPY002
    "random": lambda x: x * random.random(),
    "global Generator": lambda x: x * RNG.random(3),
    "global RandomState": lambda x: x * LEGACY.rand(3),
    "global Random": lambda x: x * PYTHONS.gauss(0.0, 1.0),
    "BitGenerator": lambda x: x * float(BITS.random_raw() % 7),
    "spawned Generator": lambda x: x * RNG.spawn(1)[0].random(),
    "spawned SeedSequence": lambda x: x * np.random.default_rng(SEEDS.spawn(1)[0]).random(),
    "closure": drawing(lambda: RNG.random()),
    "bound method": drawing(RNG.random),
    "partial": functools.partial(lambda rng, x: x * rng.random(), RNG),
    "default": from_default,
    "attribute": Noisy().times,
    "item": Noisy().from_items,
    "permutation": lambda x: x[RNG.permutation(3)],
    "shuffle": lambda x: x[RNG.permuted(np.arange(3))],
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("wrap", [functad.jit, functad.make_expressions, lambda f: functools.partial(functad.to_source, f)])
def test_drawn_numbers_give_a_warning(name, wrap):
    with pytest.warns(FrozenRandomWarning, match="drew random numbers from") as caught:
        wrap(DRAWS[name])(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_warning_names_function_generator_and_line():
    line = sys._getframe().f_lineno + 2
    with pytest.warns(FrozenRandomWarning) as caught:
        functad.jit(second_normal)(X)
    text = str(caught[0].message)
    assert caught[0].lineno == line
    assert f"jit of second_normal, called at {__file__}:{line}: the function drew random numbers from np.random" in text


def test_second_number_of_a_pair_is_found():
    """The legacy generator keeps the second of two normal numbers, so its position does not change."""
    np.random.seed(0)  # noqa: NPY002
    np.random.normal()  # noqa: NPY002
    with pytest.warns(FrozenRandomWarning):
        functad.make_expressions(second_normal)(X)


def test_a_compiled_call_gives_no_further_warning():
    f = functad.jit(drawing(RNG.random))
    with pytest.warns(FrozenRandomWarning):
        first = f(X)
    np.testing.assert_array_equal(f(X), first)  # warnings are errors here


def noisy_sum(x: Any) -> Any:
    return np.sum(x * x * RNG.random(3))


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "grad": functad.grad(noisy_sum),
    "value_and_grad": functad.value_and_grad(noisy_sum),
    "hessian": functad.hessian(noisy_sum),
    "jvp": lambda x: functad.jvp(noisy_sum, (x,), (x,)),
    "vmap": functad.vmap(drawing(RNG.random)),
    "jit": lambda x: functad.jit(noisy_sum)(x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("backend", ["numpy", None])
def test_jit_of_a_transform_warns_once(name, backend):
    with pytest.warns(FrozenRandomWarning) as caught:
        functad.jit(TRANSFORMED[name], backend=backend)(X)
    assert len(caught) == 1


@pytest.mark.parametrize("transform", [functad.grad, functad.vmap, functad.jacobian])
def test_transform_of_a_compiled_function_warns(transform):
    f = functad.jit((lambda x: x * RNG.random()) if transform is not functad.grad else noisy_sum)
    with pytest.warns(FrozenRandomWarning):
        transform(f)(X)


def test_lower_warns():
    with pytest.warns(FrozenRandomWarning):
        functad.jit(noisy_sum).lower(X)


# Loops and branches draw in each step where values are known, and once where they are traced


def step_of(rng: Any) -> Callable[[Any, Any], Any]:
    return lambda i, c: c + rng.random()


def in_scan(x):
    rng = np.random.default_rng(0)
    return functad.scan(lambda c, _: (c + rng.random(), None), x, None, 4)[0]


def in_fori_loop(x):
    return functad.fori_loop(0, 4, step_of(np.random.default_rng(0)), x)


def in_while_loop(x):
    rng = np.random.default_rng(0)
    return functad.while_loop(lambda c: c[0] < 3.0, lambda c: c + rng.random(), x)


def in_condition(x):
    rng = np.random.default_rng(0)
    return functad.while_loop(lambda c: c[0] < 3.0 + rng.random(), lambda c: c + 1.0, x)


def in_cond(x):
    rng = np.random.default_rng(0)
    return functad.cond(x[0] > 0, lambda c: c + rng.random(), lambda c: c - rng.random(), x)


def in_switch(x):
    rng = np.random.default_rng(0)
    return functad.switch((x[0] > 0).astype(int), [lambda c: c + rng.random(), lambda c: c - rng.random()], x)


def in_map(x):
    rng = np.random.default_rng(0)
    return functad.map(lambda c: c * rng.random(), x)


BODIES = [in_scan, in_fori_loop, in_while_loop, in_condition, in_cond, in_switch, in_map]


@pytest.mark.parametrize("f", BODIES)
@pytest.mark.parametrize("transform", [functad.jit, functad.make_expressions])
def test_body_that_draws_from_a_generator_of_the_function_around_it_warns(f, transform):
    with pytest.warns(FrozenRandomWarning, match="Draw them before the (loop|choice)"):
        transform(f)(X)


@pytest.mark.parametrize("f", BODIES)
def test_body_that_runs_on_values_draws_in_each_step(f):
    np.testing.assert_array_equal(f(X), f(X))  # warnings are errors here
    functad.jvp(f, (X,), (X,))


@pytest.mark.parametrize("f", BODIES)
def test_shapes_alone_give_no_warning(f):
    assert frozen_warnings(lambda: functad.eval_shape(f, X)) == []


def test_rows_of_numbers_are_the_advised_form():
    def f(x):
        numbers = np.random.default_rng(0).random(4)
        return functad.scan(lambda c, number: (c + number, None), x, numbers)[0]

    np.testing.assert_allclose(functad.jit(f)(X), in_scan(X), rtol=1e-15)


# No warning: the numbers are the same in eager execution, or are not frozen


def test_generator_with_a_seed_inside_of_the_function_is_deterministic():
    def f(x):
        return x * np.random.default_rng(0).normal(size=3) + random.Random(1).random() + np.random.RandomState(2).rand()

    np.testing.assert_array_equal(functad.jit(f)(X), f(X))
    functad.make_expressions(f)(X)
    functad.to_source(f, X)


def test_frozen_numbers_are_counted():
    assert len(frozen_warnings(lambda: functad.jit(noisy_sum)(X))) == 1


def test_generator_that_is_reachable_and_not_used_gives_no_warning():
    assert frozen_warnings(lambda: functad.jit(lambda x: x * 2.0 if RNG is not None else x)(X)) == []


@pytest.mark.parametrize("transform", [functad.grad, functad.hessian, functad.value_and_grad])
def test_transforms_that_run_the_function_give_no_warning(transform):
    assert frozen_warnings(lambda: transform(noisy_sum)(X)) == []


def test_jacobian_and_vmap_draw_once_for_all_rows():
    found = functad.jacobian(lambda x: x * RNG.random())(X)
    np.testing.assert_array_equal(found, found[0, 0] * np.eye(3))
    rows = functad.vmap(lambda x: x * RNG.random())(np.ones(4))
    np.testing.assert_array_equal(rows, rows[0])


def test_eval_shape_and_map_blocks_give_no_warning():
    functad.eval_shape(noisy_sum, X)
    da = pytest.importorskip("dask.array", reason="Dask is an extra")
    blocks = functad.map_blocks(lambda x: x + RNG.random(), da.ones(6, chunks=2))
    assert len(set(np.asarray(blocks))) == 3  # each block draws


def test_primitive_draws_in_each_call_and_its_trial_has_no_effect():
    noisy = functad.primitive(lambda x: np.sort(x) * np.random.rand() * RNG.random() * random.random(), lambda g: g)  # noqa: NPY002
    f = functad.jit(lambda x: noisy(x) * 2.0)
    states = np.random.get_state(), RNG.bit_generator.state, random.getstate()  # noqa: NPY002
    found = [f(X), f(X)]
    np.random.set_state(states[0])  # noqa: NPY002
    RNG.bit_generator.state = states[1]
    random.setstate(states[2])
    np.testing.assert_allclose(found, [noisy(X) * 2.0, noisy(X) * 2.0], rtol=1e-15)
    assert found[0][0] != found[1][0]


# Generators as arguments


@pytest.mark.parametrize(
    "generator", [RNG, LEGACY, PYTHONS, BITS], ids=["Generator", "RandomState", "random.Random", "BitGenerator"]
)
@pytest.mark.parametrize("put", [lambda g: g, lambda g: {"rng": g}, lambda g: (1.0, [g])], ids=["itself", "dict", "tuple"])
def test_generator_as_an_argument_is_refused(generator, put):
    f = functad.jit(lambda x, rng: x)
    with pytest.raises(InputError, match=r"an argument is a random generator, .* Draw outside and pass the numbers"):
        f(X, put(generator))
    with pytest.raises(InputError, match="random generator"):
        f.lower(X, put(generator))
    assert f.cache_info() == (0, 0, 0)


def test_generator_as_a_static_argument_is_frozen_with_a_warning():
    f = functad.jit(lambda x, rng: x * rng.random(), static_argnames="rng")
    with pytest.warns(FrozenRandomWarning):
        first = f(X, np.random.default_rng(0))
    assert first[0] == np.random.default_rng(0).random()


def test_generator_in_an_object_among_the_arguments_warns():
    noisy = Noisy()
    with pytest.warns(FrozenRandomWarning):
        functad.jit(lambda x, noise: noise.times(x))(X, noisy)


def test_generators_of_tensorflow_s_names():
    tf = __import__("functad.compat.tf", fromlist=["tf"])
    with pytest.warns(FrozenRandomWarning):
        functad.jit(lambda x: x * tf.random.normal([3], dtype=tf.float64))(X)
    own = tf.random.Generator.from_seed(1)
    with pytest.warns(FrozenRandomWarning):
        functad.jit(lambda x: x * own.normal([3], dtype=tf.float64))(X)


def test_warning_as_an_error_leaves_nothing_compiled():
    f = functad.jit(drawing(RNG.random))
    for _ in range(2):
        with pytest.raises(FrozenRandomWarning):
            f(X)
    assert f.cache_info().size == 0
