"""Random programs with loops: their lists, rolled up, compute the same bits."""

import numpy as np
import pytest

import functad
from functad.backends.numpy_source import NumpyProgram
from functad.compilation.rolling.rolled import rolled
from functad.expressions.expressions import evaluate

STEPS = {
    "sin": lambda s: np.sin(s.u),
    "product": lambda s: s.u * s.v * 0.5,
    "sum": lambda s: s.u + s.v,
    "number": lambda s: s.u * (0.25 + s.c * 0.01),
    "number of the step": lambda s: s.u + 0.01 * s.t,
    "row": lambda s: np.tanh(s.u * s.rows[s.t]),
    "row from behind": lambda s: s.u - s.rows[-1 - s.t],
    "element": lambda s: s.u * s.rows[s.t, s.c % s.d],
    "weights": lambda s: s.u * np.exp(-s.w),
    "product of arrays": lambda s: (s.w[:, None] * 0.1 * s.w) @ s.u,
    "choice": lambda s: np.where(s.u > 0, s.u, s.v * 0.5),
    "bool": lambda s: s.u * (s.t % 3 == 0),
    "reversed": lambda s: s.u[::-1],
    "stack": lambda s: np.stack([s.u[i] * s.w[i - 1] for i in range(s.d)]),
    "now and then": lambda s: np.cos(s.u) if (s.c + s.t) % 17 else s.u,
    "later": lambda s: s.u * 0.5 if s.t < s.n // 2 else np.sin(s.u) * 0.5,
    "not at first": lambda s: s.u * 2 if s.t else s.u,
    "two steps back": lambda s: s.u - 0.5 * s.history[-2],
    "collected": lambda s: s.collect(),
    "accumulated": lambda s: s.accumulate(),
    "written": lambda s: s.write(),
    "read": lambda s: s.u * 0.5 + s.buffer[max(s.t - 1, 0)],
    "number of Python": lambda s: s.grow(),
}


class Steps:
    """A loop of random steps, on the last values that they gave."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.n, self.d, self.states = int(rng.integers(20, 45)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        self.steps = [(str(rng.choice(list(STEPS))), *rng.integers(0, 100, 3).tolist()) for _ in range(rng.integers(6, 16))]
        self.gathered = int(rng.integers(3))
        dtype = np.float32 if rng.random() < 0.2 else np.float64
        draws = [rng.normal(size=shape).astype(dtype) for shape in (self.d, self.d, (self.n, self.d))]
        self.args = (*draws, [0.7, 2, np.float64(0.3)][int(rng.integers(3))])

    def collect(self):
        self.collected.append(self.u)
        return self.u

    def accumulate(self):
        self.total = self.total + np.sum(self.u * self.rows[self.t, 0])
        return self.u

    def write(self):
        self.buffer[self.t] = self.u
        return self.u

    def grow(self):
        self.number = self.number * 0.9 + 1
        return self.u * self.number

    def __call__(self, x, w, rows, number):
        self.w, self.rows, self.number, self.total, self.collected = w, rows, number, 0.0, []
        self.buffer = functad.numpy.zeros((self.n + 2, self.d), dtype=x.dtype, like=x)
        values = [x * (i + 1.0) for i in range(self.states)]
        self.history = [values[0], values[0]]
        for t in range(self.n):
            for name, a, b, c in self.steps:
                self.t, self.c, self.u, self.v = t, c, values[a % len(values)], values[b % len(values)]
                values = [*values, STEPS[name](self)]
            values = [np.tanh(value) for value in values[-self.states :]]
            self.history.append(values[0])
        return self.total + np.sum(values[0]) + np.sum(self.buffer * 0.5) + self.of_collected()

    def of_collected(self):
        if len(self.collected) < 10:
            return 0.0
        if self.gathered == 0:
            return np.sum(np.stack(self.collected) ** 2)
        if self.gathered == 1:
            return sum(np.sum(value) for value in self.collected)
        return np.sum(self.collected[3]) + np.sum(np.stack(self.collected[2:9], axis=-1))


def same(a, b):
    return type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b, equal_nan=True)


def assert_rolls(f, args):
    expressions = functad.make_expressions(f)(*args)
    found = rolled(expressions).check()
    assert all(map(same, evaluate(found, args), evaluate(expressions, args)))
    assert all(map(same, NumpyProgram(found, exact=True)(args), NumpyProgram(expressions, exact=True)(args)))
    return found is not expressions


@pytest.mark.parametrize("seed", range(12))
def test_a_random_loop_is_rolled_up_to_the_same(seed):
    steps = Steps(seed)
    with np.errstate(all="ignore"):
        assert_rolls(steps, steps.args)
        assert_rolls(functad.value_and_grad(steps, argnums=(0, 1, 2)), steps.args)


def test_a_loop_that_chooses_what_all_steps_of_another_compute_alike():
    def f(x, w):
        factors = []
        for _ in range(60):
            factors.append(np.exp(w))
            x = np.cos(np.sin(x * factors[-1]) + 0.1)
        total = x
        for t in range(60):
            total = np.cos(np.tanh((w if t % 2 else factors[-1 - t]) * total) * 1.5 + x)
        return np.sum(total)

    args = np.array([0.1, 0.2]), np.array([-0.5, 0.5])
    assert assert_rolls(f, args)
    assert assert_rolls(functad.value_and_grad(f, argnums=(0, 1)), args)
