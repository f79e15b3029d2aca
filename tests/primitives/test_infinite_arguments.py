"""Values of NumPy at infinities and NaN, in each trace: interpolation, quantiles, and replacement of infinities."""

import itertools

import numpy as np
import pytest

import functad

INF, NAN = np.inf, np.nan
POINTS = np.array([-INF, -2.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, INF, NAN])
KNOTS = [[0, 1, INF], [-INF, 0, 1], [-INF, INF], [0, 1], [0, 1, 1], [0, 0.5, 2]]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def ways(f):
    """Return `f` in an eager trace, batched, compiled and compiled to NumPy."""
    return {
        "eager": lambda *args: functad.vjp(f, *args)[0],
        "batched": lambda *args: functad.vmap(f)(*[np.stack([a, a]) for a in args])[1],
        "compiled": functad.jit(f),
        "numpy": functad.jit(f, backend="numpy"),
    }


@pytest.mark.parametrize("way", ["eager", "batched", "compiled", "numpy"])
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("xp", KNOTS)
def test_interpolation_beside_infinities(xp, dtype, way):
    f = ways(np.interp)[way]
    xp = np.array(xp, float)
    for fp in itertools.islice(itertools.product([0.0, INF, -INF, NAN, 2.5], repeat=len(xp)), 0, None, 1 + 12 * (len(xp) > 2)):
        fp = np.array(fp)
        values = fp if dtype is float else np.array([complex(*pair) for pair in zip(fp, fp[::-1], strict=True)])
        expected = np.interp(POINTS, xp, values)
        found = f(POINTS, xp, values)
        np.testing.assert_allclose(found.real, expected.real, rtol=1e-15)
        np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-15)


def test_derivatives_of_interpolation_beside_infinite_knots_are_finite():
    x = np.array([0.5, 1.5, 2.5])
    for wrap in (lambda f: f, functad.jit):
        slopes = wrap(functad.jacobian(lambda x: np.interp(x, [-INF, 0, 1, INF], [1.0, 2.0, 4.0, 5.0])))(x)
        np.testing.assert_array_equal(slopes, np.diag([2.0, 0.0, 0.0]))
        of_values = wrap(functad.grad(lambda fp: np.interp(-3.0, [-INF, 0, 1], fp)))(np.array([1.0, 2.0, 4.0]))
        np.testing.assert_array_equal(of_values, [0, 1, 0])
        of_knots = wrap(functad.grad(lambda xp: np.interp(-3.0, xp, [1.0, 2.0, 4.0])))(np.array([-INF, 0, 1]))
        np.testing.assert_array_equal(of_knots, [0, 0, 0])


@pytest.mark.parametrize("way", ["eager", "batched", "compiled", "numpy"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("options", [{}, {"posinf": INF}, {"neginf": -INF, "nan": INF}, {"nan": NAN}])
def test_nan_to_num_of_complex_infinities(options, dtype, way):
    z = np.array([complex(INF, -INF), complex(1, INF), complex(-INF, 2), complex(NAN, 2), complex(-0.0, -0.0)], dtype)
    for given in (z, z[1], z.reshape(5, 1)):
        expected = np.nan_to_num(given, **options)
        found = ways(lambda z: np.nan_to_num(z, **options))[way](given)
        for part in (np.real, np.imag):
            np.testing.assert_array_equal(part(found), part(expected), strict=True)
            np.testing.assert_array_equal(np.signbit(part(found)), np.signbit(part(expected)))
