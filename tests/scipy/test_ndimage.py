"""`functad.scipy.ndimage`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import functad
from functad.scipy import ndimage, signal
from functad.testing import check_grads

rng = np.random.default_rng(0)
M = rng.normal(size=(5, 6))
K = rng.normal(size=3)
KM = rng.normal(size=(3, 2))
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
GRIDS = ["grid-mirror", "grid-constant", "grid-wrap"]


def _differences(line: Any, out: Any) -> None:
    out[:] = line[2:] - line[:-2] * line[1:-1]


def _second(s: Any) -> Callable[..., Any]:
    return lambda x, axis, output, mode, cval: s.correlate1d(x, [1, -2, 1], axis, output, mode, cval)


CASES: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    *[
        (f"{name} {mode}", lambda s, x, k, n=name, m=mode: getattr(s, n)(x, k, mode=m, cval=0.5), (M, weights))
        for name, weights in (("convolve", KM), ("correlate", KM), ("convolve1d", K), ("correlate1d", K[:2]))
        for mode in MODES
    ],
    *[
        (f"{name} {mode}", lambda s, x, n=name, a=arguments, m=mode: getattr(s, n)(x, mode=m, cval=0.5, **a), (M,))
        for name, arguments in (
            ("gaussian_filter", {"sigma": 1.3}),
            ("uniform_filter", {"size": 3}),
            ("convolve", {"weights": KM}),
            ("maximum_filter", {"size": (3, 2)}),
            ("grey_erosion", {"size": (3, 2)}),
            ("rank_filter", {"rank": 1, "footprint": CROSS}),
            ("generic_filter", {"function": lambda w: np.sum(np.sin(w)), "size": 2}),
            ("generic_filter1d", {"function": _differences, "filter_size": 3}),
        )
        for mode in GRIDS
    ],
    ("origin", lambda s, x, k: s.convolve(x, k, origin=(1, 0)), (M, KM)),
    ("gaussian_filter", lambda s, x, d: s.gaussian_filter(x, d), (M, 1.3)),
    ("gaussian_filter order", lambda s, x, d: s.gaussian_filter(x, [d, 0.8], order=(1, 2)), (M, 1.3)),
    ("gaussian_filter1d", lambda s, x, d: s.gaussian_filter1d(x, d, axis=0), (M, 0.9)),
    ("gaussian_laplace", lambda s, x: s.gaussian_laplace(x, 1.0), (M,)),
    ("gaussian_gradient_magnitude", lambda s, x: s.gaussian_gradient_magnitude(x, 1.0), (M,)),
    ("uniform_filter", lambda s, x: s.uniform_filter(x, 3), (M,)),
    ("uniform_filter1d", lambda s, x: s.uniform_filter1d(x, 2, mode="mirror"), (M,)),
    ("sobel", lambda s, x: s.sobel(x), (M,)),
    ("prewitt", lambda s, x: s.prewitt(x, axis=0), (M,)),
    ("laplace", lambda s, x: s.laplace(x), (M,)),
    ("spline_filter", lambda s, x: s.spline_filter(x), (M,)),
    ("mean", lambda s, x: s.mean(x, np.arange(30).reshape(5, 6) // 10, [0, 1, 2]), (M,)),
    *[
        (f"{name} {mode}", lambda s, x, n=name, m=mode: getattr(s, n)(x, size=(3, 2), mode=m, cval=0.5), (M,))
        for name in ("minimum_filter", "maximum_filter", "median_filter", "grey_dilation", "white_tophat")
        for mode in MODES
    ],
    ("footprint", lambda s, x: s.maximum_filter(x, footprint=CROSS, origin=(0, 1)), (M,)),
    ("rank_filter", lambda s, x: s.rank_filter(x, 2, footprint=CROSS), (M,)),
    ("percentile_filter", lambda s, x: s.percentile_filter(x, 20, size=3), (M,)),
    ("median of a row", lambda s, x: s.median_filter(x, 3), (M[0],)),
    ("structure", lambda s, x: s.grey_erosion(x, structure=np.outer(K, K)), (M,)),
    ("morphological_gradient", lambda s, x: s.morphological_gradient(x, (2, 3)), (M,)),
    ("generic_filter", lambda s, x, a: s.generic_filter(x, lambda w: np.sum(np.sin(a * w)), (2, 2)), (M, 1.1)),
    ("generic_filter1d", lambda s, x: s.generic_filter1d(x, _differences, 3), (M,)),
    ("generic_laplace", lambda s, x: s.generic_laplace(x, _second(s)), (M,)),
    ("fourier_gaussian", lambda s, x, d: s.fourier_gaussian(x, [d, 0.7]), (M * (1 + 0.3j), 1.3)),
    ("fourier_gaussian real", lambda s, x, d: s.fourier_gaussian(x, d, 11), (M, 1.3)),
    ("fourier_uniform", lambda s, x, d: s.fourier_uniform(x, d, 10, 0), (M, 2.3)),
    ("fourier_shift", lambda s, x, d: s.fourier_shift(x, [d, -0.4]), (M * (1 + 0.3j), 1.3)),
    ("center_of_mass", lambda s, x: np.stack(s.center_of_mass(x)), (M**2,)),
]


@pytest.mark.filterwarnings("ignore:promoting specified output")
@pytest.mark.parametrize(("f", "args"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_ndimage(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    expected = f(scipy.ndimage, *args)
    found, _ = functad.vjp(lambda *a: f(ndimage, *a), *args)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    plain = f(ndimage, *args)
    assert type(plain) is type(expected)
    np.testing.assert_array_equal(plain, expected)
    check_grads(lambda *a: f(ndimage, *a), list(args), order=1)


def test_savgol_filter() -> None:
    for mode in ("interp", "mirror"):
        check_grads(lambda x, mode=mode: signal.savgol_filter(x, 5, 2, mode=mode), [M.ravel()], order=1)
