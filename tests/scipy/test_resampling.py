"""`functad.scipy.ndimage`: splines through images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import functad
from functad.errors import UnsupportedError
from functad.scipy import ndimage
from functad.scipy._resampling import MIRROR, NEAREST, SPLINE_FILTER
from functad.testing import check_grads, check_primitive

rng = np.random.default_rng(1)
M = rng.normal(size=(5, 6))
Z = M + 1j * rng.normal(size=(5, 6))
CUBE = rng.normal(size=(3, 4, 5))
PLACES = np.stack([rng.uniform(-4, 8, 12), rng.uniform(-4, 9, 12)])
CORNERS = np.array([[0, 4, 4, 0, 0.0, 2, 2.5, -1, -0.5], [0, 5, 0, 5, 3, 3, 3.5, -1, 4.5]])
A, B = np.array([[0.9, 0.2], [-0.3, 1.1]]), np.array([0.43, -1.31])
MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-wrap", "grid-constant"]


def _moved(point: tuple[int, ...], a: Any, b: Any = 1.0) -> tuple[Any, ...]:
    return point[0] * a - 0.33, point[1] * b + 0.21 * a


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "map_coordinates": (lambda m, x, c, **how: m.map_coordinates(x, c, **how), (M, PLACES)),
    "affine_transform": (lambda m, x, a, b, **how: m.affine_transform(x, a, b, **how), (M, A, B)),
    "affine_transform diagonal": (lambda m, x, a, b, **how: m.affine_transform(x, a, b, **how), (M, A[0] + 0.5, B)),
    "affine_transform homogeneous": (
        lambda m, x, a, b, **how: m.affine_transform(x, np.concatenate([a, b[:, None]], 1), output_shape=(3, 4), **how),
        (M, A, B),
    ),
    "shift": (lambda m, x, b, **how: m.shift(x, b, **how), (M, B)),
    "zoom": (lambda m, x, **how: m.zoom(x, (1.7, 0.6), **how), (M,)),
    "rotate": (lambda m, x, angle, **how: m.rotate(x, angle, **how), (M, 33.0)),
    "geometric_transform": (
        lambda m, x, a, b, **how: m.geometric_transform(x, _moved, extra_arguments=(a,), extra_keywords={"b": b}, **how),
        (M, 0.9, 1.1),
    ),
}


@pytest.mark.filterwarnings("ignore:The behavior of affine_transform")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives_of_all_orders(name: str, mode: str) -> None:
    call, args = CALLS[name]
    for order in range(6):
        how: dict[str, Any] = {"order": order, "mode": mode, "cval": 0.3, "prefilter": (order + len(mode)) % 4 > 0}
        expected = call(scipy.ndimage, *args, **how)
        found, _ = functad.vjp(lambda *a, how=how: call(ndimage, *a, **how), *args)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(call(ndimage, *args, **how), expected)
        if name != "affine_transform homogeneous" or order == 3:
            check_grads(lambda *a, how=how: call(ndimage, *a, **how), args, order=1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", range(6))
def test_values_at_corners(order: int, mode: str) -> None:
    expected = scipy.ndimage.map_coordinates(M, CORNERS, order=order, mode=mode)
    found, _ = functad.vjp(lambda x: ndimage.map_coordinates(x, CORNERS, order=order, mode=mode), M)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


MORE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "complex points": (lambda m, x, c: m.map_coordinates(x, c, cval=1 + 2j), (Z, PLACES)),
    "complex rotate": (lambda m, x, a: m.rotate(x, a), (Z, 33.0)),
    "complex zoom": (lambda m, x: m.zoom(x, 1.7), (Z,)),
    "complex shift": (lambda m, x, b: m.shift(x, b, mode="wrap"), (Z, B)),
    "planes": (lambda m, x, a: m.rotate(x, a, axes=(0, 2), reshape=False), (CUBE, 20.0)),
    "volume": (lambda m, x, c: m.map_coordinates(x, c), (CUBE, np.abs(PLACES).reshape(3, 8) / 4)),
    "zoom volume": (lambda m, x: m.zoom(x, (1.2, 1, 0.6)), (CUBE,)),
    "zoom of whole pixels": (lambda m, x: m.zoom(x, 1.7, grid_mode=True, mode="grid-wrap"), (M,)),
    "value outside": (lambda m, x, c: m.shift(x, [1.3, 2.2], cval=c), (M, 1.3)),
    "spline_filter": (lambda m, x: m.spline_filter(x, 4, mode="grid-wrap"), (M,)),
    "spline_filter1d": (lambda m, x: m.spline_filter1d(x, 5, axis=0, mode="reflect"), (M,)),
    "other dtype": (lambda m, x, c: m.map_coordinates(x, c, output=np.float32).astype(float), (M * 1e-3, PLACES)),
    "closure": (lambda m, a: m.geometric_transform(M, lambda p: _moved(p, a)), (0.9,)),
}


@pytest.mark.filterwarnings("ignore:promoting specified output")
@pytest.mark.parametrize("name", MORE)
def test_more(name: str) -> None:
    call, args = MORE[name]
    expected = call(scipy.ndimage, *args)
    found, _ = functad.vjp(lambda *a: call(ndimage, *a), *args)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if name == "other dtype" else 1e-11, atol=1e-12)
    if name != "other dtype":
        check_grads(lambda *a: call(ndimage, *a), args, order=1)


def test_second_order() -> None:
    for order in (2, 3, 5):
        check_grads(lambda x, c, a, order=order: ndimage.map_coordinates(x, c, order=order) @ np.cos(a), (M, PLACES, PLACES[0]))


def test_vmap() -> None:
    images, places = rng.normal(size=(3, 5, 6)), rng.uniform(0, 4, (3, 2, 7))
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x: ndimage.map_coordinates(x, PLACES), (images,)),
        (lambda x, c: ndimage.map_coordinates(x, c, mode="nearest"), (images, places)),
        (lambda a: ndimage.rotate(M, a, reshape=False), (np.array([1.0, 20.0, 33.0]),)),
        (lambda b: ndimage.shift(M, b), (places[:, :, 0],)),
        (lambda x: ndimage.zoom(x, 1.3, mode="reflect"), (images,)),
    ]
    for f, args in calls:
        for g in (f, functad.grad(lambda *a, f=f: np.sum(f(*a) ** 2), argnums=tuple(range(len(args))))):
            found = functad.vmap(g)(*args)
            for i in range(3):
                for one, other in zip(found, g(*[a[i] for a in args]), strict=False) if isinstance(found, tuple) else ():
                    np.testing.assert_allclose(one[i], other, rtol=1e-9, atol=1e-11)
                if not isinstance(found, tuple):
                    np.testing.assert_allclose(found[i], g(*[a[i] for a in args]), rtol=1e-9, atol=1e-11)


def test_slopes_at_the_points_of_the_grid() -> None:
    x = np.array([0.0, 1.0, 3.0, 0.0])
    at = np.arange(4.0)

    def slopes(mode: str, order: int = 1) -> list[float]:
        jac = functad.jacobian(lambda c: ndimage.map_coordinates(x, c[None], order=order, mode=mode))(at)
        return [round(float(d), 9) for d in np.diag(jac)]

    assert slopes("constant") == slopes("nearest") == slopes("wrap") == [1, 2, -3, -3]  # at the end that of the inside
    assert slopes("mirror") == [1, 2, -3, 3]
    assert slopes("reflect") == [1, 2, -3, 0]
    assert slopes("constant", 0) == [0, 0, 0, 0]


def test_points_that_are_no_number_are_outside() -> None:
    places = np.array([[np.nan, 1.2], [0.5, 2.3]])
    value, pull = functad.vjp(lambda c: ndimage.map_coordinates(M, c, cval=7.0), places)
    np.testing.assert_allclose(value, scipy.ndimage.map_coordinates(M, places, cval=7.0), rtol=1e-12)
    np.testing.assert_array_equal(pull(np.ones(2))[0][:, 0], 0.0)


def test_whole_numbers_are_rounded_as_scipy_rounds() -> None:
    image = (9 * M).astype(int)
    places = PLACES / 2

    def f(c: Any) -> Any:
        return ndimage.map_coordinates(image, c, mode="mirror") * np.arange(12.0)

    value, pull = functad.vjp(f, places)
    np.testing.assert_array_equal(value, f(places))
    np.testing.assert_array_equal(pull(np.ones(12))[0], 0.0)


def test_plain_arrays_inside_of_a_trace_are_scipys() -> None:
    expected = scipy.ndimage.rotate(M, 20.0)
    value, _ = functad.vjp(lambda a: a * ndimage.rotate(M, 20.0), 1.0)
    np.testing.assert_array_equal(value, expected)


def test_factor_of_zoom_has_zero_derivative() -> None:
    assert functad.grad(lambda z: np.sum(ndimage.zoom(M, z)))(1.3) == 0.0


def test_an_array_for_the_result_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="an array as output="):
        functad.vjp(lambda c: ndimage.map_coordinates(M, c, output=np.zeros(12)), PLACES)


def test_the_filter_of_long_rows_is_its_own_transpose() -> None:
    for mode in (MIRROR, NEAREST):
        check_grads(lambda x, mode=mode: SPLINE_FILTER(x, order=5, axis=-1, mode=mode), (rng.normal(size=(2, 40)),), order=1)
    check_primitive(SPLINE_FILTER)
