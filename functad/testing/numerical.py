"""Numerical derivatives, the independent reference for derivative rules.

A function here takes any number of arrays and returns a tuple of arrays. Checks compare a directional derivative instead of
the Jacobian: a wrong rule is also wrong in a random direction, and the comparison costs two evaluations.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.transforms.walks.forward import random_like as random_numbers

Function = Callable[..., Sequence[Any]]

COMPLEX_STEP = 1e-40
"""Step of `complex_step`. It can be tiny: its square vanishes beside any number, and no subtraction loses digits."""


def random_like(value: Any, generator: np.random.Generator) -> Any:
    """Return normal random numbers with the shape, dtype and kind (array or scalar) of an array.

    Args:
        value: an inexact array or NumPy scalar.
        generator: the source of randomness.

    Example:
        >>> random_like(np.zeros(3, np.float32), np.random.default_rng(0)).dtype
        dtype('float32')
    """
    drawn = random_numbers(value, generator)
    return np.asarray(drawn) if isinstance(value, np.ndarray) else drawn


def pairing(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return `Re(sum a b)` over pairs of arrays, without conjugation; a pullback preserves this pairing.

    Example:
        >>> pairing([np.array([1.0, 2.0])], [np.array([3.0, 4.0])])
        11.0
    """
    return math.fsum(float(np.sum(np.multiply(a, b)).real) for a, b in zip(left, right, strict=True))


def central_difference(
    function: Function, primals: Sequence[Any], direction: Sequence[Any], step: float | None = None
) -> list[Any]:
    """Return the directional derivative of `function` at `primals` by central differences of fourth order.

    With `D(h) = (f(x + h v) - f(x - h v)) / (2 h)` the result is `(4 D(h) - D(2 h)) / 3`. Its error is `h^4` times a fifth
    derivative. The step is 2^-14 for float64: small beside the distance to the next kink, with a rounding error near 1e-11.
    Differences of differences need a longer step, because the division by the step amplifies rounding once more.

    Args:
        function: takes arrays, returns a sequence of arrays.
        primals: the point; float64 or complex128.
        direction: one array per primal.
        step: h. Default: depends on the precision of the primals.

    Returns:
        One array per result.

    Example:
        >>> central_difference(lambda x: [x**2], [np.float64(3.0)], [np.float64(1.0)])[0].round(6)
        np.float64(6.0)
    """
    if step is None:
        precision = max((float(np.finfo(dtype_of(x)).eps) for x in primals), default=float(np.finfo(float).eps))
        step = 2.0 ** round(0.27 * math.log2(precision))  # a power of two: adding it to a number of size 1 is exact
    near, far = (_difference(function, primals, direction, h) for h in (step, 2 * step))
    return [(4 * a - b) / 3 for a, b in zip(near, far, strict=True)]


def _difference(function: Function, primals: Sequence[Any], direction: Sequence[Any], step: float) -> list[Any]:
    ahead = function(*[x + step * v for x, v in zip(primals, direction, strict=True)])
    behind = function(*[x - step * v for x, v in zip(primals, direction, strict=True)])
    return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]


def numerical_jacobian(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the Jacobian of a function of one real array by central differences: `J[..., j] = d f(x) / d x[j]`.

    Args:
        function: takes and returns an array or a number.
        x: the point.

    Returns:
        An array of shape `value.shape + x.shape`.

    Example:
        >>> numerical_jacobian(lambda x: x[0] * x, np.array([2.0, 3.0])).round(6)
        array([[4., 0.],
               [3., 2.]])
    """
    x = np.asarray(x, np.float64)
    directions = np.eye(x.size).reshape(x.size, *x.shape)
    columns = [central_difference(lambda y: [function(y)], [x[()]], [v[()]])[0] for v in directions]
    return np.stack(columns, -1).reshape((*np.shape(columns[0]), *x.shape))[()]


def complex_step(function: Function, primals: Sequence[Any], direction: Sequence[Any]) -> list[Any] | None:
    """Return `Im f(x + i h v) / h`, exact to rounding if a real function has an analytic continuation.

    Args:
        function: takes arrays, returns a sequence of arrays.
        primals: the point: arrays of any shapes, float64 or complex128.
        direction: one array per primal.

    Returns:
        One array per result, or `None` if the primals are complex or `function` does not accept complex arrays. The result
        is wrong if `function` does not continue analytically, so compare it with `central_difference`.

    Example:
        >>> complex_step(lambda x: [np.exp(x)], [np.float64(0.0)], [np.float64(1.0)])
        [np.float64(1.0)]
    """
    if any(dtype_of(x).kind == "c" for x in primals):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            out = function(*[x + 1j * (COMPLEX_STEP * v) for x, v in zip(primals, direction, strict=True)])
    except (TypeError, ValueError, SystemError, np.exceptions.ComplexWarning):  # SciPy's brentq raises SystemError
        return None
    return [np.imag(y) / COMPLEX_STEP for y in out]


def directional_derivative(
    function: Function, primals: Sequence[Any], direction: Sequence[Any]
) -> tuple[list[Any], list[float]]:
    """Return the directional derivative of each result, with its tolerance.

    A complex-step derivative replaces central differences where the two agree.

    Args:
        function: takes arrays, returns a sequence of arrays.
        primals: the point: arrays of any shapes, float64 or complex128.
        direction: one array per primal.

    Returns:
        The derivatives, and a relative tolerance for each of them.

    Example:
        >>> directional_derivative(lambda x: [np.sin(x)], [np.float64(0.0)], [np.float64(1.0)])
        ([np.float64(1.0)], [1e-12])
    """
    differences = central_difference(function, primals, direction)
    sharper = complex_step(function, primals, direction)
    if sharper is None or len(sharper) != len(differences):
        return differences, [DIFFERENCE_TOLERANCE] * len(differences)
    derivatives, tolerances = [], []
    for rough, sharp in zip(differences, sharper, strict=True):
        confirmed = shape_of(rough) == shape_of(sharp) and error(sharp, rough) <= DIFFERENCE_TOLERANCE
        derivatives.append(sharp if confirmed else rough)
        tolerances.append(EXACT_TOLERANCE if confirmed else DIFFERENCE_TOLERANCE)
    return derivatives, tolerances


DIFFERENCE_TOLERANCE = 1e-8
"""For central differences of float64 numbers of size 1. Their error is near 1e-11; the margin is for large derivatives."""

EXACT_TOLERANCE = 1e-12
"""For two exact computations of the same float64 values, without finite differences."""


def agree(found: Any, expected: Any, tolerance: float, what: str, *, typed: bool = True) -> None:
    """Compare two arrays by shape, value and optionally dtype.

    Args:
        found: an array or a number.
        expected: the reference.
        tolerance: the largest accepted `error`.
        what: the name of the quantity and of its call, for the message.
        typed: also compare dtypes.

    Raises:
        AssertionError: the arrays differ in shape, in dtype, or by more than the tolerance.
    """
    a, b = (f"{dtype_of(value) if typed else ''}{shape_of(value)}" for value in (found, expected))
    assert a == b, f"{what} is {a}, not {b}"
    wrong = error(found, expected)
    assert wrong <= tolerance, f"{what} is off by {wrong:.1e} (allowed {tolerance:.0e}):\n{found}\nand not\n{expected}"


def error(found: Any, expected: Any) -> float:
    """Return the largest difference of two arrays, divided by the largest finite number of `expected` if it is above 1.

    NaN and unequal infinities give infinity.

    Example:
        >>> error(np.array([1.0, 200.0]), np.array([1.0, 202.0])) < 0.01
        True
    """
    found, expected = np.asarray(found), np.asarray(expected)
    if found.size == 0:
        return 0.0
    if expected.dtype.kind not in "fc":
        return 0.0 if np.array_equal(found, expected) else math.inf
    with np.errstate(all="ignore"):
        difference = np.where(found == expected, 0, np.abs(found - expected))
    if np.isnan(difference).any():
        return math.inf
    finite = np.abs(expected[np.isfinite(expected)])
    return float(difference.max()) / max(1.0, float(finite.max(initial=0.0)))
