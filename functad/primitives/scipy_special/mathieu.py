"""Mathieu functions and spheroidal wave functions; their differential equations give the second derivatives.

Derivatives with respect to order, parameter and characteristic value have no closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.entry import UnknownRule
from functad.primitives.scipy_special.declaration import several_functions, special_function, unknown

_DEGREE = math.pi / 180
# With integers SciPy computes in double precision; in single precision it returns NaN or does not terminate.
_ORDERS = [np.int64(2), np.int64(1), np.int64(3)]
_PARAMETERS = [1.5, 0.5, 4.0]
_LOWER = [np.int64(1), np.int64(0), np.int64(1)]
_UPPER = [np.int64(2), np.int64(1), np.int64(2)]


def _unknown(name: str, orders: str, others: str) -> list[UnknownRule]:
    """Return the rules of orders, and of arguments without a closed form of the derivative."""
    return [unknown(name, order, "It is an order") for order in orders] + [unknown(name, other) for other in others.split()]


# The rules below call the functions of characteristic values, which therefore need entries for traced parameters.

_DOC = "by the parameter there is no closed form"
for _name in ("mathieu_a", "mathieu_b"):
    special_function(_name, *_unknown(_name, "m", "q"), arguments=[_ORDERS, _PARAMETERS], names=("m", "q"), doc=_DOC)
for _name in ("pro_cv", "obl_cv"):
    _rules = _unknown(_name, "mn", "c")
    special_function(_name, *_rules, arguments=[_LOWER, _UPPER, [1.25, 2.0]], names=("m", "n", "c"), doc=_DOC)

# Mathieu's equation, `y'' + (a - 2 q cos 2x) y = 0`; x is imaginary in the modified equation


def _enter_mathieu(kind: str, value: Callable[..., Any], letter: str) -> None:
    """Enter a solution, and two of the modified equation, with the characteristic value `value(m, q)`."""

    def by_degrees(m: Any, q: Any, x: Any, out: Any) -> tuple[Any, ...]:
        """The derivatives with respect to x in degrees; the second result of SciPy is a derivative in radians."""
        return out[1] * _DEGREE, (2 * q * np.cos(2 * _DEGREE * x) - value(m, q)) * out[0] * _DEGREE

    def modified(m: Any, q: Any, x: Any, out: Any) -> tuple[Any, ...]:
        """The derivatives with respect to x; SciPy does not take x in degrees here, contrary to its documentation."""
        return out[1], (value(m, q) - 2 * q * np.cosh(2 * x)) * out[0]

    doc = f"dy = y' dx, dy' = (2 q cos 2x - {letter}) y dx, times pi/180 as x is in degrees"
    of_modified = f"dy = y' dx, dy' = ({letter} - 2 q cosh 2x) y dx"
    for name, derivative, interval, line in (
        (f"mathieu_{kind}", by_degrees, (10.0, 80.0), doc),
        (f"mathieu_mod{kind}1", modified, (0.3, 1.2), of_modified),
        (f"mathieu_mod{kind}2", modified, (0.3, 1.2), of_modified),
    ):
        several_functions(
            name,
            *_unknown(name, "m", "q"),
            derivative,
            arguments=[_ORDERS, _PARAMETERS, interval],
            names=("m", "q", "x"),
            doc=line,
        )


_enter_mathieu("cem", special.mathieu_a, "a")
_enter_mathieu("sem", special.mathieu_b, "b")

# Spheroidal wave functions: `d/dx ((1 - x^2) y') + (v - c^2 x^2 - m^2 / (1 - x^2)) y = 0`; oblate: with -c^2 or -x^2


def _prolate(m: Any, c: Any, v: Any, x: Any, out: Any) -> tuple[Any, ...]:
    return out[1], _bend(m, c * c, v, x, out)


def _oblate_angular(m: Any, c: Any, v: Any, x: Any, out: Any) -> tuple[Any, ...]:
    return out[1], _bend(m, -c * c, v, x, out)


def _oblate_radial(m: Any, c: Any, v: Any, x: Any, out: Any) -> tuple[Any, ...]:
    width = 1 + x * x
    return out[1], ((v - c * c * x * x - m * m / width) * out[0] - 2 * x * out[1]) / width


def _bend(m: Any, square: Any, v: Any, x: Any, out: Any) -> Any:
    """Return the second derivative of a prolate function, or of an oblate angular function with `square = -c^2`."""
    width = 1 - x * x
    return (2 * x * out[1] - (v - square * x * x - m * m / width) * out[0]) / width


def _enter_spheroidal(name: str, derivative: Any, interval: tuple[float, float], doc: str) -> None:
    """Enter a function, and its variant with the characteristic value as an argument."""
    characteristic = special.pro_cv if name.startswith("pro") else special.obl_cv
    several_functions(
        name,
        *_unknown(name, "mn", "c"),
        lambda m, n, c, x, out: derivative(m, c, characteristic(m, n, c), x, out),
        arguments=[_LOWER, _UPPER, [2.5, 1.25, 3.0], interval],
        names=("m", "n", "c", "x"),
        doc=doc,
    )
    values = [float(characteristic(*row)) for row in ((1.0, 2.0, 2.5), (0.0, 1.0, 1.25), (1.0, 2.0, 3.0))]
    several_functions(
        f"{name}_cv",
        *_unknown(f"{name}_cv", "mn", "c cv"),
        derivative,
        arguments=[_LOWER, _UPPER, [2.5, 1.25, 3.0], values, interval],
        names=("m", "n", "c", "v", "x"),
        doc=doc,
    )


_PROLATE = "dy = y' dx, dy' = (2x y' - (v - c^2 x^2 - m^2 / (1-x^2)) y) / (1-x^2) dx, v the characteristic value"
_enter_spheroidal("pro_ang1", _prolate, (-0.8, 0.8), _PROLATE)
_enter_spheroidal("pro_rad1", _prolate, (1.3, 3.0), _PROLATE)
_enter_spheroidal("pro_rad2", _prolate, (1.3, 3.0), _PROLATE)
_enter_spheroidal("obl_ang1", _oblate_angular, (-0.8, 0.8), _PROLATE.replace("- c^2", "+ c^2"))
_OBLATE = "dy = y' dx, dy' = ((v - c^2 x^2 - m^2 / (1+x^2)) y - 2x y') / (1+x^2) dx, v the characteristic value"
_enter_spheroidal("obl_rad1", _oblate_radial, (0.3, 2.0), _OBLATE)
_enter_spheroidal("obl_rad2", _oblate_radial, (2.0, 3.0), _OBLATE)
