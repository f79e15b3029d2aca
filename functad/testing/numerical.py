"""Numerical derivatives, the independent reference for derivative rules.

A function here takes any number of arrays and returns a tuple of arrays. Checks compare a directional derivative instead of
the Jacobian: a wrong rule is also wrong in a random direction, and the comparison costs two evaluations.

`central_difference` and `complex_step` are for points without kinks. `measure` finds the elements that have a derivative,
and bounds its own error. A kink is detected by its scale. The two one-sided differences of a smooth function differ by the
step times its second derivative, so by twice as much for twice the step. At a kink they differ by the same amount for every
step. If a kink is near the point, or the function varies within the step, central differences depend on the step; then
smaller steps are tried. Steps of another size also reject a staircase: over many of its steps, a staircase looks like a slope.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.transforms.forward import random_like as random_numbers

Function = Callable[..., Sequence[Any]]

COMPLEX_STEP = 1e-40
"""Step of `complex_step`. It can be tiny: its square vanishes beside any number, and no subtraction loses digits."""


def bytes_of_real(value: Any) -> int:
    """Return 8 if an array, number or dtype has real numbers in double precision, else 4."""
    dtype = value if isinstance(value, np.dtype) else dtype_of(value)
    return 4 if dtype.itemsize // (2 if dtype.kind == "c" else 1) < 8 else 8


def mean_size(value: Any) -> float:
    """Return the root mean square of the finite elements, 0 without any."""
    size = np.abs(np.asarray(value))
    size = size[np.isfinite(size)]
    return float(np.sqrt(np.mean(size**2))) if size.size else 0.0


def random_like(value: Any, generator: np.random.Generator) -> Any:
    """Return normal random numbers with the shape, dtype and kind (array or scalar) of an inexact array."""
    drawn = random_numbers(value, generator)
    return np.asarray(drawn) if isinstance(value, np.ndarray) else drawn


def pairing(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return `Re(sum a b)` over pairs of arrays, without conjugation; a pullback preserves this pairing."""
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
    return [_slopes(row, step)[2] for row in zip(*_neighbours(function, primals, direction, step), strict=True)]


def _neighbours(function: Function, primals: Sequence[Any], direction: Sequence[Any], step: float) -> list[Sequence[Any]]:
    """Return the results at one and two steps ahead and behind."""
    points = [[x + multiple * step * v for x, v in zip(primals, direction, strict=True)] for multiple in (1, -1, 2, -2)]
    return [function(*point) for point in points]


def _slopes(row: Sequence[Any], step: float) -> tuple[Any, Any, Any]:
    """Return the central differences over one and over two steps, and their combination of fourth order."""
    ahead, behind, far_ahead, far_behind = row
    near, far = (ahead - behind) / (2 * step), (far_ahead - far_behind) / (4 * step)
    return near, far, (4 * near - far) / 3


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


STEPS = {8: (2.0**-13, 2.0**-19, 2.0**-25), 4: (2.0**-6, 2.0**-8, 2.0**-10)}
"""Finite-difference steps to try, by the bytes of a real number of the result."""

TRUSTED = {8: 1e-5, 4: 2e-2}
"""Largest uncertainty of a usable difference, relative to the derivatives of the same result."""

NEGLIGIBLE = {8: 1e-9, 4: 1e-5}
"""Uncertainty that is always accepted, for derivatives that are zero."""


@dataclass(frozen=True)
class Measured:
    """The derivative of one result in one direction.

    Attributes:
        derivative: one value per element.
        uncertainty: a bound on the error of `derivative`, per element.
        smooth: a mask of the elements with a reliable derivative.
    """

    derivative: Any
    uncertainty: Any
    smooth: Any

    def allowed(self, atol: float, rtol: float) -> Any:
        """Return the largest accepted error per element; `rtol` is relative to the largest derivative."""
        return atol + rtol * float(np.max(np.abs(self.derivative), initial=0.0, where=self.smooth)) + self.uncertainty


def paired(gs: Sequence[Any], measured: Sequence[Measured]) -> tuple[float, float, float]:
    """Return the sum of `g * derivative` over smooth elements, the sum of its absolute terms and the sum of uncertainties."""
    terms = [np.multiply(g, np.where(m.smooth, m.derivative, 0)) for g, m in zip(gs, measured, strict=True)]
    doubts = [np.abs(g) * np.where(m.smooth, m.uncertainty, 0) for g, m in zip(gs, measured, strict=True)]
    expected, size, doubt = (
        math.fsum(float(np.sum(part).real) for part in parts) for parts in (terms, [np.abs(term) for term in terms], doubts)
    )
    return expected, size, doubt


def measure(
    function: Function, primals: Sequence[Any], direction: Sequence[Any], *, real_bytes: int = 8, twice: bool = False
) -> list[Measured]:
    """Return the derivative of each result of a function in a direction.

    Args:
        function: takes arrays, returns a sequence of inexact arrays.
        primals: the point, in double precision.
        direction: one array per primal, with elements of size 1.
        twice: accept an element only if steps of two sizes agree and no third step contradicts them.
        real_bytes: bytes of the real numbers that `function` computes with, if it rounds intermediate results: 8 or 4.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        here = [np.asarray(y) for y in function(*primals)]
        real_bytes = min([real_bytes, *map(bytes_of_real, here)])
        steps = STEPS[real_bytes]
        first = 2 if twice else 1
        best = [_differences(function, primals, direction, here, step, real_bytes) for step in steps[:first]]
        for step in steps[first:]:
            if all(bool(np.all(m.smooth)) for column in best[-first:] for m in column):
                break
            best.append(_differences(function, primals, direction, here, step, real_bytes))
        found = [_best(column, twice) for column in zip(*best, strict=True)]
        return found if real_bytes == 4 else _sharpened(function, primals, direction, found)


def _differences(
    function: Function, primals: Sequence[Any], direction: Sequence[Any], here: Sequence[Any], step: float, real_bytes: int
) -> list[Measured]:
    rows = zip(*_neighbours(function, primals, direction, step), here, strict=True)
    return [_measured([np.asarray(value) for value in row], step, real_bytes) for row in rows]


def _measured(row: Sequence[Any], step: float, real_bytes: int) -> Measured:
    """Return the derivative of one result from its values at four neighbours and at the point itself."""
    ahead, behind, far_ahead, far_behind, here = row
    if not ahead.shape == behind.shape == far_ahead.shape == far_behind.shape == here.shape:
        never = np.zeros(here.shape, bool)  # for example a mask that selects other elements nearby
        return Measured(np.zeros(here.shape), np.full(here.shape, np.inf), never)
    precision = float(np.finfo(np.float32 if real_bytes == 4 else np.float64).eps)
    near, far, derivative = _slopes(row[:4], step)
    known = np.isfinite(derivative)
    noise = 8 * precision * float(np.max(np.abs(here), initial=0.0, where=np.isfinite(here))) / step
    uncertainty = np.where(known, np.abs(near - far) + noise, np.inf)
    bend = np.abs(ahead - 2 * here + behind) / step
    far_bend = np.abs(far_ahead - 2 * here + far_behind) / (2 * step)
    size = np.where(known, np.abs(derivative), 0.0)
    typical = float(np.median(size)) if size.size else 0.0
    kinked = (bend > 8 * noise + 1e-9 * size) & (far_bend < 1.5 * bend)
    allowed = TRUSTED[real_bytes] * (size + typical) + 2 * noise + NEGLIGIBLE[real_bytes]
    return Measured(derivative, uncertainty, known & ~kinked & (uncertainty <= allowed))


def _best(tries: Sequence[Measured], twice: bool) -> Measured:
    """Return the most certain measurement per element; with `twice`, accept an element only if two agree and none differs."""
    best, agree, disagree = tries[0], *np.zeros((2, *tries[0].smooth.shape), bool)
    for other in tries[1:]:
        apart = np.abs(other.derivative - best.derivative) > best.uncertainty + other.uncertainty
        agree |= best.smooth & other.smooth & ~apart
        disagree |= best.smooth & other.smooth & apart
        better = (other.smooth & ~best.smooth) | (other.smooth & (other.uncertainty < best.uncertainty))
        best = Measured(
            np.where(better, other.derivative, best.derivative),
            np.where(better, other.uncertainty, best.uncertainty),
            best.smooth | other.smooth,
        )
    return replace(best, smooth=agree & ~disagree if twice else best.smooth)


def _sharpened(function: Function, primals: Sequence[Any], direction: Sequence[Any], found: list[Measured]) -> list[Measured]:
    """Replace differences by complex-step derivatives, which only have rounding error, where the two agree."""
    sharper = complex_step(function, primals, direction)
    if sharper is None or len(sharper) != len(found):
        return found
    result = []
    for rough, sharp in zip(found, sharper, strict=True):
        if shape_of(sharp) != rough.derivative.shape or rough.derivative.dtype != np.float64:
            result.append(rough)
            continue
        size = float(np.max(np.abs(rough.derivative), initial=0.0, where=rough.smooth))
        confirmed = rough.smooth & (np.abs(sharp - rough.derivative) <= rough.uncertainty + 1e-9 * size)
        uncertainty = np.where(confirmed, 1e-13 * size, rough.uncertainty)
        result.append(Measured(np.where(confirmed, sharp, rough.derivative), uncertainty, rough.smooth))
    return result


DIFFERENCE_TOLERANCE = 1e-8
"""For central differences of float64 numbers of size 1. Their error is near 1e-11; the margin is for large derivatives."""

EXACT_TOLERANCE = 1e-12
"""For two exact computations of the same float64 values, without finite differences."""


def agree(found: Any, expected: Any, tolerance: float, what: str, *, typed: bool = True) -> None:
    """Raise `AssertionError`, which names `what`, if two arrays differ in shape, in dtype (if `typed`) or in value.

    The tolerance is the largest accepted `error`.
    """
    a, b = (f"{dtype_of(value) if typed else ''}{shape_of(value)}" for value in (found, expected))
    assert a == b, f"{what} is {a}, not {b}"
    wrong = error(found, expected)
    assert wrong <= tolerance, f"{what} is off by {wrong:.1e} (allowed {tolerance:.0e}):\n{found}\nand not\n{expected}"


def error(found: Any, expected: Any) -> float:
    """Return the largest difference of two arrays, divided by the largest finite number of `expected` if it is above 1.

    NaN and unequal infinities give infinity.
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
