"""The backend `xla`: what jit gives with it is what functad gives without jit, on one device and on several."""

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import cond, fori_loop, grad, jit, scan, switch, value_and_grad, vmap, while_loop
from functad.backends.xla import control
from functad.backends.xla.host import called
from functad.errors import DegenerateError, MissingPackageError, UnsupportedError
from functad.expressions.spec import spec_of

jax = pytest.importorskip("jax", reason="the xla backend needs jax, of the extra `xla`")

ROOT = Path(__file__).parents[2]
W, X = np.linspace(-1.0, 1.0, 6).reshape(3, 2), np.linspace(0.5, 2.0, 12).reshape(4, 3)


def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2) + np.mean(np.where(w > 0, np.sqrt(np.abs(w)), 0))


def check(f, *args):
    """Compare a compiled function with the function itself: values, dtypes and shapes."""
    expected, found = [functad.tree_leaves(each(*args)) for each in (f, jit(f, backend="xla"))]
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert isinstance(b, jax.Array)
        assert b.dtype == np.asarray(a).dtype
        close = 1e-5 if b.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(np.asarray(b), a, rtol=close, atol=close)


class TestArraysOfJax:
    def test_results_stay_arrays_of_jax_and_the_configuration_stays(self):
        before = jax.config.jax_enable_x64
        found = jit(loss, backend="xla")(W, X)
        assert isinstance(found, jax.Array)
        assert found.dtype == np.float64
        assert jax.config.jax_enable_x64 == before

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_arguments_of_either_kind_are_compiled_once_for_each_dtype(self, dtype):
        f = jit(grad(loss), backend="xla")
        w, x = W.astype(dtype), X.astype(dtype)
        with jax.enable_x64(True):
            given = jax.numpy.asarray(w), jax.numpy.asarray(x)
        ours = f(w, x)
        assert f(*given).dtype == dtype
        assert np.array_equal(f(*given), ours)
        assert f(w, given[1]).shape == W.shape
        assert f.cache_info().size == 1

    def test_programs_without_double_precision_need_none(self):
        text = jit(loss, backend="xla").lower(W.astype(np.float32), X.astype(np.float32)).source()
        assert "f64" not in text
        assert "i64" not in text

    def test_numbers_of_python_yield_to_the_dtype_of_arrays(self):
        check(lambda x, c: (x * c, x + 1, c * 2, np.maximum(x, c), np.where(x > c, x, 0.5)), np.float32([1.5, -2.0]), 0.25)
        check(lambda i, c: (i * c, i / 2, i // c, i % 3, i**2, i > 200), np.int8([5, -7]), 2)


class TestDerivatives:
    def test_transforms_inside_and_outside(self):
        ws = np.stack([W, W + 0.1])
        check(value_and_grad(loss), W, X)
        check(vmap(grad(loss), in_axes=(0, None)), ws, X)
        f = jit(loss, backend="xla")
        for outside in (grad, functad.hessian, value_and_grad):
            for a, b in zip(*[functad.tree_leaves(outside(g)(W, X)) for g in (f, loss)], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(vmap(f, in_axes=(0, None))(ws, X), [loss(w, X) for w in ws], rtol=1e-12)
        np.testing.assert_allclose(functad.jvp(f, (W, X), (W, X))[1], functad.jvp(loss, (W, X), (W, X))[1], rtol=1e-12)

    def test_eager_code_goes_on_with_arrays_of_numpy(self):
        f = jit(loss, backend="xla")

        def further(w):
            return np.sin(f(w, X)) ** 2 * 3.0

        found = grad(further)(W)
        assert type(found) is np.ndarray
        assert found.flags.writeable
        np.testing.assert_allclose(found, grad(lambda w: np.sin(loss(w, X)) ** 2 * 3.0)(W), rtol=1e-12)

    def test_conventions_at_kinks_and_poles(self):
        with np.errstate(all="ignore"):
            check(grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x) * np.log(x), 0))), np.array([-1.0, 0.0, 2.0]))
        check(grad(lambda x: np.sum(np.maximum(x, 0)) + np.max(x) + np.linalg.norm(x)), np.array([0.0, 0.0]))
        check(grad(lambda x: np.sum(np.abs(x) + np.clip(x, -1, 1))), np.array([0.0, 1.0, -1.0, np.nan]))

    def test_variables_and_an_optimizer_take_steps(self):
        def trained(backend):
            w = functad.Variable(W)
            optimizer = functad.optimizers.Adam(0.1)

            def step(x):
                with functad.GradientTape() as tape:
                    value = loss(w, x)
                optimizer.apply_gradients([(tape.gradient(value, w), w)])
                return value

            compiled = step if backend is None else jit(step, backend=backend)
            return [float(compiled(X)) for _ in range(3)], w.numpy()

        (values, w), (expected, other) = trained("xla"), trained(None)
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        np.testing.assert_allclose(w, other, rtol=1e-12)


class TestControlFlow:
    def test_loops_and_branches_are_those_of_xla(self):
        def f(x):
            carry, ys = scan(lambda c, row: (np.tanh(c * row), c + row), x[0], x, reverse=True)
            last = fori_loop(0, 3, lambda i, c: c * 0.5 + i, carry)
            last = last + while_loop(lambda c: c < 10.0, lambda c: c * 2.0, np.abs(x[1]) + 1)
            chosen = switch(np.argmax(x), [np.sin, np.cos, np.exp], x[1])
            return last + chosen + cond(x[0] > 0, lambda: carry, lambda: np.sum(ys))

        source = jit(f, backend="xla").lower(X[0]).source()
        assert all(f"= {name}[" in source for name in ("scan", "while", "cond"))
        for x in (X[0], -X[0], X[0][::-1].copy()):
            check(f, x)

    def test_the_gradient_of_a_scan_is_one(self):
        def f(x, w):
            return np.sum(scan(lambda c, row: (np.tanh(c @ w + row), c), x[0], x)[1])

        check(grad(f, argnums=(0, 1)), X, np.cos(np.arange(9.0)).reshape(3, 3))

    @pytest.mark.parametrize("limit", [0, 5, 200])
    def test_the_backward_pass_of_a_while_loop_is_one(self, limit, monkeypatch):
        """Also where it has more steps than there are places to note something, and where it has none."""
        monkeypatch.setattr(control, "MOST", 4)
        monkeypatch.setattr(control, "FEWEST", 3)

        def f(x, w, limit):
            def step(c):
                return c[0] + 1, np.tanh(w @ c[1] + x) * 1.1

            return np.sum(while_loop(lambda c: c[0] < limit, step, (0, x))[1] ** 2)

        w = np.cos(np.arange(9.0)).reshape(3, 3)
        check(grad(f, argnums=(0, 1)), X[0], w, limit)
        source = jit(grad(f), backend="xla").lower(X[0], w, limit).source()
        assert "computed by NumPy" not in source

    def test_derivatives_of_higher_order_and_batches_of_a_while_loop_are_loops(self):
        def f(x):
            return np.sum(while_loop(lambda c: np.sum(c) < 50.0, lambda c: c * np.sqrt(x), x))

        every = vmap(functad.hessian(f))
        check(every, X + 1.0)
        assert "computed by NumPy" not in jit(every, backend="xla").lower(X + 1.0).source()

    def test_steps_that_numpy_computes_raise_what_it_raises(self):
        """The condition and the step are XLA's, what the way back needs is not."""

        def f(a):
            last = while_loop(lambda c: c[0, 0] < 100.0, lambda c: c * 2.0 + np.linalg.eigvalsh(c)[0], a)
            return np.sum(last)

        compiled = jit(grad(f), backend="xla")
        check(grad(f), np.diag([1.0, 2.0, 3.0]))
        with pytest.raises(DegenerateError):
            compiled(np.eye(3))


class TestConventionsOfNumPy:
    def test_integers_divided_by_zero_give_zero(self):
        with np.errstate(all="ignore"):
            check(lambda a, b: (a // b, a % b, np.fmod(a, b)), np.array([7, -7, 0]), np.array([0, 2, 0]))
            check(lambda a, b: (a // b, a % b), np.array([7.0, -7.0, 0.0]), np.array([0.0, 2.0, 0.0]))

    def test_shifts_by_more_bits_than_there_are(self):
        check(lambda a, b: (a << b, a >> b), np.int32([5, -5, 5]), np.int32([40, 33, 2]))

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64])
    def test_common_divisors_and_multiples_of_the_least_integer(self, dtype):
        """JAX's own functions never return for some of these."""
        bounds = np.iinfo(dtype)
        a, b = np.meshgrid(*[np.array([bounds.min, bounds.min + 1, 0, 1, 2, 3, 12, bounds.max], dtype)] * 2)
        for f in (np.gcd, np.lcm):
            found = np.asarray(jit(lambda a, b, f=f: f(a, b), backend="xla")(a, b))
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, f(a, b))

    def test_indices_from_the_end_and_repeated_ones(self):
        def f(x, i):
            y = np.zeros(5) + x[0]
            y[1:3] = x[i][:2]
            np.add.at(y, i, x[:3])
            y[i[0]] += 2.0
            return np.sum(y * x[i[-1]]), y

        check(f, np.arange(1.0, 6.0), np.array([-1, 2, -1]))
        check(grad(lambda x, i: f(x, i)[0]), np.arange(1.0, 6.0), np.array([-1, 2, -1]))

    def test_indices_out_of_bounds_read_nan_and_write_nothing(self):
        read = jit(lambda x, i: x[i], backend="xla")
        assert np.array_equal(read(np.arange(3.0), np.array([0, 3, -4])), [0.0, np.nan, np.nan], equal_nan=True)

        def write(x, i):
            y = np.zeros(3) + x
            y[i] = 5.0
            return y

        assert np.array_equal(jit(write, backend="xla")(np.arange(3.0), np.array([2, 7])), [0.0, 1.0, 5.0])
        with pytest.raises(IndexError, match="out of bounds"):
            jit(lambda x: x[np.array([0, 3])], backend="xla")(np.arange(3.0))

    def test_booleans_choose(self):
        check(lambda c, x: np.choose(c, [x, 2 * x]), np.array([True, False, True]), np.array([1.0, 2.0, 3.0]))

    def test_sorting_is_stable(self):
        x = np.array([2.0, 1.0, 2.0, 1.0, np.nan, 0.0])
        check(lambda x: (np.argsort(x, kind="stable"), np.sort(x), np.argmax(x), np.lexsort((x, -x))), x)

    def test_empty_arrays_and_arrays_without_axes(self):
        check(lambda x: (np.sum(x), np.cumsum(x), x @ x, np.prod(x), np.concatenate([x, [1.0]])), np.zeros(0))
        check(lambda x: (x[None], np.sum(x), np.stack([x, x]), x.reshape(1, 1)), np.float64(2.0))

    def test_complex_numbers(self):
        z = np.array([1 + 2j, -0.5j, 3.0])
        check(lambda z: (np.abs(z), np.exp(z), np.angle(z), z.conj() @ z, np.fft.fft(z), z.real**2), z)
        check(grad(lambda z: np.sum(np.abs(z) ** 2)), z)

    def test_complex_zeros_and_nan(self):
        z = np.array([0.0, 2.0, 1j])
        check(lambda z: (z ** (1 + 0.5j), z**0j, np.float_power(z, 2.5), z**z.real), z)
        y = np.array([1j, complex(np.nan, 1.0), 2.0])
        for f in (np.max, np.min, lambda y: np.clip(y, -1, 1)):
            check(lambda y, f=f: np.isnan(f(y)), y)

    @pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
    def test_quotients_of_complex_infinities_and_nan(self, dtype):
        parts = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
        z = np.array([complex(a, b) for a in parts for b in parts], dtype)
        with np.errstate(all="ignore"):
            check(lambda x, y: (x / y, 1 / y, np.reciprocal(y), y**-1), *np.meshgrid(z, z))

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
    def test_reciprocals_of_integers(self, dtype):
        ends = np.iinfo(dtype)
        with np.errstate(all="ignore"):
            check(np.reciprocal, np.array([0, 1, 2, 100, ends.max, ends.min], dtype))
            if ends.min:
                check(np.reciprocal, np.array([-1, 0, -3], dtype))

    @pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16, np.uint32, np.uint64])
    def test_floating_point_numbers_wrap_in_integers(self, dtype):
        x = np.array([-1.0, -7.5, 3.5, -100.0, 100.0])
        check(lambda x: (x.astype(dtype), x.astype(np.float32).astype(dtype)), x)

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: np.cumprod(x)[0],
            lambda x: np.sum(np.cumprod(x, 0) * np.array([1.0, 0.0, 1.0, 0.0])),
            lambda x: np.prod(x[:2]),
            lambda x: np.where(x[0] > 9, np.linalg.norm(x), 0.0),
            lambda x: np.where(x[0] > 9, np.std(x), 0.0),
        ],
        ids=["cumprod", "weighted cumprod", "prod", "norm", "std"],
    )
    def test_an_exact_zero_wins_over_infinity_in_gradients(self, f):
        for x in ([2.0, 3.0, np.inf, 0.0], [2.0, 0.0, np.inf, np.nan], [1.0, 2.0, -np.inf, np.inf]):
            with np.errstate(all="ignore"):
                check(grad(f), np.array(x))
                check(lambda x: functad.jvp(f, (x,), (np.array([1.0, 0.0, 0.0, 0.0]),)), np.array(x))

    @pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
    def test_numbers_that_signed_integers_cannot_hold(self, dtype):
        x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 100.0])
        with np.errstate(invalid="ignore"):
            check(lambda x: x.astype(dtype), x)

    def test_writes_into_real_arrays_drop_the_imaginary_part(self):
        def write(x, y):
            out, other = x.copy(), x.copy()
            out[0] += y * 1j
            other[::-1][:2] = y * (2 + 1j)
            return out, other

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            check(write, np.array([0.5, 2.0, 0.0], np.float16), np.float32(3.0))

    def test_integers_beyond_int64_beside_arrays_of_another_byte_order(self):
        x = np.array([2.0, 0.0]).astype(">f8")
        copy, quotient = jit(lambda x, n: (x.copy(), n * 4 // 2**60), backend="xla")(x, 2**62)
        assert copy.dtype == np.float64
        assert np.array_equal(np.asarray(copy), x)
        assert int(quotient) == 16


class TestArithmeticOfXla:
    """The differences from NumPy that the page on compilation lists."""

    def test_numbers_computed_from_python_numbers_are_arrays(self):
        for value in jit(lambda x: (x < 2, x + 1), backend="xla")(1):
            assert isinstance(value, jax.Array)
            assert value.shape == ()

    def test_a_cotangent_of_a_python_number_has_the_precision_of_the_computation(self):
        gradient = jit(grad(lambda x, y: np.sin(x * y)), backend="xla")(0.3, np.float32(0.7))
        assert gradient.dtype == np.float64
        assert float(gradient) == np.float32(gradient)

    def test_subnormal_numbers_are_zeros(self):
        is_zero, value = jit(lambda x: (x == 0, x * 2.0), backend="xla")(np.array([1e-310, 1e-300]))
        assert np.array_equal(np.asarray(is_zero), [True, False])
        assert np.array_equal(np.asarray(value), [0.0, 2e-300])
        fraction, shifted = jit(lambda x: (np.frexp(x)[0], np.ldexp(x, 4)), backend="xla")(np.array([1e-310]))
        assert np.array_equal(np.asarray([fraction, shifted]), [[1e-310], [1e-310]])

    def test_parts_of_complex_numbers_that_are_not_finite(self):
        found = np.asarray(jit(np.cumprod, backend="xla")(np.array([complex(0.0, np.inf), 1.0])))
        assert not np.isfinite(found).any()

    def test_constants_are_added_first(self):
        x = np.array([-0.5, 5.0])
        assert np.array_equal(np.asarray(jit(lambda x: (x + 2.0**53) - 2.0**53, backend="xla")(x)), x)
        assert np.signbit(np.asarray(jit(lambda x: x + 0, backend="xla")(np.array([-0.0]))))

    def test_zero_times_infinity_in_gradients_of_contractions_within_a_program_of_jax(self):
        gradient = jit(grad(lambda a, b: np.where(a[0] > 0, a @ b, 0.0)), backend="xla")
        a, b = np.zeros(2), np.array([np.inf, 1.0])
        assert np.array_equal(np.asarray(gradient(a, b)), [0.0, 0.0])
        with jax.enable_x64(True):
            assert np.array_equal(np.asarray(jax.jit(gradient)(a, b)), [np.nan, 0.0], equal_nan=True)

    def test_conversions_of_numbers_that_uint32_cannot_hold(self):
        found = jit(lambda x: x.astype(np.uint32), backend="xla")(np.array([np.nan, np.inf, 2.0**32 + 5, -1.0]))
        assert np.asarray(found).tolist() == [0, 0, 5, 2**32 - 1]


class TestDecompositions:
    """Their derivatives are computed on the device; only an error is raised by NumPy, on the host."""

    @pytest.mark.parametrize("name", ["eigh", "svd", "eig"])
    def test_gradients_of_decompositions(self, name):
        def f(a):
            parts = getattr(np.linalg, name)({"eigh": a + a.T, "svd": a, "eig": a + 0j}[name])
            return sum([np.abs(np.sum(np.cos(np.arange(part.size).reshape(part.shape)) * part)) ** 2 for part in parts])

        a = np.random.default_rng(0).normal(size=(4, 4))
        check(grad(f), a)
        lines = jit(grad(f), backend="xla").lower(a).source().splitlines()
        host = [line for line in lines if line.endswith("computed by NumPy on the host")]
        assert host
        assert all(line.startswith("# the errors of ") for line in host)

    def test_equal_eigenvalues_where_all_of_them_count_alike(self):
        check(grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 3)), np.eye(3))
        check(
            lambda a, t: functad.jvp(grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 3)), (a,), (t,)), np.eye(3), np.ones((3, 3))
        )

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
    def test_systems_whose_matrix_is_a_factor_are_solved_by_substitution(self, dtype):
        a = (np.random.default_rng(0).normal(size=(4, 4)) + (1j if dtype == np.complex128 else 0)).astype(dtype)
        b = np.arange(1.0, 9.0).reshape(4, 2).astype(dtype)

        def f(a, b):
            factor = np.linalg.cholesky(a @ a.conj().T + 3 * np.eye(4, dtype=a.dtype))
            return np.sum(np.abs(np.linalg.solve(factor.conj().T, np.linalg.solve(factor, b))) ** 2)

        both = grad(f, argnums=(0, 1))
        check(both, a, b)
        check(vmap(both), np.stack([a, 2 * a]), np.stack([b, b**2]))
        source = jit(both, backend="xla").lower(a, b).source()
        assert "triangular_solve" in source
        assert "= lu " not in source

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
    @pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
    def test_a_matrix_is_factorised_once(self, dtype, batch):
        rng = np.random.default_rng(0)
        a = (rng.normal(size=(*batch, 4, 4)) + 4 * np.eye(4) + (1j if dtype == np.complex128 else 0)).astype(dtype)
        b = rng.normal(size=(*batch, 4, 2)).astype(dtype)

        def f(a, b):
            return np.sum(np.abs(np.linalg.solve(a, b) + np.linalg.inv(a.mT)[..., :2]) ** 2)

        both = grad(f, argnums=(0, 1))
        check(both, a, b)
        assert jit(both, backend="xla").lower(a, b).source().count("= lu ") == 1

    def test_complex_factors_of_stacks_with_two_batch_axes_are_solved_by_substitution(self):
        a = np.random.default_rng(0).normal(size=(2, 3, 4, 4)) + 1j

        def f(a):
            factor = np.linalg.cholesky(a @ a.conj().mT + 3 * np.eye(4))
            return np.sum(np.abs(np.linalg.solve(factor.conj().mT, np.linalg.solve(factor, a))) ** 2)

        check(grad(f), a)
        assert "= lu " not in jit(grad(f), backend="xla").lower(a).source()

    def test_determinants_to_the_third_order(self):
        a = np.random.default_rng(0).normal(size=(3, 3))
        second = grad(lambda a: np.sum(np.cos(grad(np.linalg.det)(a))))
        check(grad(lambda a: np.sum(np.sin(second(a)))), a)


class TestWhatXlaLacks:
    def test_numpy_computes_it_on_the_host(self):
        special = pytest.importorskip("scipy.special", reason="functions of SciPy are called")
        check(lambda x: special.jv(1.5, x) * np.cos(x), X)
        check(grad(lambda x: np.sum(special.jv(1.5, x))), X)
        assert "# special.jv: computed by NumPy on the host" in (
            jit(lambda x: special.jv(1.5, x), backend="xla").lower(X).source().splitlines()
        )

    def test_functions_of_scipy_that_it_has(self):
        special = pytest.importorskip("scipy.special", reason="functions of SciPy are called")
        x = np.linspace(0.05, 3.0, 40)

        def f(x):
            pairs = special.boxcox(x, 0.3), special.huber(1.0, x), special.pseudo_huber(0.5, x), special.sici(x)[0]
            return (
                *pairs,
                special.exprel(x),
                special.log_expit(x),
                special.exp10(-x),
                special.dawsn(x),
                special.zeta(1 + x, 2.0),
            )

        check(f, x)
        check(lambda x: functad.jvp(lambda x: f(x)[:-1], (x,), (np.ones_like(x),)), x)
        assert "computed by NumPy" not in jit(f, backend="xla").lower(x).source()

    def test_the_zeta_function_at_its_poles(self):
        special = pytest.importorskip("scipy.special", reason="functions of SciPy are called")
        x, q = np.meshgrid([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.nan], [-1.5, -1.0, 0.0, 0.5, 2.0])
        np.testing.assert_allclose(jit(special.zeta, backend="xla")(x, q), special.zeta(x, q), rtol=1e-12)

    def test_products_of_sparse_matrices(self):
        sparse = pytest.importorskip("scipy.sparse", reason="a matrix of SciPy is multiplied")
        a = sparse.random_array((5, 3), density=0.5, rng=np.random.default_rng(0))
        f = grad(lambda x: np.sum(np.sin(a @ x)))
        check(f, X.T)
        check(f, X[0])
        assert "computed by NumPy" not in jit(f, backend="xla").lower(X[0]).source()

    @pytest.mark.parametrize("shape", [(4, 3), (300, 300), (0, 2), ()])
    @pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.int64, np.float32, np.bool_])
    def test_every_bit_goes_to_the_host_and_back(self, shape, dtype):
        """Threads of JAX's own call NumPy, for large arrays at least, and know of no context."""
        x = np.asarray(np.random.default_rng(0).standard_normal(shape) * 1e9).astype(dtype)
        spec = spec_of(x)
        with jax.enable_x64(True):
            found = jax.jit(lambda x: called("double", lambda x: (x + x,), [x], [spec], [spec])[0])(x)
        assert found.dtype == dtype
        assert np.array_equal(found, x + x)

    def test_what_numpy_raises_is_raised(self):
        f = jit(grad(lambda a: np.linalg.eigvalsh(a)[0]), backend="xla")
        with pytest.raises(DegenerateError):
            f(np.eye(3))
        np.testing.assert_allclose(f(np.diag([1.0, 2.0, 3.0])), np.diag([1.0, 0.0, 0.0]), atol=1e-15)

    def test_what_it_raises_is_raised_too_where_xla_computes_other_calls_of_the_function(self):
        def f(z, i):
            y = z.copy()
            y.real[i] = 0.5
            return y

        check(f, np.array([1j, -1j, 2.0]), np.array([2]))
        with pytest.raises(IndexError, match="out of bounds"):
            jit(f, backend="xla")(np.array([1j, -1j, 2.0]), np.array([5]))

    def test_within_a_program_of_jax(self):
        """What is a part of another program neither waits nor loses what is raised."""
        special = pytest.importorskip("scipy.special", reason="functions of SciPy are called")
        f = jit(lambda x: special.jv(1.5, x), backend="xla")
        with jax.enable_x64(True):
            np.testing.assert_allclose(jax.jit(lambda x: f(x) * 2)(X), special.jv(1.5, X) * 2, rtol=1e-12)
            compiled = jit(grad(lambda a: np.linalg.eigvalsh(a)[0]), backend="xla")
            with pytest.raises(jax.errors.JaxRuntimeError, match="DegenerateError"):
                jax.block_until_ready(jax.jit(compiled)(np.eye(3)))

    def test_dtypes_raise_by_name(self):
        with pytest.raises(
            UnsupportedError, match=f"XLA has no {np.dtype(np.longdouble).name}, the dtype of an argument, at .*Use astype"
        ):
            jit(lambda x: x * 2, backend="xla")(np.ones(2, np.longdouble))

    def test_a_missing_package_is_named_with_the_command_that_installs_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(MissingPackageError, match=r"The backend `xla`, at .* needs jax: pip install 'functad\[xla\]'"):
            jit(loss, backend="xla")

    def test_the_source_can_be_read(self):
        lowered = jit(lambda x: np.sin(x) + 1.0, backend="xla").lower(X)
        assert "= sin a" in lowered.source()
        assert "stablehlo.sine" in lowered.compile().program.text


SEVERAL = """
    import jax, numpy as np, functad
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    assert len(jax.devices()) == 8
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((64, 5)), rng.standard_normal(64)
    w = {"a": rng.standard_normal((5, 4)), "b": rng.standard_normal(4)}

    def loss(w, X, y):
        return np.mean((np.tanh(X @ w["a"]) @ w["b"] - y) ** 2)

    step = functad.jit(functad.value_and_grad(loss), backend="xla")
    value, gradient = step(w, X, y)
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    with jax.enable_x64(True):
        rows = NamedSharding(mesh, PartitionSpec("batch"))
        everywhere = NamedSharding(mesh, PartitionSpec())
        own = jax.device_put(w, everywhere)
        parts = jax.device_put(X, rows), jax.device_put(y, rows)
    assert len(parts[0].addressable_shards) == 8 and parts[0].addressable_shards[0].data.shape == (8, 5)
    for _ in range(3):
        found, others = step(own, *parts)
    assert len(found.sharding.device_set) == 8 and found.is_fully_replicated
    np.testing.assert_allclose(found, value, rtol=1e-13)
    for key in w:
        assert others[key].is_fully_replicated
        np.testing.assert_allclose(others[key], gradient[key], rtol=1e-12)
    np.testing.assert_allclose(functad.grad(loss)(w, X, y)["a"], others["a"], rtol=1e-12)
    each = functad.jit(functad.vmap(functad.grad(loss), in_axes=(None, 0, 0)), backend="xla")(own, *parts)
    assert each["a"].sharding.spec[0] == "batch"  # each device has the gradients of its examples
    np.testing.assert_allclose(np.mean(np.asarray(each["a"]), 0), gradient["a"], rtol=1e-12)
    print("done")
"""


PARAMETERS = """
    import jax, numpy as np, functad
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((16, 5)), rng.standard_normal(16)
    w = {"inner": rng.standard_normal((5, 8)), "outer": rng.standard_normal(8)}

    def loss(w, X, y):
        return np.mean((np.tanh(X @ w["inner"]) @ w["outer"] - y) ** 2)

    def looped(w, X):
        carry, _ = functad.scan(lambda c, row: (np.tanh(c @ w["inner"][:, :5]) * np.sum(row), None), X, np.ones((3, 2)))
        return np.sum(functad.while_loop(lambda c: np.sum(c**2) > 1e-3, lambda c: c * 0.5, carry))

    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("rows", "model"))
    specs = {"inner": PartitionSpec(None, "model"), "outer": PartitionSpec("model")}
    with jax.enable_x64(True):
        own = {key: jax.device_put(w[key], NamedSharding(mesh, specs[key])) for key in w}
        parts = [jax.device_put(value, NamedSharding(mesh, PartitionSpec("rows"))) for value in (X, y)]

    def check(found, expected):
        for key in w:
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-11, atol=1e-13)

    value, gradient = functad.jit(functad.value_and_grad(loss), backend="xla")(own, *parts)
    np.testing.assert_allclose(value, loss(w, X, y), rtol=1e-13)
    check(gradient, functad.grad(loss)(w, X, y))
    assert {key: g.sharding.spec for key, g in gradient.items()} == specs  # each device has the gradient of its parameters
    assert gradient["inner"].addressable_shards[0].data.shape == (5, 2)

    each = functad.jit(functad.vmap(functad.grad(loss), in_axes=(None, 0, 0)), backend="xla")(own, *parts)
    check(each, functad.vmap(functad.grad(loss), in_axes=(None, 0, 0))(w, X, y))
    assert each["inner"].sharding.spec == PartitionSpec("rows", None, "model")
    assert each["inner"].addressable_shards[0].data.shape == (8, 5, 2)

    def product(w, X, y):
        return functad.jvp(functad.grad(lambda w: loss(w, X, y)), (w,), (w,))[1]

    second = functad.jit(product, backend="xla")(own, *parts)
    check(second, product(w, X, y))
    assert {key: g.sharding.spec for key, g in second.items()} == specs

    found = functad.jit(functad.grad(looped), backend="xla")(own, parts[0])
    check(found, functad.grad(looped)(w, X))
    print("done")
"""


@pytest.mark.parametrize("program", [SEVERAL, PARAMETERS], ids=["rows", "parameters"])
def test_eight_devices_give_the_gradient_of_one(program):
    """Rows of the data lie on several devices, parameters on all or on several: value and gradient are those of one device."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **flags, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert found.stdout.strip() == "done", found.stderr
