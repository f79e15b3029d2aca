"""`tape.expressions`: a tape as an expression list."""

import gc
import operator
import weakref

import numpy as np
import pytest

import functad
from functad import GradientTape, errors
from functad.testing import calls, every_entry
from tests.eager.taped import recorded, taped
from tests.entries import is_constant, label


def listed(f, *values):
    """Return a tape that kept the calls of a function of constants, the result, and the constants."""
    return taped(f, *values, persistent=True, lists=True)


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
    with GradientTape(persistent=True, lists=True) as tape:
        tape.watch(x)
        g = tape.gradient(x**3, x)
    assert tape.expressions(g, x).check()(5.0) == 75
    assert float(tape.gradient(g, x)) == 12


def test_variables_give_names_and_other_sources_are_constants():
    w, b = functad.Variable([1.0, 2.0], name="w"), functad.Variable(3.0, name="b")
    with GradientTape(persistent=True, lists=True) as tape:
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
    tape, y, (x,) = taped(lambda x: x * x, 2.0)
    with pytest.raises(errors.TapeError, match=r"GradientTape\(lists=True\)"):
        tape.expressions(y, x)
    assert float(tape.gradient(y, x)) == 4  # what was refused did not spend it
    tape, y = recorded(lambda: x * x, x, lists=True)
    assert tape.expressions(y, x)(3.0) == 9
    tape.gradient(y, x)
    with pytest.raises(errors.TapeError, match="given its gradient already"):
        tape.expressions(y, x)
    with pytest.raises(errors.TapeError, match="never entered"):
        GradientTape(persistent=True, lists=True).expressions(y, x)
    with pytest.raises(TypeError, match="sources is a float"):
        listed(lambda x: x, 1.0)[0].expressions(y, 3.0)


ROOT = np.array([0.5, 2.0, 1.5, 0.7])
OPERANDS = [
    2.5,
    3,
    np.float64(0.3),
    np.float32(0.5),
    ROOT + 0.1,
    ROOT[:1],
    np.array(1.25),
    ROOT.astype(np.float32),
    [1.0, 2, 3, 4],
]
OPERATORS = [
    *(
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.mod,
        np.maximum,
        np.minimum,
        np.arctan2,
    ),
    np.matmul,
]


@pytest.mark.parametrize("apply", OPERATORS, ids=lambda f: f.__name__)
def test_operators_and_their_plain_operands(apply):
    for value in (ROOT, np.float64(1.3), ROOT.astype(np.float32)):
        for operand in [*OPERANDS, None]:
            if apply is np.matmul and (operand is None or np.shape(operand) != (4,) or np.shape(value) != (4,)):
                continue
            if type(operand) is list and np.shape(value) == ():
                continue  # with a number, Python repeats lists
            for f in (lambda x: apply(x, operand), lambda x: apply(operand, x)):  # noqa: B023 - called at once
                g = f if operand is not None else (lambda x: apply(x, np.sqrt(x)))
                tape, y, (x,) = listed(g, value)
                found = tape.expressions(y, x).check()
                assert len(found.equations) == (1 if operand is not None else 2)
                for other in (value, value * value.dtype.type(0.5)):
                    wanted = g(other)
                    assert np.array_equal(found(other), wanted)
                    assert found(other).dtype == wanted.dtype


def test_operands_that_are_overwritten_later():
    for apply in (operator.add, operator.mul, operator.truediv, lambda x, c: np.where(c > 0.6, x, c)):
        c = ROOT.copy()
        tape, y, (x,) = listed(lambda x: apply(x, c), ROOT)  # noqa: B023 - called at once
        c[:] = 0
        assert np.array_equal(tape.expressions(y, x)(ROOT), apply(ROOT, ROOT))


def test_np_where():
    mask = ROOT > 1
    for f in (
        lambda x: np.where(mask, x, x * 2),
        lambda x: np.where(mask, x, 1.0),
        lambda x: np.where(mask, ROOT, x),
        lambda x: np.where(x > 1, 0, x),
    ):
        tape, y, (x,) = listed(f, ROOT)
        assert np.array_equal(tape.expressions(y, x).check()(ROOT), f(ROOT))


@pytest.mark.parametrize("entry", [e for e in every_entry() if e.status != "refused"], ids=label)
def test_every_function_can_be_listed(entry):
    """By the vocabulary's own samples: what the list computes is what was computed."""
    for call in calls(entry, np.float64):
        for watched in {len(call.primals), min(1, len(call.primals))} - {0}:
            xs = [functad.constant(value) for value in call.primals[:watched]]
            with GradientTape(persistent=True, lists=True) as tape:
                tape.watch(xs)
                try:
                    ys = call.smooth(*xs, *call.primals[watched:])
                except (errors.ConversionError, ValueError):  # as np.array([t, 1.0], like=a), where `a` is no Tensor
                    assert watched < len(call.primals)
                    continue
            targets = [y for y in ys if isinstance(y, functad.Tensor)]
            if not targets or is_constant(entry):
                continue
            found = tape.expressions(targets, xs)
            if entry.name not in ("eig", "eigvals", "roots"):  # whether complex depends on values
                found.check()
            with np.errstate(all="ignore"):
                values = found(*[x.numpy() for x in xs])
            for value, y in zip(values, targets, strict=True):
                assert np.array_equal(value, y.numpy(), equal_nan=True), str(call)


@pytest.mark.parametrize("seed", range(6))
def test_lists_of_random_programs(seed):
    rng = np.random.default_rng(seed)
    x, w = functad.constant(ROOT), functad.Variable(0.5, name="w")
    with GradientTape(persistent=True, lists=True) as tape:
        tape.watch(x)
        y = x * w
        for _ in range(30):
            kind = rng.integers(6)
            np.exp(y + 1.0)
            if kind == 0:
                y = np.sin(y) + 0.25
            elif kind == 1:
                y = np.where(ROOT > 1, y, x)
            elif kind == 2:
                y = np.stack([v / 1.5 for v in y])
            elif kind == 3:
                y = y * 1.0
                y[rng.integers(4)] = x[1]
            elif kind == 4:
                y = np.concatenate(np.split(y, 2)[::-1]) - 0.1
            else:
                y = np.cumsum(y) * np.sum(x) * 0.1
    found = tape.expressions(y, (x, w)).check()
    assert np.array_equal(found(ROOT, 0.5), y.numpy())
    derivative = functad.grad(lambda x, w: np.sum(found(x, w)), argnums=(0, 1))(ROOT, 0.5)
    assert all(np.allclose(a, b.numpy(), rtol=1e-12) for a, b in zip(derivative, tape.gradient(y, [x, w]), strict=True))


def test_values_that_another_tape_followed():
    x = functad.constant(2.0)
    with GradientTape() as outer:
        outer.watch(x)
        before = x * 3.0
        gone = x * 5.0
        with GradientTape(persistent=True, lists=True) as tape:
            z = functad.constant(4.0)
            tape.watch(z)
            y, u = before * z, gone * z
            del gone
        assert tape.expressions(y, z).check()(2.0) == 12
        assert tape.expressions(u, z).check()(2.0) == 20
        assert tape.expressions(before, z)(2.0) == 6
    assert float(outer.gradient(y, x)) == 12


def test_values_that_another_tape_recorded_meanwhile():
    x = functad.constant([2.0, 3.0])
    with GradientTape(lists=True), GradientTape(persistent=True, lists=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            half, low = np.split(np.sin(x) * x, 2)
        y = x * half + low
    found = tape.expressions(y, x).check()
    assert len(found.equations) == 2
    assert np.array_equal(found(np.ones(2)), np.ones(2) * half.numpy() + low.numpy())


def test_writes_into_what_another_tape_made():
    x = functad.constant(ROOT)
    with GradientTape() as outer:
        outer.watch(x)
        made = x * 2.0
        with GradientTape(lists=True) as tape:
            z = functad.constant(4.0)
            tape.watch(z)
            made[1] = z
            rows = np.zeros(2)
            y = made * z
        found = tape.expressions(y, z).check()
    wanted = ROOT * 2
    wanted[1] = 3.0
    assert rows.shape == (2,)
    assert np.array_equal(found(3.0), wanted * 3)
    assert np.array_equal(y.numpy(), [4, 16, 12, 5.6])


def test_a_tape_that_cannot_be_listed_takes_the_short_way_again():
    x = functad.constant(2.0)
    with GradientTape() as outer:
        outer.watch(x)
        assert outer.recorder.fast
        with GradientTape(lists=True):
            assert not outer.recorder.fast
        assert outer.recorder.fast
        y = x * x
    assert float(outer.gradient(y, x)) == 4


def test_constants_are_counted():
    c = np.ones(1000)
    tape, *_ = listed(lambda x: x + c - c, np.ones(1000))
    assert tape.stats() == {"records": 2, "bytes": 2 * c.nbytes}
    tape, kept = recorded(lambda: x + c - c, x := functad.constant(c))
    assert kept.shape == (1000,)
    assert tape.stats() == {"records": 2, "bytes": 0}


def test_errors_in_between_leave_no_trace():
    x = functad.constant(ROOT)
    with GradientTape(persistent=True, lists=True) as tape:
        tape.watch(x)
        with pytest.raises(ValueError, match="broadcast"):
            x + np.ones(3)
        with pytest.raises(errors.ConversionError):
            np.multiply(x, np.array([1.0, 2.0, 3.0, 4.0], object))
        y = np.sin(x)
    assert repr(tape.expressions(y, x)) == "{ lambda x:float64[4].\n  a:float64[4] = sin x\n  return a }"


def test_nested_in_other_tapes():
    x = functad.constant(2.0)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape(persistent=True, lists=True) as tape:
            tape.watch(x)
            inner, y = recorded(lambda: x**3, x)
            g = inner.gradient(y, x)
        assert tape.expressions(g, x)(5.0) == 75
    assert float(outer.gradient(g, x)) == 12


def test_kept_expressions_go_with_the_tape():
    tape, y, (x,) = listed(lambda x: x * 2.0, np.ones(3))
    ref = weakref.ref(tape.recorder)
    del tape, y, x
    gc.collect()
    assert ref() is None
