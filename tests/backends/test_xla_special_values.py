"""The backend `xla` at special values: zeros with a sign, infinities, NaN and numbers out of range give NumPy's results."""

import operator

import numpy as np
import pytest

from functad import jit

jax = pytest.importorskip("jax", reason="the xla backend needs jax, of the extra `xla`")

PARTS = [0.0, -0.0, 1.0, -1.0, -2.5, 0.3, np.inf, -np.inf, np.nan, 30.0]
DTYPES = [np.complex64, np.complex128]


def plane(dtype=np.complex128, parts=PARTS):
    """Return all complex numbers with these parts."""
    z = np.empty((len(parts), len(parts)), dtype)
    z.real, z.imag = np.meshgrid(parts, parts, indexing="ij")
    return z.ravel()


def pairs(z):
    """Return two arrays that hold all pairs of the elements of `z`."""
    return [each.ravel() for each in np.meshgrid(z, z, indexing="ij")]


def check(f, *args):
    """Compare compiled results with NumPy's: values, places of infinities and NaN, signs of zeros, dtypes."""
    with np.errstate(all="ignore"):
        wanted, found = np.asarray(f(*args)), np.asarray(jit(f, backend="xla")(*args))
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    with np.errstate(all="ignore"):
        size = np.abs(wanted) * (1e-5 if wanted.dtype in (np.float32, np.complex64) else 1e-12)
    size = np.where(np.isfinite(size) & (wanted.dtype.kind in "fc"), size, 0)
    for a, b in [(wanted.real, found.real), (wanted.imag, found.imag)] if wanted.dtype.kind == "c" else [(wanted, found)]:
        with np.errstate(all="ignore"):
            agree = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(np.where(a == b, 0, a - 1.0 * b)) <= size)
        agree &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
        if not agree.all():
            first = tuple([each[0] for each in np.nonzero(~agree)])
            given = [np.broadcast_to(x, agree.shape)[first] for x in args if np.shape(x) == agree.shape]
            pytest.fail(f"{given}: {found[first]}, NumPy {wanted[first]}")


class TestComplexOrder:
    PARTS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)

    @pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_pairs(self, name, dtype):
        check(getattr(np, name), *pairs(plane(dtype, self.PARTS)))

    def test_clip(self):
        z = plane(parts=[0.0, -0.0, 1.0, np.nan])
        a, low, high = [each.ravel() for each in np.meshgrid(z, z, z)]
        check(np.clip, a, low, high)
        check(lambda a, low: np.clip(a, low, None), a, low)
        check(lambda a, high: np.clip(a, None, high), a, high)
        check(lambda a: np.clip(a, -1, complex(1, np.nan)), a)

    @pytest.mark.parametrize("name", ["max", "min"])
    def test_extremes_along_axes(self, name):
        a, b = pairs(plane(parts=self.PARTS))
        rows, function = np.stack([a, b, a[::-1]]), getattr(np, name)
        check(lambda rows: function(rows, axis=0), rows)
        check(lambda rows: function(rows.reshape(3, 49, 49), axis=(0, 2), keepdims=True), rows)
        check(lambda a, b: np.stack([function(a), function(b)]), rows[:, 7], rows[:, 48])


class TestComplexFunctions:
    NAMES = (
        *("sqrt", "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "abs", "sign", "reciprocal"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
    )

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_branch_cuts_zeros_infinities_and_nan(self, name, dtype):
        check(getattr(np, name), plane(dtype))

    @pytest.mark.parametrize("name", NAMES)
    def test_large_and_small_parts(self, name):
        parts = [0.0, 1.0, -1.0, 1e300, -1e-300, 1e-160, -1e160, np.nan] + ([700.0, -708.0] if name != "exp" else [700.0])
        z = plane(parts=parts)
        check(getattr(np, name), z if name != "log1p" else z[np.abs(z) > 0.5])

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_powers(self, dtype):
        check(np.power, *pairs(plane(dtype, [0.0, -0.0, 1.0, -1.0, np.inf, np.nan])))

    @pytest.mark.parametrize("n", [-150, -100, -99, -3, -2, 7, 33, 99, 100])
    def test_powers_of_integral_exponents(self, n):
        z = np.exp(1j * np.linspace(-3.0, 3.0, 14))
        check(lambda z: z**n, z)
        check(lambda z, y: z**y, z, np.full(z.shape, n, float))

    @pytest.mark.parametrize("n", [0, 0.5, 1, 2, 3, -1, -2, -3, 2.5, -0.5, 1j, 2 + 0j, 33])
    def test_powers_of_constants(self, n):
        z = plane(parts=[0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
        check(lambda z: z**n, z)
        check(lambda z: n**z, z)

    @pytest.mark.parametrize("factor", [1.0, 0.0, -1.0, 2.0, 1j])
    def test_products(self, factor):
        z = plane(parts=[0.0, -0.0, 1.0, np.inf, -np.inf, np.nan])
        check(lambda z: z * factor, z)
        check(np.square, z)
        check(np.multiply, *pairs(z))

    def test_digits_of_log1p_near_zero(self):
        z = np.array([1e-10 + 1e-12j, -1e-9j])
        np.testing.assert_allclose(jit(np.log1p, backend="xla")(z), z - z**2 / 2, rtol=1e-15)


class TestRealFunctions:
    @pytest.mark.parametrize("exponent", [2**31, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63), 1000, -1000])
    def test_exponents_of_ldexp_beyond_int32(self, exponent):
        x = np.array([0.0, -0.0, 1.0, -2.5, 1e300, -1e-300, np.inf, np.nan])
        if abs(exponent) == 1000:
            x = x[[0, 1, 2, 3, 6, 7]]  # the others become subnormal
        check(np.ldexp, x, np.full(x.shape, exponent))

    def test_the_spacing_of_a_negative_zero(self):
        check(np.spacing, np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]))

    def test_the_sign_of_fractions(self):
        check(lambda x: np.modf(x)[0], np.array([0.0, -0.0, 8.0, -8.0, 2.5, -2.5, np.inf, -np.inf, np.nan]))


class TestDeterminants:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
    @pytest.mark.parametrize("value", [np.nan, -np.inf, -0.0, 2.0])
    def test_signs(self, dtype, value):
        """NumPy takes the sign from the pivots, a NaN as positive."""
        for a in ([[value]], [[value, 1.0], [0.5, -0.25]], [[-2.0, 1.0], [0.5, value]]):
            for part in (0, 1):
                check(lambda a, part=part: np.linalg.slogdet(a)[part], np.array(a, dtype))

    def test_singular_matrices(self):
        check(np.linalg.det, np.array([[[-0.0]], [[2.0]]]))
        for n, place in ((2, (0, 0)), (3, (1, 2)), (3, (0, 1)), (5, (4, 0))):
            a = np.arange(1.0, n * n + 1.0).reshape(n, n) ** 2
            a[place] = np.inf
            check(np.linalg.det, np.stack([a, -a]))
        check(lambda a: np.stack(np.linalg.slogdet(a)), np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]))


class TestConversions:
    NUMBERS = (
        *(np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 100.0, -1.0, -7.9, 3.9, 0.0, -0.0, 300.0, -70000.0, 1.2e10, -5e12),
        *(2.0**31, -(2.0**31), 2.0**32, 2.0**62, 2.0**63, -(2.0**63), 2.0**63 + 2048, 1e19, -1e19, 2.0**64, 3e19),
    )

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("to", [np.uint8, np.uint16, np.uint64])
    def test_unsigned_integers(self, to, dtype):
        with np.errstate(all="ignore"):
            x = np.array(self.NUMBERS).astype(dtype)
        check(lambda x: x.astype(to), x)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_uint32_as_in_conversions_of_one_number(self, dtype):
        """NumPy converts eight neighbours at once to other integers than one number."""
        with np.errstate(all="ignore"):
            x = np.array(self.NUMBERS).astype(dtype)
            wanted = [each.astype(np.uint32) for each in x]
        assert np.array_equal(np.asarray(jit(lambda x: x.astype(np.uint32), backend="xla")(x)), wanted)


class TestRepeatedIndices:
    INDEX = np.array([0, 0, 1, 2, 0])
    VALUES = (
        np.array([True, True, False, True, False]),
        np.array([1, 2, 3, 4, 5]),
        np.array([1, 2, 3, 4, 5], np.uint8),
        True,
        2,
    )

    @pytest.mark.parametrize("ufunc", [np.add, np.subtract])
    @pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int32, np.int64, np.uint64, np.float64, np.complex64])
    def test_integers_and_booleans(self, ufunc, dtype):
        def f(a, i, v):
            out = a.copy()
            ufunc.at(out, i, v)
            return out

        a = np.array([1, 0, 1]).astype(dtype)
        for v in self.VALUES:
            try:
                with np.errstate(invalid="ignore"):
                    f(a, self.INDEX, v)
            except TypeError:
                with pytest.raises(TypeError):
                    jit(f, backend="xla")(a, self.INDEX, v)
            else:
                check(f, a, self.INDEX, v)

    @pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint64])
    def test_numbers_with_fractions_that_are_constants(self, dtype):
        """NumPy converts the sum after each addition."""

        def f(a):
            out = a.copy()
            np.add.at(out, self.INDEX, np.array([0.6, 0.7, 1.5, 2.5, 0.7]))
            return out

        check(f, np.array([1, 0, 1]).astype(dtype))

    def test_booleans_through_views(self):
        def f(a, v):
            out = a.copy()
            np.add.at(out[::-1], self.INDEX, v)
            return out

        check(f, np.array([True, False, False]), self.VALUES[0])


class TestBooleans:
    @pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "lt"])
    def test_operators_of_two_python_bools_give_python_integers(self, name):
        function = getattr(operator, name)
        for a in (True, False):
            check(function, a, True)
            wanted, found = function(a, True), jit(function, backend="numpy")(a, True)
            assert type(found) is type(wanted)
            assert found == wanted

    @pytest.mark.parametrize("name", ["add", "multiply", "floor_divide", "power", "left_shift", "maximum", "bitwise_and"])
    def test_functions_of_two_python_bools_give_the_dtypes_of_numpy(self, name):
        check(getattr(np, name), True, True)

    def test_products(self):
        a = np.array([[True, False, True], [True, True, True], [False, False, False]])
        for f in (
            np.matmul,
            np.dot,
            np.inner,
            np.kron,
            lambda a, b: np.einsum("ij,jk", a, b),
            lambda a, b: np.outer(a[0], b[0]),
        ):
            check(f, a, a)

    def test_products_of_sparse_matrices(self):
        sparse = pytest.importorskip("scipy.sparse", reason="a matrix of SciPy is multiplied")
        a = np.array([[True, False, True], [True, True, True], [False, False, False]])
        matrix = sparse.csr_array(a)
        for x in (a, a[0], a.astype(np.int8)):
            check(lambda x: matrix @ x, x)
            check(lambda x: x @ matrix, x)
