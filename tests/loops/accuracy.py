"""How exact the elementary functions of the llvm backend are: `python -m tests.loops.accuracy` writes the table.

Each function is compared with mpmath at random arguments: spread over its interesting range, over all exponents, and at the
edges. The error is counted in units in the last place of the exact result.
"""

import argparse
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf

from functad.backends.llvm.ufunc import compile_ufunc

PAGE = Path(__file__).parents[2] / "notebooks" / "elementary.md"
DIGITS = 40


def log_gamma(x: mpf) -> mpf:
    return mpmath.log(abs(mpmath.gamma(x))) if x < 0 else mpmath.loggamma(x)


def logaddexp(a: mpf, b: mpf) -> mpf:
    top = max(a, b)
    return top + mpmath.log1p(mpmath.exp(-abs(a - b)))


def logaddexp2(a: mpf, b: mpf) -> mpf:
    top = max(a, b)
    return top + mpmath.log1p(mpf(2) ** -abs(a - b)) / mpmath.log(2)


def floored(x: mpf, y: mpf) -> mpf:
    with mp.workprec(2300):
        return mpmath.floor(x / y)


def remainder(x: mpf, y: mpf) -> mpf:
    with mp.workprec(2300):
        return x - y * mpmath.floor(x / y)


def truncated(x: mpf, y: mpf) -> mpf:
    with mp.workprec(2300):
        rest = abs(x) - abs(y) * mpmath.floor(abs(x) / abs(y))
        return rest if x > 0 else -rest


def signed_cbrt(x: mpf) -> mpf:
    return mpmath.cbrt(x) if x >= 0 else -mpmath.cbrt(-x)


class Case(NamedTuple):
    """What a function is compared with, and where: intervals of its arguments, each of which is drawn from uniformly."""

    exact: Callable[..., mpf]
    ranges: tuple[tuple[float, float], ...]
    second: tuple[tuple[float, float], ...] = ()
    low: float = -math.inf
    high: float = math.inf


ALL = ((-1.0, 1.0), (-10.0, 10.0), (-100.0, 100.0))
POSITIVE = ((0.5, 2.0), (0.0, 10.0), (0.9999, 1.0001), (0.0, 1e5))

CASES = {
    "exp": Case(mpmath.exp, (*ALL, (-746.0, 710.0), (-104.0, 89.0))),
    "exp2": Case(lambda x: mpf(2) ** x, (*ALL, (-1076.0, 1024.5), (-150.0, 129.0))),
    "expm1": Case(mpmath.expm1, (*ALL, (-40.0, 710.0), (-0.01, 0.01), (-20.0, 89.0))),
    "log": Case(mpmath.log, POSITIVE, low=0.0),
    "log2": Case(lambda x: mpmath.log(x) / mpmath.log(2), POSITIVE, low=0.0),
    "log10": Case(mpmath.log10, POSITIVE, low=0.0),
    "log1p": Case(mpmath.log1p, ((-1.0, 1.0), (-0.01, 0.01), (-0.5, 10.0), (0.0, 1e5)), low=-1.0),
    "sin": Case(mpmath.sin, (*ALL, (-1e5, 1e5))),
    "cos": Case(mpmath.cos, (*ALL, (-1e5, 1e5))),
    "tan": Case(mpmath.tan, (*ALL, (-1e5, 1e5))),
    "arcsin": Case(mpmath.asin, ((-1.0, 1.0), (0.99, 1.0), (-0.55, 0.55)), low=-1.0, high=1.0),
    "arccos": Case(mpmath.acos, ((-1.0, 1.0), (0.99, 1.0), (-0.55, 0.55), (-1.0, -0.99)), low=-1.0, high=1.0),
    "arctan": Case(mpmath.atan, (*ALL, (0.3, 3.0))),
    "sinh": Case(mpmath.sinh, (*ALL, (-711.0, 711.0), (-90.0, 90.0))),
    "cosh": Case(mpmath.cosh, (*ALL, (-711.0, 711.0), (-90.0, 90.0))),
    "tanh": Case(mpmath.tanh, (*ALL, (-25.0, 25.0), (0.1, 1.0))),
    "arcsinh": Case(mpmath.asinh, (*ALL, (0.1, 3.0))),
    "arccosh": Case(mpmath.acosh, ((1.0, 1.01), (1.0, 10.0), (1.0, 1e4)), low=1.0),
    "arctanh": Case(mpmath.atanh, ((-1.0, 1.0), (0.9, 1.0), (-0.1, 0.1)), low=-1.0, high=1.0),
    "erf": Case(lambda x: mpmath.erf(max(-30, min(x, 30))), ((-1.0, 1.0), (-6.5, 6.5), (0.4, 0.6))),
    "erfc": Case(lambda x: mpmath.erfc(max(-30, min(x, 1000))), ((-1.0, 1.0), (-7.0, 28.0), (0.4, 0.6), (0.5, 10.0))),
    "gammaln": Case(log_gamma, ((0.0, 5.0), (0.5, 1.5), (1.5, 2.5), (4.0, 5.0), (0.0, 200.0)), low=0.0),
    "digamma": Case(mpmath.digamma, ((0.0, 5.0), (1.4, 1.5), (1.0, 2.0), (0.0, 200.0)), low=0.0),
    "expit": Case(lambda x: 1 / (1 + mpmath.exp(-x)), (*ALL, (-746.0, 40.0))),
    "log_expit": Case(lambda x: -mpmath.log1p(mpmath.exp(-x)), (*ALL, (-40.0, 746.0))),
    "cbrt": Case(signed_cbrt, (*ALL, (1.0, 8.0))),
    "sqrt": Case(mpmath.sqrt, POSITIVE, low=0.0),
    "power": Case(mpmath.power, ((0.0, 2.0), (0.0, 20.0), (0.99, 1.01)), ((-5.0, 5.0), (-300.0, 300.0), (-9e3, 9e3)), low=0.0),
    "arctan2": Case(mpmath.atan2, ALL, ALL),
    "hypot": Case(mpmath.hypot, ALL, ALL),
    # Where the sum is about 1 its logarithm cancels; the error of 0.7 is left of it, as in NumPy.
    "logaddexp": Case(logaddexp, ((0.0, 10.0), (0.0, 700.0)), ((0.0, 10.0), (0.0, 700.0)), low=0.0),
    "logaddexp2": Case(logaddexp2, ((0.0, 10.0), (0.0, 1000.0)), ((0.0, 10.0), (0.0, 1000.0)), low=0.0),
    "fmod": Case(truncated, (*ALL, (-1e5, 1e5)), ((-3.0, 3.0), (0.1, 1000.0))),
    "remainder": Case(remainder, (*ALL, (-1e5, 1e5)), ((-3.0, 3.0), (0.1, 1000.0))),
    "floor_divide": Case(floored, (*ALL, (-1e5, 1e5)), ((-3.0, 3.0), (0.1, 1000.0))),
}


def arguments(name: str, dtype: str, count: int) -> list[np.ndarray]:
    """Draw arguments: the ranges, all exponents, and the neighbours of the edges."""
    case = CASES[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype}".encode()))
    drawn = [_drawn(rng, case.ranges, dtype, count, case.low, case.high)]
    if case.second:
        low = 0.0 if name.startswith("logadd") else -math.inf
        drawn.append(rng.permutation(_drawn(rng, case.second, dtype, count, low, math.inf)))
    return drawn


def _drawn(rng, ranges, dtype: str, count: int, low: float, high: float) -> np.ndarray:
    info = np.finfo(dtype)
    parts = [rng.uniform(*limits, count // (2 * len(ranges))) for limits in ranges]
    edges = np.array([limit for limits in ranges for limit in limits] + [0.5, 1.0, 2.0, math.pi, math.pi / 2], dtype)
    edges = np.concatenate([edges, np.nextafter(edges, np.asarray(9e9, dtype)), -edges])
    rest = count - sum(map(len, parts)) - len(edges)
    exponents = rng.uniform(info.minexp - info.nmant, info.maxexp - 0.01, max(rest, 0))
    spread = (2.0**exponents * rng.choice([-1, 1], len(exponents))).astype(dtype)
    values = np.concatenate([*parts, edges, spread])[:count].astype(dtype)
    values = np.where(values < low, -values, values)
    return np.where((values < low) | (values > high) | (values == 0), np.asarray(ranges[0][1], dtype), values)


def errors(name: str, results: np.ndarray, given: list[np.ndarray]) -> np.ndarray:
    """Return the distance from the exact results in units in the last place."""
    mp.dps = DIGITS
    info = np.finfo(results.dtype)
    largest = mpf(float(info.max))
    found = []
    for got, *xs in zip(results.tolist(), *[x.tolist() for x in given], strict=True):
        exact = CASES[name].exact(*map(mpf, xs))
        if not mpmath.isfinite(exact):
            found.append(0.0 if got == float(exact) else math.inf)
            continue
        # Beyond the largest number by half a unit the right answer is infinity.
        exponent = max(int(mpmath.mag(exact)) - 1 if exact else info.minexp, int(info.minexp))
        unit = mpf(2) ** min(exponent - info.nmant, int(info.maxexp) - 1 - info.nmant)
        if math.isinf(got):
            got = float("inf") if got > 0 else float("-inf")
            bound = (largest + unit / 2) * (1 if got > 0 else -1)
            missing = bound - exact if got > 0 else exact - bound
            found.append(max(0.0, float(missing / unit)))
        elif abs(exact) > largest:
            found.append(float((min(abs(exact), largest + unit) - abs(mpf(got))) / unit) if got == got else math.inf)
        else:
            found.append(float(abs(mpf(got) - exact) / unit) if got == got else math.inf)
    return np.array(found)


def worst(name: str, dtype: str, count: int, compiled=None) -> tuple[float, tuple[float, ...]]:
    """Return the largest error of a function, and where it is."""
    given = arguments(name, dtype, count)
    results = (compiled or compile_ufunc(name, dtype))(*given)
    found = errors(name, results, given)
    at = int(np.argmax(found))
    return float(found[at]), tuple(float(x[at]) for x in given)


def table(count: int, names: list[str]) -> str:
    """Return the rows of the table of errors."""
    rows = []
    for name in names:
        found = [f"{worst(name, dtype, count)[0]:.2f}" for dtype in ("float64", "float32")]
        rows.append(f"| `{name}` | {found[0]} | {found[1]} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def main() -> None:
    """Measure all functions and write the page, or print what is found of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=20000)
    options = parser.parse_args()
    rows = table(options.count, options.names or list(CASES))
    if not options.names:
        before, start, rest = PAGE.read_text().partition("| --- | --- | --- |\n")
        _, end, after = rest.partition("\n\n")
        PAGE.write_text(before + start + rows + end + after)


if __name__ == "__main__":
    main()
