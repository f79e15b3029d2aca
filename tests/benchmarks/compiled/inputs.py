"""The arguments of the programs, always the same ones. Only NumPy is imported, since the workers of all libraries read this.

An argument that is an `int` is the length of a loop: known when the program is traced, and not differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]


def without_lengths(program: Callable[..., Any], arguments: Arguments) -> tuple[Callable[..., Any], Arguments]:
    """Return a program as a new function of arrays alone, and these arrays."""
    arrays = tuple(a for a in arguments if type(a) is not int)

    def of_arrays(*given: Any) -> Any:
        rest = iter(given)
        return program(*[a if type(a) is int else next(rest) for a in arguments])

    return of_arrays, arrays


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def tanh_exp(n: int, dtype: str) -> Arguments:
    """Return `a`, `b` and `x`."""
    return np.array(1.3, dtype), np.array(0.2, dtype), _rng().normal(size=n).astype(dtype)


def pair(n: int) -> Arguments:
    """Return two short vectors."""
    return np.linspace(-1.0, 1.0, n), np.linspace(0.5, 1.5, n)


def chain(shape: tuple[int, ...], iterations: int) -> Arguments:
    """Return `x`, and how often four operations are done to it."""
    return np.linspace(-1.0, 1.5, shape[0]) if shape else np.array(0.5), iterations


def network(sizes: tuple[int, ...], batch: int) -> Arguments:
    """Return layers of weights and biases, images and labels."""
    rng = _rng()
    layers = [
        ((rng.normal(size=(m, n)) * np.sqrt(2 / m)).astype(np.float32), (0.1 * rng.normal(size=n)).astype(np.float32))
        for m, n in pairwise(sizes)
    ]
    return layers, rng.random((batch, sizes[0])).astype(np.float32), rng.integers(0, sizes[-1], batch)


def mixture(d: int, k: int, n: int) -> Arguments:
    """Return weights, means and inverse covariances of a mixture, and points."""
    rng = _rng()
    alphas = rng.normal(size=k)
    means = rng.random((k, d))
    icf = 0.5 * rng.normal(size=(k, d + d * (d - 1) // 2))
    return alphas, means, icf, rng.normal(size=(n, d))


def bundle(cameras: int, points: int, observations: int) -> Arguments:
    """Return cameras, points, weights, for each observation its camera and its point, and where the point was seen.

    A camera has 11 numbers: a rotation (3), its centre (3), the focal length, the principal point (2), the distortion (2).
    """
    rng = _rng()
    views = np.empty((cameras, 11))
    views[:, :3] = rng.uniform(-0.5, 0.5, (cameras, 3))
    views[:, 3:6] = rng.normal(size=(cameras, 3))
    views[:, 6] = rng.uniform(400, 600, cameras)
    views[:, 7:9] = rng.normal(size=(cameras, 2))
    views[:, 9:] = 0.01 * rng.normal(size=(cameras, 2))
    places = rng.normal(size=(points, 3)) + np.array([0.0, 0.0, 8.0])
    weights = rng.uniform(0.5, 1.5, observations)
    of_camera, of_point = rng.integers(0, cameras, observations), rng.integers(0, points, observations)
    return views, places, weights, of_camera, of_point, 100 * rng.normal(size=(observations, 2))


def lstm(layers: int, width: int, steps: int) -> Arguments:
    """Return the parameters of the layers, those of input and output, the first state, and a sequence."""
    rng = _rng()
    main = rng.normal(size=(2 * layers, 4 * width))
    extra = rng.normal(size=(3, width))
    state = rng.normal(size=(2 * layers, width))
    return main, extra, state, rng.random((steps + 1, width))


def gaussian_process(n: int, d: int = 4) -> Arguments:
    """Return logarithms of the length scales, of the amplitude and of the noise; places and what was measured there."""
    rng = _rng()
    places = rng.normal(size=(n, d))
    measured = np.sin(places.sum(axis=1)) + 0.1 * rng.normal(size=n)
    return 0.2 * rng.normal(size=d), np.array(0.1), np.array(-1.0), places, measured


def logistic(n: int, d: int) -> Arguments:
    """Return weights, features and labels."""
    rng = _rng()
    features = rng.normal(size=(n, d))
    labels = (features @ rng.normal(size=d) + rng.normal(size=n) > 0).astype(np.float64)
    return 0.1 * rng.normal(size=d), features, labels


def logistic_product(n: int, d: int) -> Arguments:
    """Return weights, a direction, features and labels."""
    weights, features, labels = logistic(n, d)
    return weights, np.linspace(-1.0, 1.0, d), features, labels


def lorenz(steps: int) -> Arguments:
    """Return a state, the three parameters, and the number of steps."""
    return np.array([1.0, 1.0, 20.0]), np.array(10.0), np.array(28.0), np.array(8.0 / 3.0), steps


def recurrent(steps: int, batch: int, inputs: int, hidden: int) -> Arguments:
    """Return weights by input, by state and of the output, biases, sequences `(steps, batch, inputs)` and targets."""
    rng = _rng()
    shapes = (inputs, hidden), (hidden, hidden), (hidden, 1)
    by_input, by_state, out = [(rng.normal(size=s) / np.sqrt(s[0])).astype(np.float32) for s in shapes]
    bias = (0.1 * rng.normal(size=hidden)).astype(np.float32)
    sequences = rng.normal(size=(steps, batch, inputs)).astype(np.float32)
    return by_input, by_state, bias, out, sequences, rng.normal(size=(batch, 1)).astype(np.float32)


def convolution(batch: int, side: int, kernels: int, width: int = 5) -> Arguments:
    """Return kernels, biases, weights of the last layer, images and labels."""
    rng = _rng()
    filters = (rng.normal(size=(kernels, width, width)) / width).astype(np.float32)
    bias = (0.1 * rng.normal(size=kernels)).astype(np.float32)
    last = rng.normal(size=(kernels, 10)).astype(np.float32)
    return filters, bias, last, rng.random((batch, side, side)).astype(np.float32), rng.integers(0, 10, batch)


def options(n: int) -> Arguments:
    """Return prices, strikes, interest rates, volatilities and times to maturity."""
    rng = _rng()
    return (
        rng.uniform(80, 120, n),
        rng.uniform(80, 120, n),
        rng.uniform(0.01, 0.05, n),
        rng.uniform(0.1, 0.5, n),
        rng.uniform(0.2, 2, n),
    )
