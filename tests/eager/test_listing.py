"""`tape.expressions`: a persistent tape as an expression list."""

import gc
import weakref

import numpy as np
import pytest

import functad
from functad import errors
from functad.eager.tape import GradientTape


def listed(f, *values):
    """Return a tape that kept the calls of a function of constants, the result, and the constants."""
    xs = [functad.constant(v) for v in values]
    with GradientTape(persistent=True, keep_expressions=True) as tape:
        tape.watch(xs)
        y = f(*xs)
    return tape, y, xs


def test_list_prints_and_computes_anew():
    tape, y, xs = listed(lambda x, z: np.sum(np.sin(x) * z), [1.0, 2.0], 3.0)
    found = tape.expressions(y, xs).check()
    assert repr(found) == (
        "{ lambda x:float64[2] x1:float64[].\n"
        "  a:float64[2] = sin x\n"
        "  b:float64[2] = multiply a x1\n"
        "  c:float64[] = sum b\n"
        "  return c }"
    )
    assert found(np.array([0.5, 0.6]), 2.0) == pytest.approx(2 * (np.sin(0.5) + np.sin(0.6)))
    assert np.allclose(functad.grad(found)(np.array([1.0, 2.0]), 3.0), tape.gradient(y, xs[0]).numpy())


PROGRAMS = {
    "split": lambda x: [part * 2 for part in np.split(x, 2)],
    "index": lambda x: x[1] * x[-1] + x[:2].sum(),
    "mask": lambda x: np.where(x > 1.0, x, 0.0),
    "write": lambda x: _written(x),
    "loop": lambda x: sum(v * v for v in x),
    "dict": lambda x: {"a": x @ x, "b": (np.exp(x),)},
    "sort": lambda x: np.sort(x)[::-1] * np.arange(4.0),
    "custom": lambda x: functad.recompute_grad(np.sin)(x) * 2,
}


def _written(x):
    y = x * 2.0
    y[1:3] = x[:2] ** 2
    return y


@pytest.mark.parametrize("program", PROGRAMS)
def test_list_computes_what_the_tape_saw(program):
    f, values = PROGRAMS[program], np.array([0.5, 2.0, 1.5, -1.0])
    tape, y, (x,) = listed(f, values)
    found = tape.expressions(y, x)(values)
    wanted = f(values)
    assert isinstance(found, dict) == isinstance(wanted, dict)
    leaves = zip(np.atleast_1d(_flat(found)), np.atleast_1d(_flat(wanted)), strict=True)
    assert all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in leaves)
    assert np.array_equal(
        tape.gradient(y, x).numpy(), functad.grad(lambda x: sum(np.sum(part) for part in _leaves(f(x))))(values)
    )


def _leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, (list, tuple)) else [tree]


def _flat(tree):
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in _leaves(tree)])


def test_gradients_taken_inside_are_part_of_it(monkeypatch):
    monkeypatch.setattr(GradientTape, "_warned", True)
    x = functad.constant(2.0)
    with GradientTape(persistent=True, keep_expressions=True) as tape:
        tape.watch(x)
        g = tape.gradient(x**3, x)
    assert tape.expressions(g, x).check()(5.0) == 75
    assert float(tape.gradient(g, x)) == 12


def test_variables_give_names_and_other_sources_are_constants():
    w, b = functad.Variable([1.0, 2.0], name="w"), functad.Variable(3.0, name="b")
    with GradientTape(persistent=True, keep_expressions=True) as tape:
        y = w * b
    assert repr(tape.expressions(y, {"w": w})).startswith("{ lambda w:float64[2].\n  a:float64[2] = multiply w 3.0:float64\n")
    assert np.array_equal(tape.expressions(y, {"w": w})({"w": np.ones(2)}), [3, 3])
    assert np.array_equal(tape.expressions(y, (b, w))(10.0, np.ones(2)), [10, 10])


def test_intermediate_sources_and_targets_outside():
    tape, y, (x,) = listed(lambda x: np.sin(x), 2.0)
    with tape:
        z = y * x
    assert repr(tape.expressions(z, y)) == "{ lambda x:float64[].\n  a:float64[] = multiply x 2.0:float64\n  return a }"
    assert tape.expressions([z, functad.constant(5.0)], x)(1.0)[1] == 5
    assert tape.expressions(x, x)(4.0) == 4


def test_tapes_that_do_not_know():
    x = functad.constant(2.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(errors.TapeError, match="keep_expressions=True"):
        tape.expressions(y, x)
    with GradientTape(keep_expressions=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.expressions(y, x)(3.0) == 9
    tape.gradient(y, x)
    with pytest.raises(errors.TapeError, match="spent"):
        tape.expressions(y, x)
    with pytest.raises(TypeError, match="sources is a float"):
        listed(lambda x: x, 1.0)[0].expressions(y, 3.0)


def test_nested_in_other_tapes():
    x = functad.constant(2.0)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape(persistent=True, keep_expressions=True) as tape:
            tape.watch(x)
            with GradientTape() as inner:
                inner.watch(x)
                y = x**3
            g = inner.gradient(y, x)
        assert tape.expressions(g, x)(5.0) == 75
    assert float(outer.gradient(g, x)) == 12


def test_kept_expressions_go_with_the_tape():
    tape, y, (x,) = listed(lambda x: x * 2.0, np.ones(3))
    ref = weakref.ref(tape.recorder)
    del tape, y, x
    gc.collect()
    assert ref() is None
