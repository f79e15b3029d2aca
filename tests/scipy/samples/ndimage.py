"""Samples of `scipy.ndimage`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 5))
K = rng.normal(size=(2, 3))
Z = X * (1 + 0.5j)
MARKS = (X > 0).astype(int)
LABELS = np.arange(20).reshape(4, 5) // 7
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
PLACES = rng.uniform(0.2, 2.8, (2, 6))
SUMS = "mean sum sum_labels variance standard_deviation median minimum maximum"
FIRST = [1.0, 0.0, -1.0]


SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: [call(X, K), call(X, K, mode="wrap", origin=(0, 1))] for name in ("convolve", "correlate")},
    **{name: call(X, K[0], axis=0, mode="mirror") for name in ("convolve1d", "correlate1d")},
    **{
        name: [call(X, 1.3), call(X, 0.8, mode="constant", cval=0.2)]
        for name in ("gaussian_filter", "gaussian_gradient_magnitude")
    },
    "gaussian_filter1d": call(X, 0.9, order=1),
    "gaussian_laplace": call(X, 1.1),
    **{name: call(X) for name in ("laplace", "prewitt", "sobel")},
    "uniform_filter": call(X, size=(2, 3)),
    "uniform_filter1d": call(X, size=3, axis=0),
    **{name: [call(X, size=3), call(X, footprint=CROSS)] for name in ("minimum_filter", "maximum_filter", "median_filter")},
    **{name: call(X, size=3, mode="nearest") for name in ("minimum_filter1d", "maximum_filter1d")},
    "rank_filter": call(X, rank=1, size=(2, 3)),
    "percentile_filter": call(X, percentile=30, size=3),
    **{name: [call(X, size=3), call(X, footprint=CROSS)] for name in ("grey_erosion", "grey_dilation")},
    **{
        name: call(X, size=(2, 3))
        for name in [
            "grey_opening",
            "grey_closing",
            "white_tophat",
            "black_tophat",
            "morphological_gradient",
            "morphological_laplace",
        ]
    },
    "generic_filter": call(X, function=lambda w: np.sum(w * w), size=2),
    "generic_filter1d": use(lambda f, x: f(x, _into, 3), X),
    "generic_laplace": use(lambda f, x: f(x, _slope), X),
    "generic_gradient_magnitude": use(lambda f, x: f(x, _slope), X),
    "vectorized_filter": use(lambda f, x: f(x, np.mean, size=3), X),
    "map_coordinates": [call(X, PLACES), call(X, PLACES, order=1, mode="mirror"), call(Z, PLACES)],
    "affine_transform": [call(X, np.array([[0.9, 0.2], [-0.3, 1.1]]), np.array([0.4, 0.3])), call(X, np.array([0.9, 0.8]))],
    "shift": call(X, np.array([0.3, -0.4]), mode="nearest"),
    "zoom": [call(X, zoom=1.7), call(X, zoom=(0.7, 2), grid_mode=True, mode="grid-wrap")],
    "rotate": [call(X, 33.0), call(X, 20.0, reshape=False, order=1)],
    "geometric_transform": use(lambda f, x, a: f(x, lambda p: (p[0] * a - 0.3, p[1] * 0.9), mode="reflect"), X, 0.9),
    "spline_filter": call(X, order=4),
    "spline_filter1d": call(X, order=3, axis=0, mode="reflect"),
    "fourier_gaussian": [call(Z, 1.3), call(X, 0.8, n=9)],
    "fourier_uniform": call(Z, 2.3),
    "fourier_shift": call(Z, 1.3),
    "fourier_ellipsoid": call(Z, 2.3),
    **{name: use(lambda f, x: f(x, LABELS, [0, 1, 2]), X) for name in SUMS.split()},
    "center_of_mass": use(lambda f, x: f(x**2), X),
    "extrema": use(lambda f, x: f(x, LABELS, [0, 1]), X),
    **{name: use(lambda f, x: f(x, LABELS, [0, 1, 2]), X) for name in ("minimum_position", "maximum_position")},
    "histogram": use(lambda f, x: f(x, -2, 2, 4), X),
    "labeled_comprehension": use(lambda f, x: f(x, LABELS, [0, 1, 2], np.mean, float, 0), X),
    **{
        name: use(lambda f: f(MARKS))
        for name in [
            "binary_closing",
            "binary_dilation",
            "binary_erosion",
            "binary_fill_holes",
            "binary_hit_or_miss",
            "binary_opening",
            "distance_transform_bf",
            "distance_transform_cdt",
            "distance_transform_edt",
        ]
    },
    "binary_propagation": use(lambda f: f(MARKS, mask=MARKS)),
    "label": use(lambda f: f(MARKS)),
    "find_objects": use(lambda f: [part for s in f(LABELS) for piece in s for part in (piece.start, piece.stop)]),
    "value_indices": use(lambda f: f(LABELS)[1]),
    "watershed_ift": use(lambda f: f(MARKS.astype(np.uint8), LABELS)),
    "generate_binary_structure": use(lambda f: f(2, 1)),
    "iterate_structure": use(lambda f: f(CROSS, 2)),
}


def _into(line: np.ndarray, out: np.ndarray) -> None:
    out[:] = line[2:] * line[:-2]


def _slope(x: np.ndarray, axis: int, output: object, mode: str, cval: float) -> np.ndarray:
    return np.roll(x, 1, axis) - x * x
