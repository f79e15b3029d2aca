"""`strict_derivatives`: raw calculus, where it holds and where it ends."""

import asyncio
import threading

import numpy as np
import pytest

import functad

INF = np.inf


def root(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


RAW = [
    # name, function, point, raw gradient
    ("where of sqrt", root, [0.0, 4.0], [np.nan, 0.25]),
    ("where of log", lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), [0.0, 2.0], [np.nan, 0.5]),
    ("where of 1 / x", lambda x: np.sum(np.where(x != 0, 1 / x, 0.0)), [0.0, 2.0], [np.nan, -0.25]),
    ("where of arccos", lambda x: np.sum(np.where(x < 1, np.arccos(x), 0.0)), [0.0, 1.0], [-1, np.nan]),
    ("where of a product", lambda x: np.sum(np.where(x > 0, x * np.log(x), 0.0)), [0.0, 1.0], [np.nan, 1]),
    ("zero times a root", lambda x: np.sum(0.0 * np.sqrt(x)), [0.0, 4.0], [np.nan, 0]),
    ("norm", np.linalg.norm, [0.0, 0.0], [np.nan, np.nan]),
    ("norm of order 3", lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [np.nan, np.nan]),
    ("std", np.std, [2.0, 2.0], [np.nan, np.nan]),
    ("hypot", lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [np.nan, np.nan]),
    ("arctan2", lambda x: np.arctan2(x[0], x[1]), [0.0, 0.0], [np.nan, np.nan]),
    ("ties", np.max, [2.0, 2.0], [0.5, 0.5]),
    ("abs", lambda x: np.sum(abs(x)), [0.0, -2.0], [0, -1]),
    ("sqrt", lambda x: np.sum(np.sqrt(x)), [0.0, 4.0], [INF, 0.25]),
    ("a regular point", lambda x: np.sum(x / np.sqrt(x)), [1.0, 4.0], [0.5, 0.25]),
]


@pytest.mark.parametrize("row", RAW, ids=lambda row: row[0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gives_raw_calculus(row, dtype):
    _, f, point, raw = row
    x = np.array(point, dtype)
    with np.errstate(all="ignore"):
        guarded = functad.grad(f)(x)
        with functad.strict_derivatives():
            found = functad.grad(f)(x)
            tangent = functad.jvp(f, (x,), (np.ones_like(x),))[1]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, raw, rtol=1e-6)
    same = ~np.isnan(raw)
    np.testing.assert_array_equal(found[same], guarded[same])
    assert not np.isnan(guarded).any()
    if not np.isnan(raw).any():
        np.testing.assert_allclose(tangent, np.sum(raw), rtol=1e-6)


@pytest.mark.parametrize("number", [0.0, np.float32(0)])
def test_numbers(number):
    with np.errstate(all="ignore"), functad.strict_derivatives():
        assert np.isnan(functad.grad(root)(number))
        assert np.isnan(functad.jvp(lambda x: x * np.sqrt(x), (number,), (type(number)(1),))[1])
    assert functad.grad(root)(number) == 0


def test_second_order():
    bent = functad.grad(functad.grad(root))
    with np.errstate(all="ignore"):
        assert bent(0.0) == 0
        with functad.strict_derivatives():
            assert np.isnan(bent(0.0))
            assert bent(4.0) == pytest.approx(-1 / 32)
        assert bent(0.0) == 0


def test_nests():
    slope = functad.grad(root)
    with np.errstate(all="ignore"), functad.strict_derivatives():
        with functad.strict_derivatives(strict=False):
            assert slope(0.0) == 0
            with functad.strict_derivatives():
                assert np.isnan(slope(0.0))
            assert slope(0.0) == 0
        assert np.isnan(slope(0.0))


def test_ends_after_an_error():
    with pytest.raises(RuntimeError), functad.strict_derivatives():
        raise RuntimeError
    assert functad.grad(root)(0.0) == 0


def test_decorates_what_computes_derivatives():
    @functad.strict_derivatives()
    def slope(x):
        """Return the slope."""
        return functad.grad(root)(x)

    with np.errstate(all="ignore"):
        assert np.isnan(slope(0.0))
        assert np.isnan(slope(0.0))
    assert functad.grad(root)(0.0) == 0
    assert slope.__doc__ == "Return the slope."


def test_a_pullback_is_strict_where_it_is_called():
    pullback = functad.vjp(root, np.zeros(1))[1]
    with np.errstate(all="ignore"), functad.strict_derivatives():
        assert np.isnan(pullback(1.0)[0])
    assert pullback(1.0)[0] == 0


def test_threads_do_not_meet():
    found = []
    with functad.strict_derivatives():
        thread = threading.Thread(target=lambda: found.append(functad.grad(root)(0.0)))
        thread.start()
        thread.join()
    assert found == [0.0]


def test_coroutines_do_not_meet():
    async def strictly(entered, left):
        with np.errstate(all="ignore"), functad.strict_derivatives():
            entered.set()
            await left.wait()
            return functad.grad(root)(0.0)

    async def both():
        entered, left = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(strictly(entered, left))
        await entered.wait()
        guarded = functad.grad(root)(0.0)
        left.set()
        return guarded, await task

    guarded, raw = asyncio.run(both())
    assert guarded == 0
    assert np.isnan(raw)


class TestExpressions:
    """An expression list keeps the setting under which it was made."""

    def test_made_strict(self):
        with functad.strict_derivatives():
            expressions = functad.make_expressions(functad.grad(root))(np.zeros(2))
        names = {equation.primitive.name for equation in expressions.equations}
        assert not names & {"product", "quotient", "mended"}
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(expressions(np.array([0.0, 4.0])), [np.nan, 0.25])

    def test_made_guarded(self):
        expressions = functad.make_expressions(functad.grad(root))(np.zeros(2))
        with np.errstate(all="ignore"), functad.strict_derivatives():
            np.testing.assert_array_equal(expressions(np.array([0.0, 4.0])), [0, 0.25])

    def test_gradient_of_a_function_evaluated_strictly(self):
        expressions = functad.make_expressions(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)))(np.zeros(2))
        with np.errstate(all="ignore"), functad.strict_derivatives():
            np.testing.assert_array_equal(functad.grad(expressions)(np.array([0.0, 4.0])), [np.nan, 0.25])
