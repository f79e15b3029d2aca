"""Loops of compiled functions that end by a value: one path serves every number of iterations."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors
from tests.compilation.looping_programs import LoopingProgram
from tests.compilation.test_backends import BACKENDS as INSTALLED
from tests.compilation.test_guards import assert_same, outcome

BACKENDS = [name for name in INSTALLED if name != "xla"]
Program = Callable[[Any], Any]
Draw = Callable[[np.random.Generator], Any]
LOOPS: dict[str, tuple[Program, Draw, int]] = {}
TURNS = [0]


def loop(draw: Draw, paths: int) -> Callable[[Program], Program]:
    """Enter a program with a function that draws its argument, and the largest number of its paths."""

    def enter(f: Program) -> Program:
        LOOPS[f.__name__.removeprefix("_").replace("_", " ")] = f, draw, paths
        return f

    return enter


def _powers(*shape: int) -> Draw:
    return lambda rng: 10.0 ** rng.uniform(-3, 4, size=shape)


@loop(lambda rng: float(10 ** rng.uniform(-6, 9)), 2)
def _newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
    return x


@loop(_powers(3), 2)
def _bisection(p: Any) -> Any:
    low, high = 0.0 * p[0], p[0] + p[1] + 1.0
    while high - low > 1e-6 * p[2]:
        middle = 0.5 * (low + high)
        if middle**3 + p[0] * middle - p[1] > 0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


@loop(lambda rng: rng.normal(size=(3, 3)), 6)
def _power_iteration(a: Any) -> Any:
    a = a @ a.T + np.eye(3)
    v, before = np.ones(3), 0.0
    for _ in range(40):
        v = a @ v
        v = v / np.sqrt(v @ v)
        now = v @ a @ v
        if abs(now - before) < 1e-6 * now:
            break
        before = now
    return v @ a @ v


@loop(lambda rng: np.array([10 ** rng.uniform(-1, 1), rng.normal(), 10 ** rng.uniform(-5, -2)]), 4)
def _adaptive_step(p: Any) -> Any:
    t, h, y = 0.0 * p[0], 0.1 * p[0], p[1]
    while t < p[0]:
        h = np.minimum(h, p[0] - t)
        k1 = np.sin(3 * t) - y
        k2 = np.sin(3 * (t + h)) - (y + h * k1)
        if np.abs(0.5 * h * (k2 - k1)) < p[2]:
            t, y, h = t + h, y + 0.5 * h * (k1 + k2), h * 1.5
        else:
            h = h * 0.5
    return y


@loop(lambda rng: rng.integers(1, 10**6, size=2), 2)
def _common_divisor(p: Any) -> Any:
    a, b = p[0], p[1]
    while b:
        a, b = b, a % b
    return a


@loop(_powers(2), 4)
def _nested(p: Any) -> Any:
    total, x = 0.0 * p[0], p[0]
    while x > 1e-3:
        y = p[1]
        while y > x:
            y = y * 0.5
            total = total + y * x
        x = x * 0.25
    return total


@loop(_powers(2), 5)
def _limit_of_python(p: Any) -> Any:
    x, k = p[0], 0
    while x > 1e-2 * p[1] and k < 12:
        x = x * 0.5
        k += 1
    return x


@loop(_powers(1), 3)
def _leaves_in_the_middle(p: Any) -> Any:
    x, y = p[0], 1.0 * p[0]
    while True:
        x = x * 0.5
        if x < 0.01:
            return y + x
        if y > 1e6:
            return y
        y = y + x


@loop(_powers(2), 8)
def _goes_on(p: Any) -> Any:
    x, total = p[0], 0.0 * p[0]
    for _ in range(30):
        x = x * 0.6
        if np.sin(50 * x) > 0:
            continue
        total = total + x * p[1]
        if x < 1e-4:
            break
    return total


@loop(_powers(4), 3)
def _arrays(x: Any) -> Any:
    state = {"x": x, "most": np.max(x)}
    while state["most"] > 0.1:
        x = state["x"] * 0.5 + 0.001 * np.roll(state["x"], 1)
        state = {"x": x, "most": np.max(x)}
    return np.sum(state["x"] ** 2)


class _Ball:
    def __init__(self, height: Any) -> None:
        self.height, self.speed = height, 0.0 * height


@loop(_powers(1), 4)
def _objects(p: Any) -> Any:
    ball = _Ball(p[0])
    while ball.height > 0:
        ball.speed = ball.speed - 0.1
        ball.height = ball.height + ball.speed
    return ball.speed


@pytest.mark.filterwarnings("error::functad.errors.RecompileWarning")
@pytest.mark.parametrize("name", LOOPS)
def test_one_program_serves_every_number_of_iterations(name: str) -> None:
    f, draw, paths = LOOPS[name]
    rng = np.random.default_rng(len(name))
    exact = functad.jit(f, exact=True)
    for _ in range(200):
        x = draw(rng)
        assert_same(exact(x), f(x), exact=True)
    assert exact.cache_info().size <= paths
    assert sum("while_loop" in str(exact.lower(draw(rng)).expressions.before) for _ in range(3)) == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LOOPS)
def test_values_and_derivatives_equal_eager(name: str, backend: str) -> None:
    f, draw, _ = LOOPS[name]
    rng = np.random.default_rng(5)
    compiled = functad.jit(f, backend=backend)
    points = [draw(rng) for _ in range(6)]
    for x in points:
        assert_same(compiled(x), f(x))
    if points[0] is None or np.asarray(points[0]).dtype.kind != "f":
        return
    both = functad.jit(functad.value_and_grad(f), backend=backend)
    for x in points:
        assert_same(both(x), functad.value_and_grad(f)(x))
    for x in points[:2]:
        assert_same(functad.grad(compiled)(x), functad.grad(f)(x))
        direction = np.ones_like(x) if np.ndim(x) else 1.0
        assert_same(functad.jvp(compiled, (x,), (direction,)), functad.jvp(f, (x,), (direction,)))


@pytest.mark.parametrize("name", ["newton", "bisection", "nested", "goes on"])
def test_second_derivatives_equal_eager(name: str) -> None:
    f, draw, _ = LOOPS[name]

    def curve(g: Program) -> Program:
        return functad.grad(lambda y: np.sum(functad.grad(g)(y) ** 2))

    rng = np.random.default_rng(5)
    compiled, inner = functad.jit(curve(f)), functad.jit(f)
    for x in [draw(rng) for _ in range(3)]:
        expected = curve(f)(x)
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(curve(inner)(x), expected, rtol=1e-7, atol=1e-9)


def test_derivatives_of_a_loop_are_compiled_once() -> None:
    slope = functad.jit(functad.grad(LOOPS["newton"][0]))
    for a in np.geomspace(1e-3, 1e6, 30).tolist():
        np.testing.assert_allclose(slope(a), 0.5 / a**0.5, rtol=1e-6)
    assert slope.cache_info().size <= 3


def test_a_loop_without_iterations_and_with_one_come_first() -> None:
    f = functad.jit(LOOPS["bisection"][0], exact=True)
    for tolerance in (1e9, 2e6, 1e6, 1e3, 1.0, 1e9, 10.0):
        x = np.array([1.0, 2.0, tolerance])
        assert_same(f(x), f.__wrapped__(x), exact=True)
    assert f.cache_info().size <= 3


def test_the_last_iteration_of_a_range_is_a_path_of_its_own() -> None:
    def f(x: Any) -> Any:
        for _ in range(2, 20, 3):
            x = x * 0.5
            if x < 1.0:
                break
        else:
            return -x
        return x

    compiled = functad.jit(f, exact=True)
    for x in np.geomspace(0.5, 1e4, 60):
        assert compiled(x) == f(x)
    assert compiled.cache_info().size <= 5


@pytest.mark.parametrize("name", ["newton", "bisection", "adaptive step", "leaves in the middle", "nested"])
def test_batches_of_compiled_loops(name: str) -> None:
    f, draw, _ = LOOPS[name]
    rng = np.random.default_rng(3)
    compiled = functad.jit(f)
    xs = np.stack([draw(rng) for _ in range(6)])
    np.testing.assert_allclose(functad.vmap(compiled)(xs), [f(x) for x in xs], rtol=1e-12)
    slopes = np.stack([functad.grad(f)(x) for x in xs])
    np.testing.assert_allclose(functad.vmap(functad.grad(compiled))(xs), slopes, rtol=1e-9)
    np.testing.assert_allclose(functad.grad(lambda xs: np.sum(functad.vmap(compiled)(xs)))(xs), slopes, rtol=1e-9)


def test_a_batch_whose_examples_need_several_paths_raises_with_the_fix() -> None:
    f = functad.jit(LOOPS["newton"][0])
    with pytest.raises(errors.AbstractValueError, match=r"2 examples.*np\.where"):
        functad.vmap(f)(np.array([1.0, 1e6]))
    assert functad.vmap(f)(np.array([2.0, 1e6])).round(6).tolist() == [1.414214, 1000.0]


def _count_of_while(x: Any) -> Any:
    k = 0
    while x > 0.1:
        x = x * 0.5
        k += 1
    return x, k


def _count_of_for(x: Any) -> Any:
    for k in range(40):  # noqa: B007 - the function returns it
        x = x * 0.5
        if x < 0.1:
            break
    return k, x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [_count_of_while, _count_of_for])
def test_the_number_of_iterations_is_returned_as_a_python_integer(f: Program, backend: str) -> None:
    compiled = functad.jit(f, backend=backend)
    for x in np.geomspace(0.05, 1e4, 40):
        assert_same(compiled(x), f(x))
    assert compiled.cache_info().size <= 3
    assert functad.grad(lambda x: compiled(x)[f is _count_of_for])(100.0) == 2.0**-10


def test_a_loop_does_not_run_if_a_guard_before_it_fails() -> None:
    def f(x: Any, y: Any) -> Any:
        if y <= 0:
            raise ValueError("y must be positive")
        while x > 1.0:
            x = x - y
        return x

    compiled = functad.jit(f)
    for x, y in ((5.0, 1.0), (9.0, 2.0), (7.0, 1.0), (5.0, -1.0), (5.0, 0.0), (8.0, 3.0)):
        assert_same(outcome(compiled, x, y), outcome(f, x, y))


# Python code that no guard shows


def _counter_returned(x: Any) -> Any:
    k = 0
    while x > 0.1:
        x, k = x * 0.5, k + 1
    return x, k


def _history_returned(x: Any) -> Any:
    seen = []
    while x > 0.1:
        x = x * 0.5
        seen.append(x)
    return seen


def _counters_in_a_dict(x: Any) -> Any:
    k = 0
    while x > 0.1:
        x, k = x * 0.5, k + 1
    return {"x": x, "steps": k}


def _inner_range(x: Any) -> Any:
    for _ in range(4):
        for _ in range(5):
            x = x * 0.7
            if x < 0.1 or np.sin(30 * x) > 0.5:
                break
    return x


def _returns_two_counts(x: Any) -> Any:
    k = 0
    while x > 0.1:
        x = x * 0.5
        k += 1
        if np.sin(30 * x) > 0.95:
            return x, 0
    return x, k


def _other_first_steps(x: Any) -> Any:
    k = 0
    while x > 0.1:
        x = x * 0.5 if k < 3 else x * 0.7
        k += 1
    return x


def _every_third_step(x: Any) -> Any:
    for k in range(30):
        x = x * 0.5 if k % 3 else x * 0.9
        if x < 0.1:
            break
    return x


def _repeated_objects(x: Any) -> Any:
    for _ in itertools.repeat(None, 5):
        x = x * 0.5
        if x < 0.1:
            break
    return x


def _iterator(x: Any) -> Any:
    steps = iter([0.5, 0.5, 0.5, 0.9, 0.9])
    while x > 0.1:
        x = x * next(steps, 0.3)
    return x


def _attribute(x: Any) -> Any:
    _attribute.turns = 0  # type: ignore[attr-defined]
    while x > 0.1:
        x = x * (0.5 if _attribute.turns < 4 else 0.3)  # type: ignore[attr-defined]
        _attribute.turns += 1  # type: ignore[attr-defined]
    return x


def _global(x: Any) -> Any:
    TURNS[0] = 0
    while x > 0.1:
        x = x * (0.5 if TURNS[0] < 4 else 0.3)
        TURNS[0] += 1
    return x


def _closure(x: Any) -> Any:
    turns = 0

    def factor() -> float:
        nonlocal turns
        turns += 1
        return 0.5 if turns < 4 else 0.3

    while x > 0.1:
        x = x * factor()
    return x


def _generator(x: Any) -> Any:
    def factors() -> Any:
        yield from (0.5, 0.4, 0.3, 0.6, 0.9)
        while True:
            yield 0.25

    given = factors()
    while x > 0.1:
        x = x * next(given)
    return x


def _plain_array(x: Any) -> Any:
    counts = np.zeros(3)
    while x > 0.1:
        counts[0] += 1
        x = x * (0.5 if counts[0] < 4 else 0.3)
    return x


def _least_of_three(x: Any) -> Any:
    a, b, c = x, x * 0.5, 3.0 - x
    return max(a, b, c) + min(a, b, c, a * b) + sorted([a, b, c, a * c])[1]


def _reset(x: Any) -> Any:
    k = 0
    while x > 0.01:
        x = x * 0.6
        k = 0 if np.sin(40 * x) > 0 else k + 1
        if k > 2:
            return -x
    return x


def _counts_down(x: Any) -> Any:
    left = 5
    while x > 0.1:
        x = x * 0.6
        left -= 1
        if left == 0:
            x = x + 1.0
    return x


def _caught(x: Any) -> Any:
    k = 0
    while x > 0.1:
        try:
            k += 1
            if k > 3:
                int("none")
            x = x * 0.5
        except ValueError:
            x = x * 0.7
    return x


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning")
@pytest.mark.parametrize(
    "f",
    [
        _counter_returned, _history_returned, _other_first_steps, _every_third_step, _repeated_objects, _iterator, _attribute,
        _counters_in_a_dict, _inner_range, _returns_two_counts,
        _global, _closure, _generator, _plain_array, _least_of_three, _reset, _counts_down, _caught,
    ],
)  # fmt: skip
def test_state_of_python_code_that_changes_in_a_loop(f: Program) -> None:
    compiled = functad.jit(f, exact=True)
    rng = np.random.default_rng(0)
    for x in [*np.geomspace(0.05, 300.0, 25), *(10.0 ** rng.uniform(-1, 3, 25))]:
        assert_same(compiled(x), f(x), exact=True)


def test_written_arrays_and_their_views() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        row = y[:2]
        while np.sum(row) > 0.1:
            y[0] = y[0] * 0.5
            y[1] = y[0] * 0.25
        return y * row[0]

    compiled = functad.jit(f, exact=True)
    for scale in (0.01, 1.0, 10.0, 1000.0, 3.0):
        x = scale * np.array([1.0, 2.0, 3.0])
        assert_same(compiled(x), f(x), exact=True)


def test_an_error_in_a_later_iteration_is_raised() -> None:
    def f(x: Any) -> Any:
        k = 0
        while x > 0.1:
            x = x * 0.5
            k += 1
            if k > 6:
                raise ArithmeticError(f"no convergence in {k} steps")
        return x

    compiled = functad.jit(f, exact=True)
    for x in (1.0, 3.0, 2.0, 1000.0, 4.0, 1e9, 0.01):
        assert_same(outcome(compiled, x), outcome(f, x), exact=True)


def test_variables_are_a_part_of_the_carry() -> None:
    level = functad.Variable(8.0)

    def f(x: Any) -> Any:
        while level > x:
            level.assign(level * 0.5)
        return level + x

    compiled = functad.jit(f)
    for start in (8.0, 100.0, 1e6, 0.5, 3.0):
        found = []
        for g in (compiled, f):
            level.assign(start)
            found.append((float(g(1.0)), float(level)))
        assert found[0] == found[1]
    assert compiled.cache_info().size <= 3


def test_a_branch_that_appears_later_extends_the_loop() -> None:
    def f(x: Any, y: Any) -> Any:
        while x > 1.0:
            x = x - y if x > 100.0 else x * 0.5
        return x

    compiled = functad.jit(f, exact=True)
    for x in (50.0, 30.0, 200.0, 5000.0, 60.0, 101.0, 0.5):
        assert compiled(x, 7.0) == f(x, 7.0)
    assert compiled.cache_info().size <= 3


def test_the_list_of_a_path_with_a_loop_checks_its_guards() -> None:
    f = LOOPS["bisection"][0]
    x = np.array([1.0, 2.0, 1e3])
    own = functad.jit(f).lower(x).expressions.before.check()
    assert "while_loop" in str(own)
    for tolerance in (1.0, 100.0):
        np.testing.assert_allclose(own(np.array([1.0, 2.0, tolerance]))[0], f(np.array([1.0, 2.0, tolerance])))


def test_paths_with_loops_keep_no_array_of_a_call_alive() -> None:
    f = functad.jit(LOOPS["arrays"][0])
    x = np.full(100, 7.0)
    alive = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert alive() is None


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(16))
def test_random_programs_equal_eager(seed: int) -> None:
    f = LoopingProgram(seed).function
    compiled = functad.jit(f, max_paths=8, exact=True)
    rng = np.random.default_rng(seed)
    points = [(rng.normal(size=4) * 10 ** rng.uniform(-1, 1), float(rng.normal()), int(rng.integers(0, 4))) for _ in range(5)]
    for point in [*points, *points[::-1]]:
        assert_same(outcome(compiled, *point), outcome(f, *point), exact=True)


def test_without_guards_a_loop_is_refused() -> None:
    with pytest.raises(errors.AbstractValueError):
        functad.jit(LOOPS["newton"][0], guards=False)(2.0)
