"""What a tape follows: what was watched, and Variables that are read."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import GradientTape


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structures_can_be_watched():
    a, b, c, d = (functad.constant(float(i)) for i in range(1, 5))
    v = functad.Variable(5.0, trainable=False)
    with GradientTape() as tape:
        tape.watch({"p": Pair(a, [b]), "q": (c, v)})
        y = a * b * c * d * v
    found = tape.gradient(y, [a, b, c, d, v])
    assert found[3] is None
    assert [float(g) for g in (*found[:3], found[4])] == [120 / 1, 120 / 2, 120 / 3, 120 / 5]


@pytest.mark.parametrize("value", [3.0, "x", np.ones(2), object(), 1, True, [3.0], {"a": np.ones(2)}, None])
def test_what_is_no_tensor_cannot_be_watched(value):
    with GradientTape() as tape, pytest.raises(TypeError, match=r"tensor(\[.*\])? is a |None"):
        tape.watch(value)


def test_a_module_is_told_from_its_variables():
    layer = functad.nn.Dense(1, inputs=2)
    with GradientTape() as tape, pytest.raises(TypeError, match=r"tensor is a Dense.* Write dense\.trainable_variables"):
        tape.watch(layer)
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(layer.trainable_variables)
    assert len(tape.watched_variables()) == 2


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "uint8"])
def test_integers_cannot_be_watched(dtype):
    x = functad.constant(3, dtype=dtype)
    with GradientTape() as tape, pytest.raises(TypeError, match="floating-point"):
        tape.watch(x)
    with GradientTape() as tape:
        with pytest.raises(TypeError, match=r"tensor\[1\]"):
            tape.watch([functad.constant(1.0), x])
        assert tape.stats() == {"records": 0, "bytes": 0}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_inexact_numbers_can_be_watched_without_a_warning(dtype):
    x = functad.constant(3, dtype=dtype)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    g = tape.gradient(y, x)
    assert g.dtype == np.dtype(dtype)
    assert g.numpy() == 6


def test_watching_after_use_gives_nothing():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        y = x * x
        tape.watch(x)
    assert tape.gradient(y, x) is None


def test_watching_midway_counts_later_operations_only():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        a = x * x
        tape.watch(x)
        y = a * x
    assert float(tape.gradient(y, x)) == 9


def test_watching_twice_equals_once():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        tape.watch([x, x])
        y = x * x
    assert float(tape.gradient(y, x)) == 6


def test_a_watch_belongs_to_one_tape():
    x = functad.constant(3.0)
    with GradientTape() as outer, GradientTape() as inner:
        inner.watch(x)
        y = x * x
    assert outer.gradient(y, x) is None
    assert float(inner.gradient(y, x)) == 6
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            y = x * x
    assert inner.gradient(y, x) is None
    assert float(outer.gradient(y, x)) == 6


def test_watching_keeps_the_object_usable_everywhere():
    x = functad.constant([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        assert x.shape == (2,)
        assert np.array_equal(x.numpy(), [1, 2])
    assert np.array_equal(np.asarray(x), [1, 2])
    assert float((x * x).sum()) == 5


def test_identity_names_a_source():
    x = functad.constant(3.0)
    v = functad.Variable(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * v
    assert tape.gradient(y, functad.constant(3.0)) is None
    assert tape.gradient(y, np.copy(x)) is None
    assert tape.gradient(y, v.read_value()) is None
    assert float(tape.gradient(y, v)) == 3


def test_operations_return_new_objects():
    x = functad.constant(3.0)
    for other in (x + 0, x * 1, +x, np.copy(x), x.astype(float), x.reshape(()), x[()]):
        assert other is not x
    with GradientTape() as tape:
        tape.watch(x)
        y = x * 2
        old = y
        y += x
        z = y * 1
    assert float(tape.gradient(z, old)) == 1


def test_ids_of_dead_tensors_are_not_mistaken():
    with GradientTape(persistent=True) as tape:
        for i in range(50):
            tape.watch(functad.constant(float(i)))
        fresh = [functad.constant(float(i)) for i in range(50)]
        y = sum(x * x for x in fresh)
    assert all(g is None for g in tape.gradient(y, fresh))


# Variables


def test_trainable_variables_are_followed_when_read():
    v, w = functad.Variable(2.0), functad.Variable(5.0)
    functad.Variable(7.0)
    with GradientTape() as tape:
        assert tape.watched_variables() == ()
        y = v * w
    assert [id(variable) for variable in tape.watched_variables()] == [id(v), id(w)]
    assert [float(g) for g in tape.gradient(y, [v, w])] == [5, 2]


def test_what_is_read_while_stopped_is_no_part():
    v = functad.Variable(2.0)
    with GradientTape() as tape:
        with tape.stop_recording():
            a = v * v
        assert tape.watched_variables() == ()
        y = a * v
    assert float(tape.gradient(y, v)) == 4
    assert tape.watched_variables()[0] is v


def test_untrainable_variables_are_skipped_unless_watched():
    v = functad.Variable(2.0, trainable=False)
    with GradientTape() as tape:
        y = v * v
    assert tape.gradient(y, v) is None
    with GradientTape() as tape:
        tape.watch(v)
        y = v * v
    assert tape.watched_variables()[0] is v
    assert float(tape.gradient(y, v)) == 4


def test_automatic_watching_can_be_switched_off():
    v, w = functad.Variable(2.0), functad.Variable(3.0)
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(w)
        y = v * w
    assert [variable is w for variable in tape.watched_variables()] == [True]
    g, h = tape.gradient(y, [v, w])
    assert g is None
    assert float(h) == 2


def test_watched_variables_come_in_order_of_creation():
    first, second, third = (functad.Variable(float(i), name=str(i)) for i in range(3))
    tape = GradientTape()
    assert tape.watched_variables() == ()
    with tape:
        y = third * first * third + second
    assert [v.name for v in tape.watched_variables()] == ["0", "1", "2"]
    assert isinstance(tape.watched_variables(), tuple)
    tape.gradient(y, first)
    assert [v.name for v in tape.watched_variables()] == ["0", "1", "2"]
    with tape:
        assert tape.watched_variables() == ()


def test_integer_variables_are_not_trainable():
    assert functad.Variable(3).trainable is False
    with pytest.raises(TypeError, match="integers have no derivative"):
        functad.Variable(3, trainable=True)
    v = functad.Variable(3)
    with GradientTape() as tape:
        y = v * 2.0
    assert tape.watched_variables() == ()
    assert tape.gradient(y, v) is None


def test_each_nested_tape_follows_variables():
    v = functad.Variable(3.0)
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = v**3
        g = inner.gradient(y, v)
    assert float(g) == 27
    assert float(outer.gradient(g, v)) == 18
    assert inner.watched_variables()[0] is outer.watched_variables()[0] is v


def test_variable_read_by_another_tape_first_is_followed():
    v = functad.Variable(3.0)
    with GradientTape(watch_accessed_variables=False) as outer:
        u = v * 1.0
        with GradientTape() as inner:
            y = v * u
        assert float(inner.gradient(y, v)) == 3
    assert outer.gradient(y, v) is None


def test_variables_watched_midway():
    v = functad.Variable(3.0, trainable=False)
    with GradientTape() as tape:
        a = v * v
        tape.watch(v)
        y = a * v
    assert float(tape.gradient(y, v)) == 9
