"""Products in which an exact zero wins: zero times anything, infinity and NaN included, is zero.

Rules of functions whose derivative is infinite somewhere multiply with these. So the branch that `np.where` did not take, whose
cotangent is exactly zero, does not poison the gradient with `0 * inf`. A product is bilinear, and its derivative with respect
to either factor is the same product; `where(g == 0, 0, g * d)` would lose the second derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, ArraySpec, spec_of
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.operands import innermost

_ndarray = np.ndarray
_SCALARS = (np.generic, int, float, complex)


def has_nan(value: Any) -> bool:
    """Say whether an array holds a NaN; a sum of squares is one pass at the speed of memory, with no temporary.

    An overflow to infinity minus infinity in complex sums is a false alarm, which costs time and nothing else.
    """
    flat = value if value.ndim == 1 else value.ravel("K")
    # From 10,000 elements on `dot` would start threads; the maximum is as fast then, and twice as slow below.
    total = flat.dot(flat) if flat.size < 10_000 else np.maximum.reduce(flat)
    return total != total  # type: ignore[no-any-return]


def _product(x: Any, y: Any) -> Any:
    out = x * y
    if type(out) is not _ndarray and isinstance(out, _SCALARS):
        return type(out)(0) if out != out and (x == 0 or y == 0) else out
    if has_nan(out):
        return np.where((x == 0) | (y == 0), np.zeros((), out.dtype, like=out), out)
    return out


def _mended(x: Any, y: Any) -> Any:
    if type(x) is _ndarray:
        return np.where((y == 0) & (x != x), np.zeros((), x.dtype), x) if has_nan(x) else x
    return type(x)(0) if x != x and y == 0 and isinstance(x, _SCALARS) else x


def _poisoned(x: Any, y: Any) -> Any:
    return (y == 0) & (x != x)


def mended(x: Any, y: Any) -> Any:
    """Return `x`, and zero where it is NaN although `y` is exactly zero: a cotangent that a rule poisoned.

    The rules of functions with an infinite derivative need no mending; this is for the others, when one of their own inputs
    is infinite or NaN in a branch that was not taken: `where(x > 0, x * log(x), 0)`.
    """
    if type(x) is _ndarray or type(x) in PLAIN:
        return _mended(x, y)
    value = innermost(x)
    if not isinstance(value, ArraySpec) and not np.any(value != value):
        return x
    return MENDED(x, y)


def _quotient(x: Any, y: Any) -> Any:
    try:
        out = x / y
    except ZeroDivisionError:  # two Python numbers: give infinity or NaN, as NumPy does
        out = np.true_divide(x, y).item()
    if type(out) is not _ndarray and isinstance(out, _SCALARS):
        return type(out)(0) if out != out and x == 0 else out
    if has_nan(out):
        return np.where(x == 0, np.zeros((), out.dtype, like=out), out)
    return out


def product(x: Any, y: Any) -> Any:
    """Return `x * y`, and zero where either is exactly zero."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _product(x, y)
    return PRODUCT(x, y)


def quotient(x: Any, y: Any) -> Any:
    """Return `x / y`, and zero where `x` is exactly zero."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _quotient(x, y)
    return QUOTIENT(x, y)


def inverse(x: Any) -> Any:
    """Return `1 / x`, and 0 where x is 0, the derivatives of every order included.

    It divides by the radius of functions like `hypot`, whose derivative at the kink is 0 by convention.
    """
    return (x != 0) / (x + (x == 0))


PRODUCT = elementwise(
    product,
    lambda g, y: product(g, y),
    lambda g, x: product(g, x),
    operator=_product,
    spec=ufunc_spec(np.multiply, keeps_weak=True),
    doc="d(x y) = y dx + x dy, where an exact zero wins over infinity and NaN",
    internal=True,
)

QUOTIENT = elementwise(
    quotient,
    lambda g, y: quotient(g, y),
    lambda g, y, out: -product(g, quotient(out, y)),
    operator=_quotient,
    spec=ufunc_spec(np.divide, keeps_weak=True),
    domain=((-2.0, 2.0), (0.5, 2.0)),
    doc="d(x / y) = dx / y - x / y^2 dy, where a numerator of exactly zero wins",
    internal=True,
)

MENDED = elementwise(
    mended,
    lambda g, poisoned: np.where(poisoned, 0.0, g),
    None,
    operator=_mended,
    derived={"poisoned": _poisoned},
    spec=lambda x, y: spec_of(x),
    samples=lambda array: [((array(3), array(3)), {}), ((array(), array()), {})],
    internal=True,
    doc="dx, and zero where x was poisoned",
)
