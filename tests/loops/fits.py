"""Minimax polynomials of the elementary functions: `python -m tests.loops.fits` writes `coefficients.py`.

Each is found by Remez' exchange (Cheney, Introduction to Approximation Theory, chapter 3) in 50 digits, with the least degree
whose weighted error is below the bound that is asked for, once for float64 (`wide`) and once for float32 (`short`).
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import mpmath
from mpmath import mp, mpf

WRITTEN = Path(__file__).parents[2] / "functad" / "backends" / "llvm" / "coefficients.py"


class Fit(NamedTuple):
    """What is approximated: a function on an interval, the weight of its error, and the bounds of that, as powers of two.

    `floor` is the least weight as a part of the largest.
    """

    function: Callable[[mpf], mpf]
    low: mpf
    high: mpf
    weight: Callable[[mpf], mpf]
    wide: int
    short: int | None
    says: str
    floor: float = 1e-4


def series(function: Callable[[mpf], mpf], known: Callable[[mpf], mpf], power: int) -> Callable[[mpf], mpf]:
    """Give `(function(z) - known(z)) / z**power`, computed with enough digits to survive the cancellation near 0."""

    def tail(z: mpf) -> mpf:
        with mp.workdps(150):
            z = mpf(z) if abs(z) > mpf(10) ** -20 else mpf(10) ** -20
            return (function(z) - known(z)) / z**power

    return tail


def erfc_scaled(q: mpf) -> mpf:
    """`(1 + 2 x) exp(x^2) erfc(x) - 19/16` by `q = (x - 4) / (x + 4)`."""
    with mp.workdps(80):
        q = mpf(q)
        if q > mpf(1) - mpf(10) ** -9:
            return 2 / mpmath.sqrt(mpmath.pi) - mpf(19) / 16
        x = 4 * (1 + q) / (1 - q)
        scaled = mpmath.erfc(x) * mpmath.exp(x * x) if x < 40 else asymptotic_erfcx(x)
        return (1 + 2 * x) * scaled - mpf(19) / 16


def asymptotic_erfcx(x: mpf) -> mpf:
    """`exp(x^2) erfc(x)` for large x (DLMF 7.12.1)."""
    term, total = mpf(1), mpf(1)
    for m in range(1, 60):
        term *= -(2 * m - 1) / (2 * x * x)
        total += term
    return total / (x * mpmath.sqrt(mpmath.pi))


def stirling(w: mpf) -> mpf:
    """The remainder of Stirling's series times x, by `w = 1 / x^2`."""
    if w < mpf(10) ** -12:
        return mpf(1) / 12 - w / 360
    with mp.workdps(80):
        x = 1 / mpmath.sqrt(w)
        return x * (mpmath.loggamma(x) - (x - 0.5) * mpmath.log(x) + x - mpmath.log(2 * mpmath.pi) / 2)


def digamma_remainder(w: mpf) -> mpf:
    """`(log(x) - 1 / (2 x) - digamma(x)) x^2` by `w = 1 / x^2`."""
    if w < mpf(10) ** -12:
        return mpf(1) / 12 - w / 120
    with mp.workdps(80):
        x = 1 / mpmath.sqrt(w)
        return (mpmath.log(x) - 1 / (2 * x) - mpmath.digamma(x)) * x * x


def digamma_slope(u: mpf) -> mpf:
    """`digamma(3/2 + u) / (3/2 + u - x0)`, x0 being where it vanishes, where it is above 0."""
    with mp.workdps(80):
        x0 = mpmath.findroot(mpmath.digamma, mpf("1.4616321449683623"))
        x = mpf("1.5") + u
        return mpmath.digamma(x) / (x - x0) if abs(x - x0) > mpf(10) ** -20 else mpmath.psi(1, x0)


def root(z: mpf) -> mpf:
    """The square root, which turns what is given by `z = x^2` into a function of x."""
    return mpmath.sqrt(z)


HALF_LOG2 = mpf("0.34658")
QUARTER_PI = mpf("0.787")

FITS = {
    "EXP": Fit(
        series(mpmath.exp, lambda r: 1 + r, 2), -HALF_LOG2, HALF_LOG2, abs, -57, -28,
        "(exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2"
    ),
    "LOG": Fit(
        series(lambda z: 2 * mpmath.atanh(root(z)) / root(z), lambda z: 2, 1), mpf(0), mpf("0.02946"),
        lambda z: z / 2, -57, -28,
        "(2 atanh(s) / s - 2) / z, z = s^2, for s = (m - 1) / (m + 1), 1/2 <= m^2 <= 2",
    ),
    "LOG_PAIR": Fit(
        series(lambda z: mpmath.atanh(root(z)) / root(z), lambda z: 1 + z / 3, 2), mpf(0), mpf("0.02946"),
        lambda z: z * z, -68, None,
        "(atanh(s) / s - 1 - z / 3) / z^2, likewise",
    ),
    "SIN": Fit(
        series(lambda z: mpmath.sin(root(z)) / root(z), lambda z: 1, 1), mpf(0), QUARTER_PI**2, lambda z: z, -57, -28,
        "(sin(r) / r - 1) / z, z = r^2, for |r| <= pi / 4",
    ),
    "COS": Fit(
        series(lambda z: mpmath.cos(root(z)), lambda z: 1 - z / 2, 2), mpf(0), QUARTER_PI**2, lambda z: z * z, -57, -28,
        "(cos(r) - 1 + z / 2) / z^2, likewise",
    ),
    "SINH": Fit(
        series(lambda z: mpmath.sinh(root(z)) / root(z), lambda z: 1, 1), mpf(0), HALF_LOG2**2, lambda z: z, -57, -28,
        "(sinh(r) / r - 1) / z, z = r^2, for |r| <= log(2) / 2",
    ),
    "COSH": Fit(
        series(lambda z: mpmath.cosh(root(z)), lambda z: 1 + z / 2, 2), mpf(0), HALF_LOG2**2, lambda z: z * z, -57, -28,
        "(cosh(r) - 1 - z / 2) / z^2, likewise",
    ),
    "ARCSIN": Fit(
        series(lambda z: mpmath.asin(root(z)) / root(z), lambda z: 1, 1), mpf(0), mpf("0.2501"), lambda z: z, -57, -28,
        "(arcsin(x) / x - 1) / z, z = x^2, for |x| <= 1/2",
    ),
    "ARCTAN": Fit(
        series(lambda z: mpmath.atan(root(z)) / root(z), lambda z: 1, 1), mpf(0), mpf("0.1717"), lambda z: z, -57, -28,
        "(arctan(x) / x - 1) / z, z = x^2, for |x| <= tan(pi / 8)",
    ),
    "ERF": Fit(
        series(lambda z: mpmath.erf(root(z)) / root(z), lambda z: 1, 0), mpf(0), mpf("1.0001"), lambda z: mpf(1), -56, -28,
        "erf(x) / x - 1 by z = x^2, for |x| <= 1",
    ),
    "LOG_ERFC": Fit(
        lambda t: mpmath.log(mpmath.erfc(1 + t)), mpf(0), mpf(5), lambda t: mpmath.erfc(1 + t), -56, -28,
        "log(erfc(1 + t)) for 0 <= t <= 5", floor=1e-15,
    ),
    "ERFC": Fit(
        erfc_scaled, (mpf("0.499") - 4) / (mpf("0.499") + 4), mpf(1), lambda q: mpf(1), -57, -28,
        "(1 + 2 x) exp(x^2) erfc(x) - 19/16 by q = (x - 4) / (x + 4), for x >= 1/2",
    ),
    "GAMMALN": Fit(
        series(lambda t: mpmath.loggamma(2 + t), lambda t: (1 - mpmath.euler) * t, 2), mpf("-0.5001"), mpf("0.5001"),
        lambda t: 2 * t, -57, -28,
        "(log(gamma(2 + t)) - (1 - Euler's constant) t) / t^2, for |t| <= 1/2",
    ),
    "STIRLING": Fit(
        stirling, mpf(0), 1 / mpf("4.49") ** 2, lambda w: root(w) / 2, -57, -28,
        "x (log(gamma(x)) - (x - 1/2) log(x) + x - log(2 pi) / 2) by w = 1 / x^2, for x >= 4.5",
    ),
    "DIGAMMA": Fit(
        digamma_slope, mpf("-0.5001"), mpf("0.5001"), lambda u: mpf(1), -56, -28,
        "digamma(3/2 + u) / (3/2 + u - x0), x0 being where it vanishes, for |u| <= 1/2",
    ),
    "DIGAMMA_FAR": Fit(
        digamma_remainder, mpf(0), mpf(1) / 9, lambda w: max(w, mpf(10) ** -5), -57, -28,
        "(log(x) - 1 / (2 x) - digamma(x)) x^2 by w = 1 / x^2, for x >= 3",
    ),
    "CBRT": Fit(lambda m: mpmath.cbrt(m), mpf(1), mpf(2), lambda m: mpf(1), -14, None, "the cube root, for 1 <= m <= 2"),
}  # fmt: skip


def weight_at(fit: Fit, x: mpf) -> mpf:
    """The weight, kept from vanishing, which would leave a coefficient free."""
    return max(abs(fit.weight(x)), max(abs(fit.weight(fit.low)), abs(fit.weight(fit.high))) * fit.floor)


def solved(fit: Fit, nodes: list[mpf]) -> tuple[list[mpf], mpf]:
    """Coefficients whose weighted error alternates over the nodes, and the size of that error."""
    degree = len(nodes) - 2
    matrix = mpmath.matrix(degree + 2, degree + 2)
    right = mpmath.matrix(degree + 2, 1)
    for i, x in enumerate(nodes):
        for j in range(degree + 1):
            matrix[i, j] = x**j
        matrix[i, degree + 1] = (-1) ** i / weight_at(fit, x)
        right[i] = fit.function(x)
    solution = mpmath.lu_solve(matrix, right)
    return [solution[j] for j in range(degree + 1)], abs(solution[degree + 1])


def evaluated(coefficients: Sequence[mpf], x: mpf) -> mpf:
    """The value of a polynomial, whose coefficients are given least power first."""
    total = mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def remez(fit: Fit, degree: int) -> tuple[list[mpf], mpf]:
    """Coefficients of the minimax polynomial, least power first, and its weighted error."""
    n = degree + 2
    middle, half = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    nodes = [middle - half * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    count = 16 * n
    grid = [middle - half * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    values = [fit.function(x) for x in grid]
    weights = [weight_at(fit, x) for x in grid]
    coefficients: list[mpf] = []
    largest = mpf(0)
    for _ in range(12):
        coefficients, level = solved(fit, nodes)
        errors = [w * (evaluated(coefficients, x) - v) for x, v, w in zip(grid, values, weights, strict=True)]
        largest = max(map(abs, errors))
        if largest <= level * mpf("1.02"):
            break
        nodes = alternating(grid, errors, n) or nodes
    return coefficients, largest


def alternating(grid: list[mpf], errors: list[mpf], n: int) -> list[mpf] | None:
    """The points of the largest errors of alternating sign."""
    best: list[int] = []
    for i, error in enumerate(errors):
        if best and (errors[best[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = i
        else:
            best.append(i)
    while len(best) > n:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    return [grid[i] for i in best] if len(best) == n else None


def least_degree(fit: Fit, bound: int) -> tuple[list[mpf], mpf]:
    """The polynomial of least degree whose error is at most `2**bound`."""
    for degree in range(1, 30):
        coefficients, error = remez(fit, degree)
        if error <= mpf(2) ** bound:
            return coefficients, error
    raise ArithmeticError(f"no polynomial of degree below 30 reaches 2^{bound} for {fit.says}")


def written(name: str, fit: Fit) -> str:
    """The text of one table."""
    tables = {}
    errors = {}
    for kind, bound in (("wide", fit.wide), ("short", fit.short)):
        if bound is not None:
            coefficients, error = least_degree(fit, bound)
            tables[kind] = coefficients
            errors[kind] = f"2^{float(mpmath.log(error, 2)):.1f}"
    tables.setdefault("short", tables["wide"])
    print(name, {kind: len(table) - 1 for kind, table in tables.items()}, errors, flush=True)
    lines = [f"{name} = Coefficients("]
    for kind, table in tables.items():
        lines += [f"    {kind}=("] + [f"        {float(c)!r}," for c in table] + ["    ),"]
    quoted = (
        f'"""{fit.says}; weighted error {errors["wide"]}' + (f" and {errors['short']}" if "short" in errors else "") + '."""'
    )
    text = "\n".join(lines)
    return text + f"\n)\n{quoted}\n"


HEADER = '''"""Coefficients of the polynomials, least power first: minimax fits made by `python -m tests.loops.fits`."""

from __future__ import annotations

from typing import NamedTuple


class Coefficients(NamedTuple):
    """A polynomial for float64 and a shorter one for float32."""

    wide: tuple[float, ...]
    short: tuple[float, ...]


'''


def main() -> None:
    """Fit all that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    mp.dps = 50
    texts = [written(name, fit) for name, fit in FITS.items() if not names or name in names]
    if not names:
        WRITTEN.write_text(HEADER + "\n".join(texts))


mp.dps = 50

if __name__ == "__main__":
    main()
