"""Control flow as native code: what jit gives with the backend `llvm` is what functad gives without jit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import cond, fori_loop, grad, jit, jvp, scan, switch, vmap, while_loop

pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")

ROWS = np.linspace(-1.0, 2.0, 6)
STATE = np.array([0.5, -0.3, 0.8])
WIDE = np.linspace(0.1, 0.9, 14)


def check(f, *args, native=True):
    """Compare a compiled function with the function itself: values, dtypes, shapes, and whether Python runs no loop of it."""
    compiled = jit(f, backend="llvm")
    expected, found = f(*args), compiled(*args)
    leaves, others = [functad.tree_leaves(each) for each in (expected, found)]
    assert len(leaves) == len(others)
    for a, b in zip(leaves, others, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        close = 2e-5 if np.asarray(a).dtype == np.float32 else 1e-12
        np.testing.assert_allclose(b, a, rtol=close, atol=close)
    if native is not None:
        source = compiled.lower(*args).source()
        assert all(text not in source for text in ("body=", "branches=", "    for ")) == native


def check_derivatives(f, *args, native=True):
    """Compare values, gradients and tangents of a function of arrays whose result is a number."""
    everything = tuple(range(len(args)))
    check(functad.value_and_grad(f, argnums=everything), *args, native=native)
    check(lambda *own: jvp(f, own, tuple([np.cos(np.asarray(a)) for a in args])), *args, native=native)


def total(tree):
    """Sum of the sines of all elements."""
    return sum(np.sum(np.sin(leaf)) for leaf in functad.tree_leaves(tree))


class TestScan:
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("state", [np.array(0.3), STATE, WIDE, WIDE.reshape(2, 7)], ids=lambda a: f"{a.size}")
    def test_carries_in_registers_and_in_memory(self, state, reverse):
        def f(state, rows):
            return total(scan(lambda s, x: (np.tanh(s * x + 0.1), s * np.exp(-x)), state, rows, reverse=reverse))

        check_derivatives(f, state, ROWS)

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_of_any_length_ends_in_the_result(self, length):
        check(lambda s: scan(lambda s, _: (s * 1.5, s[0]), s, length=length), WIDE)

    def test_of_no_steps_is_no_equation(self):
        check(lambda s, xs: scan(lambda s, x: (s + x, s * x), s, xs), 1.0, np.zeros(0))

    @pytest.mark.parametrize("reverse", [False, True])
    def test_of_no_steps_gives_the_first_carry(self, reverse):
        def f(step):
            return lambda a, b: scan(lambda s, _: (step(*s), None), (a, b), length=0, reverse=reverse)[0]

        for step in (
            lambda a, b: (a * b + 1.0, b - a),
            lambda a, b: (b, a),
            lambda a, b: (b * 2.0, a),
            lambda a, b: (a * b, b),
            lambda a, b: (a + b, a + b),
            lambda a, b: (np.zeros(a.shape), a),
        ):
            check(f(step), WIDE, WIDE + 1.0)
            check(vmap(f(step)), WIDE.reshape(2, 7), WIDE.reshape(2, 7) + 1.0)
            check_derivatives(lambda a, b, step=step: total(f(step)(a, b)), WIDE, WIDE + 1.0, native=None)

    def test_without_results_and_without_a_carry(self):
        check(lambda xs: functad.map(lambda x: np.sin(x) * x, xs), WIDE.reshape(7, 2))
        check(lambda s: scan(lambda s, _: (s + 1.0, None), s, length=4), STATE)

    def test_carries_that_change_places_or_stay(self):
        def step(carry, x):
            a, b, c, d = carry
            return (b, a + x, c, d), (a, a, c)

        check(lambda a, b, c, xs: scan(step, (a, b, c, b[0]), xs), WIDE, WIDE + 1.0, WIDE * 2.0, ROWS)
        check(lambda a, b, c, xs: scan(step, (a, b, c, b[0]), xs), STATE, STATE + 1.0, STATE * 2.0, ROWS)

    def test_constants_as_carries_and_results(self):
        step = lambda c, x: ((np.ones(14), c[0] + x), (2.0, np.arange(20.0)))  # noqa: E731
        check(lambda xs: scan(step, (np.zeros(14), (np.zeros(14) + xs[0])), xs), ROWS)

    def test_large_constants_in_the_step(self):
        table = np.linspace(0.0, 1.0, 600)
        check_derivatives(lambda s, xs: total(scan(lambda s, x: (s + table * x, np.sum(s)), s, xs)), table + 1.0, ROWS)

    @pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.bool_])
    def test_dtypes(self, dtype):
        def step(s, x):
            return np.logical_or(s, x) if dtype is np.bool_ else s * x + x, s

        for start in (np.array(1, dtype), np.ones(7, dtype)):
            check(lambda s, xs: scan(step, s, xs), start, np.array([3, 0, 1, 2]).astype(dtype))

    def test_numbers_of_python_and_several_dtypes(self):
        def step(carry, x):
            i, flag, low, high = carry
            return (i + 1, ~flag, low + x, high * 2.0), (i, flag, low * high)

        check(lambda low, xs: scan(step, (0, np.True_, low, 1.0), xs), np.float32(0.5), ROWS.astype(np.float32))

    def test_means_and_checkpoints_within_a_step(self):
        def step(s, x):
            return functad.checkpoint(lambda s: np.tanh(s * x))(s), np.mean(s)

        check_derivatives(lambda s, xs: total(scan(step, s, xs)), WIDE, ROWS)

    def test_scans_in_a_scan(self):
        def step(s, x):
            s, ys = scan(lambda t, y: (np.sin(t) * y, t[0]), s, ROWS[:3] * x, reverse=True)
            return s + 0.1, np.sum(ys) * x

        for state in (STATE, WIDE):
            check_derivatives(lambda s, xs: total(scan(step, s, xs)), state, ROWS)

    def test_rows_that_are_parts_of_other_arrays(self):
        whole = np.linspace(-1.0, 1.0, 72).reshape(6, 4, 3)
        for part in (lambda w: w[:, 1], lambda w: np.swapaxes(w, 0, 1)[::-1], lambda w: w[1:, 0, 0], lambda w: 2.0 * w):
            check_derivatives(lambda w, part=part: total(scan(lambda s, x: (s + np.sum(x), s * x), 0.5, part(w))), whole)

    def test_steps_that_numpy_has_a_part_in(self):
        def inner(s, x):
            return np.sort(s * x) + 1.0

        def step(s, x):
            s = cond(x > 0, inner, lambda s, x: s + x, s, x)
            s = while_loop(lambda s: np.sum(s**2) < 3.0, lambda s: inner(s, 1.0) + s, s)
            return s / 5.0, np.exp(x) * s[0]

        check(lambda s, xs: scan(step, s, xs), WIDE, ROWS, native=False)
        check(grad(lambda s, xs: total(scan(lambda s, x: (inner(s, x), x), s, xs))), WIDE, ROWS, native=False)

    @pytest.mark.parametrize("poison", [np.nan, np.inf, 0.0, 1.0])
    def test_guards_are_there_when_nan_comes_out(self, poison):
        """The square root has an infinite derivative at zero, and the branches that are not taken have a cotangent of zero."""

        def step(s, x):
            a, b, c = s
            roots = np.where(x > 0, np.sqrt(np.abs(x * a)) * b, a * c)
            return np.stack([roots, b * c * np.exp(a), c / (1.0 + a * a) * b]) / 2.0, a * b * c

        def f(s, xs):
            carry, ys = scan(step, s, xs)
            return np.sum(carry[1:]) + np.sum(np.where(np.isfinite(ys), ys, 0.0))

        rows = np.array([1.0, -1.0, poison, -2.0, 0.5])
        with np.errstate(all="ignore"):
            for s in (STATE, np.array([0.0, 1.0, -0.0]), np.array([poison, 1.0, 2.0])):
                check(functad.value_and_grad(f, argnums=(0, 1)), s, rows)

    def test_few_rows(self):
        check_derivatives(lambda s, xs: total(scan(lambda s, x: (s * x, s + x), s, xs)), np.array(0.7), np.array([2.0, 3.0]))

    def test_hessians(self):
        def f(s):
            return np.sum(scan(lambda s, x: (np.sin(s) * x + s, None), s, ROWS)[0] ** 2)

        for transform in (functad.hessian, lambda f: functad.jacfwd(functad.jacfwd(f)), lambda f: functad.jacrev(grad(f))):
            check(transform(f), STATE)

    def test_vmap(self):
        def f(s, xs):
            return scan(lambda s, x: (np.sin(s + x), s * x), s, xs)

        check(vmap(f), np.stack([STATE, STATE * 2]), np.stack([ROWS, -ROWS]))
        check(vmap(f, in_axes=(0, None)), WIDE, ROWS)
        check(vmap(grad(lambda s: f(s, ROWS)[0])), WIDE)

    def test_a_compiled_function_differentiated(self):
        def f(s, xs):
            return total(scan(lambda s, x: (np.tanh(s * x + 0.1), s * np.exp(-x)), s, xs))

        for transform in (grad, functad.jacfwd, functad.hessian):
            np.testing.assert_allclose(transform(jit(f, backend="llvm"))(STATE, ROWS), transform(f)(STATE, ROWS), rtol=1e-12)


class TestWhile:
    def test_carries_in_registers_and_in_memory(self):
        def f(s):
            return while_loop(lambda c: (c[0] < 5) & (np.sum(c[1]) < 40.0), lambda c: (c[0] + 1, c[1] * 2.0), (0, s))

        for state in (np.array(0.3), STATE, WIDE):
            check(f, state)
            check(lambda s: jvp(lambda s: f(s)[1], (s,), (np.ones_like(s),)), state)

    def test_no_step_and_a_step_that_is_all(self):
        f = lambda n, s: while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, np.cos(c[1])), (0, s))  # noqa: E731
        for n in (0, 1, 2, 7):
            check(f, n, WIDE)

    def test_conditions_of_other_dtypes(self):
        check(lambda n: while_loop(lambda n: n, lambda n: n - 1, n), np.int64(5))
        check(lambda x: while_loop(lambda c: c[0] - 3.0, lambda c: (c[0] + 1.0, c[1] * 2), (x, WIDE)), np.float64(0.0))

    def test_gradients(self):
        def root(a):
            return while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, lambda x: (x + a / x) / 2, a)

        f = jit(grad(root), backend="llvm")
        for a in (2.0, 4.0, 1e4):
            np.testing.assert_allclose(f(a), 0.5 / np.sqrt(a), rtol=1e-9)
        assert "while" not in f.lower(2.0).source().partition("import")[2]

    def test_the_stack_of_the_backward_pass_grows(self):
        def f(s, scale, steps):
            def step(state):
                i, a, b = state
                return i + 1, np.sin(a * scale + b[3]), b * 0.99 + np.cos(a[0])

            return total(while_loop(lambda state: state[0] < steps, step, (0, s[:3], s))[1:])

        gradient = functad.value_and_grad(f, argnums=(0, 1))
        compiled = jit(gradient, backend="llvm")
        for steps in (0, 1, 2, 63, 64, 65, 300):
            for a, b in zip(*map(functad.tree_leaves, (compiled(WIDE, 0.9, steps), gradient(WIDE, 0.9, steps))), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)

    def test_an_index_out_of_bounds_ends_a_loop(self):
        """NumPy raises an error; native code has an element of its own there, for which the condition holds for ever."""
        f = jit(lambda a: while_loop(lambda s: s[1] < 5.0, lambda s: (s[0] + 1, a[s[0]]), (0, 0.0)), backend="llvm")
        assert f(np.array([1.0, 2.0, 7.0]))[0] == 3
        with pytest.raises(IndexError):
            f(np.array([1.0, 2.0, 3.0]))

    def test_a_loop_in_a_scan(self):
        def step(s, x):
            return while_loop(lambda c: np.sum(c**2) < 20.0, lambda c: c * 1.5 + x**2, s) / 5.0, s[0]

        for state in (STATE, WIDE):
            check(grad(lambda s, xs: total(scan(step, s, xs)), argnums=(0, 1)), state, ROWS)

    def test_fori_loops(self):
        check_derivatives(lambda s: total(fori_loop(0, 5, lambda i, s: s * np.sin(s + i), s)), WIDE)
        check(lambda n, s: fori_loop(0, n, lambda i, s: s * (i + 1), s), 4, STATE)

    def test_fori_loops_of_no_steps(self):
        inner = lambda c: fori_loop(3, 1, lambda j, d: d * j, c)  # noqa: E731
        for f in (
            lambda x: fori_loop(0, 0, lambda i, c: c + 1.0, x),
            lambda x: fori_loop(0, 3, lambda i, c: inner(c) + 1.0, x),
            lambda x: cond(np.sum(x) > 0.0, inner, lambda c: c, x),
        ):
            check(f, WIDE)
            check(vmap(f), WIDE.reshape(2, 7))
            check_derivatives(lambda x, f=f: total(f(x)), WIDE, native=None)

    def test_vmap(self):
        f = lambda x: while_loop(lambda x: x < 10.0, lambda x: x * x, x)  # noqa: E731
        check(vmap(f), np.array([1.5, 2.5, 20.0, 1.1, 9.0]))


def test_associative_scans():
    def affine(f, g):
        return g[0] * f[0], g[0] * f[1] + g[1]

    check_derivatives(lambda a, b: total(functad.associative_scan(affine, (a, b))), WIDE, WIDE[::-1] + 1.0)
    check(lambda a, b: functad.associative_scan(affine, (a, b), reverse=True), WIDE, WIDE[::-1] + 1.0)


class TestBranches:
    @pytest.mark.parametrize("state", [np.array(0.3), STATE, WIDE], ids=lambda a: f"{a.size}")
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_one_of_two(self, state, sign):
        def f(s, p):
            return total(cond(p > 0, lambda s: (np.sin(s), s * p), lambda s: (s * 2.0, s), s))

        check_derivatives(f, state, np.array(sign))

    def test_one_of_several(self):
        def f(i, s):
            return switch(i, [lambda s: s, lambda s: np.ones(14), lambda s: np.cos(s) + i], s)

        for i in (-3, 0, 1, 2, 9):
            check(f, np.int64(i), WIDE)
        check(f, np.int32(1), WIDE)

    def test_a_branch_that_would_fail_is_not_taken(self):
        f = lambda x: cond(x > 0, np.log, lambda x: x * 0.0, x)  # noqa: E731
        with np.errstate(all="warn"):  # warnings are errors in these tests, and in the mode `raise` nothing is compiled
            check(grad(f), np.array(-1.0))

    def test_in_a_scan(self):
        def step(s, x):
            s = cond(x > 0, lambda s: np.sin(s) * x, lambda s: s - x, s)
            return s, switch(np.int64(2), [np.sum, np.max, np.min], s)

        for state in (STATE, WIDE):
            check_derivatives(lambda s, xs: total(scan(step, s, xs)), state, ROWS)

    def test_scans_in_a_branch(self):
        def f(p, s):
            long = lambda s: scan(lambda s, x: (s * x, s + x), s, ROWS)  # noqa: E731
            return total(cond(p, long, lambda s: (s, np.zeros((6, 14)) + s), s))

        for p in (True, False):
            check(lambda s, limit=5.0 if p else 0.0: grad(lambda s: f(s[0] < limit, s))(s), WIDE)


LACKING = """
import resource
import numpy as np, functad

def f(x, n):
    return np.sum(functad.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1.0, np.sin(c[1]) * c[1]), (0.0, x))[1])

def f_of_each(x, n):
    return np.sum(functad.map(lambda row: f(row, n), x))

x = np.linspace(0.1, 1.0, 1000)
for h, a in ((f, x), (f_of_each, x[None])):
    g = functad.jit(functad.grad(h), backend="llvm")
    before = g(a, 10.0)
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, hard))
    for _ in range(2):
        try:
            g(a, 1e9)
        except MemoryError as error:
            print("while_loop" in str(error) and "checkpoint_sequence" in str(error) and "<string>" in str(error))
    assert np.array_equal(g(a, 10.0), before)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux limits the address space and tells its size")
def test_a_derivative_without_memory_raises_and_is_not_computed_in_python():
    out = subprocess.run([sys.executable, "-c", LACKING], capture_output=True, text=True, check=True, timeout=300).stdout
    assert out.split() == ["True"] * 4


def test_steps_that_change_elements_work_in_the_memory_of_the_carry():
    def recurrence(u):
        u = u * 1.0
        for i in range(1, 60):
            u[i] = u[i - 1] * 0.5 + np.sin(u[i])
        return u

    def solved(a):
        x = a[0] * 1.0
        for i in range(len(a)):
            x[i] = (a[1, i] - np.sum(a[i] * x) * 0.01) / (a[i, i] + 9.0)
        return x

    def mixed(a):
        def step(c, row):
            x, y = c
            before = x[1:3] * 1.0
            x = x.copy()
            x[2:4] += row[2:4]
            x[::-1][:2] = y[:2] * before
            y = y.copy()
            y[:] = x
            return (x, y), (x[3], before)

        return functad.scan(step, (a[0], a[1]), a)

    a = np.random.default_rng(2).standard_normal((60, 60))
    for f in (recurrence, solved, mixed):
        for g in (f, functad.grad(lambda a, f=f: sum(np.sum(leaf**2) for leaf in functad.tree_leaves(f(a))))):
            found, expected = functad.jit(g, backend="llvm")(a), g(a)
            for one, other in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_rows_are_written_into_one_array():
    def filled(x):
        out = np.zeros((9, 300), like=x)
        for i, f in enumerate([np.sin, np.cos, np.exp, np.tanh, np.sqrt, np.square, np.arctan, np.log1p]):
            out[i] = f(x)
            if i % 3 == 1:
                out[i, ::-1][:20] += x[:20]
        out[8] = out[2] * out[3]
        kept = out.copy()
        out[4] = x
        out[5] = out[5, ::-1]
        return kept, out

    x = np.linspace(0.0, 1.0, 300)
    found, expected = functad.jit(filled, backend="llvm")(x), filled(x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-13)
    steps = functad.scan(lambda c, x: (c, x * 2), x[0], np.ones((2, 2)))  # a scan without inputs
    assert np.array_equal(functad.jit(lambda x: functad.scan(lambda c, x: (c, x * 2), x, np.ones((2, 2))))(x[0])[1], steps[1])
