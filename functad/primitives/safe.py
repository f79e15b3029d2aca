"""Products in which an exact zero wins: zero times anything, infinity and NaN included, is zero.

Rules of functions whose derivative is infinite somewhere multiply with these. So the branch that `np.where` did not take, whose
cotangent is exactly zero, does not poison the gradient with `0 * inf`. A product is bilinear, and its derivative with respect
to either factor is the same product; `where(g == 0, 0, g * d)` would lose the second derivative.

Under `functad.strict_derivatives()` all of these are plain products and quotients. The setting is looked up where a NaN has
been found, and where a call is recorded: programs without NaN do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, spec_of
from functad.primitives.batching import Params, Values, Which, aligned, spread_out
from functad.primitives.entry import Primitive
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.operands import innermost
from functad.settings import context_variable

_ndarray = np.ndarray
_SCALARS = (np.generic, int, float, complex)

STRICT: ContextVar[bool] = context_variable("strict_derivatives", default=False)
"""Whether rules give raw calculus, in this thread or coroutine."""

strict = STRICT.get

QUICK, SINGULAR, ELEMENTWISE, CAREFUL = range(4)

PASS: ContextVar[int] = context_variable("derivative_pass", default=QUICK)
"""How derivatives multiply, in this thread or coroutine.

- `QUICK`: as IEEE arithmetic does. A careful pass follows if a NaN comes out.
- `CAREFUL`: an exact zero wins in the rules of all primitives (see `functad.transforms.walks.zero_wins`).

A list that no careful pass follows is traced with one of these:

- `SINGULAR`, for lists that are printed or saved: an exact zero wins in the elementwise rules that read a value, or take a
  cotangent, which may be infinite or NaN although all inputs of the list are finite.
- `ELEMENTWISE`, for engines that cannot look for a NaN: an exact zero wins in all elementwise rules.
"""

current_pass = PASS.get


def _never() -> bool:
    """Say that rules are guarded: products that stand in an expression list do what they are there for."""
    return False


def has_nan(value: Any) -> bool:
    """Say whether an array may hold a NaN; a sum of squares is one pass at the speed of memory, with no temporary.

    An overflow to infinity minus infinity in complex sums is a false alarm, which costs time and nothing else. So is an array
    of another library: to look would wait for its device, or compute what is lazy.
    """
    if type(value) is not _ndarray and not issubclass(type(value), (_ndarray, np.generic)):
        return True
    flat = value if value.ndim == 1 else value.ravel("K")
    # From 10,000 elements on `dot` would start threads; the maximum is as fast then, and twice as slow below.
    total = flat.dot(flat) if flat.size < 10_000 else np.maximum.reduce(flat)
    return total != total  # type: ignore[no-any-return]


def _product(x: Any, y: Any, raw: Callable[[], bool] = _never) -> Any:
    out = x * y
    if type(out) is not _ndarray and issubclass(type(out), _SCALARS):
        return type(out)(0) if out != out and (x == 0 or y == 0) and not raw() else out
    if has_nan(out) and not raw():
        return np.where((x == 0) | (y == 0), out.dtype.type(0), out)
    return out


def _mended(x: Any, y: Any, raw: Callable[[], bool] = _never) -> Any:
    if type(x) is _ndarray or not issubclass(type(x), _SCALARS):
        return np.where((y == 0) & (x != x), x.dtype.type(0), x) if has_nan(x) and not raw() else x
    return type(x)(0) if x != x and y == 0 and not raw() else x


def mended(x: Any, y: Any) -> Any:
    """Return `x`, and zero where it is NaN although `y` is exactly zero: a cotangent that a rule poisoned.

    The rules of functions with an infinite derivative need no mending; this is for the others, when one of their own inputs
    is infinite or NaN in a branch that was not taken: `where(x > 0, x * log(x), 0)`.
    """
    if type(x) in PLAIN:
        return _mended(x, y, strict)
    value = innermost(x)
    if strict() or (type(value) in PLAIN and not np.any(value != value)):
        return x
    return MENDED(x, y)


def _quotient(x: Any, y: Any, raw: Callable[[], bool] = _never) -> Any:
    try:
        out = x / y
    except ZeroDivisionError:  # two Python numbers: give infinity or NaN, as NumPy does
        out = np.true_divide(x, y).item()
    if type(out) is not _ndarray and issubclass(type(out), _SCALARS):
        return type(out)(0) if out != out and x == 0 and not raw() else out
    if has_nan(out) and not raw():
        return np.where(x == 0, out.dtype.type(0), out)
    return out


def product(x: Any, y: Any) -> Any:
    """Return `x * y`, and zero where either is exactly zero."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _product(x, y, strict)
    return x * y if strict() else PRODUCT(x, y)


def careful_product(x: Any, y: Any) -> Any:
    """Return `x * y`; zero where either is exactly zero, except in a quick pass.

    For rules whose derivatives are finite where the arguments are finite: they cost nothing more in a quick pass.
    """
    return product(x, y) if current_pass() else x * y


def quotient(x: Any, y: Any) -> Any:
    """Return `x / y`, and zero where `x` is exactly zero."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _quotient(x, y, strict)
    return x / y if strict() else QUOTIENT(x, y)


def inverse(x: Any) -> Any:
    """Return `1 / x`, and 0 where x is 0, the derivatives of every order included."""
    return (x != 0) / (x + (x == 0))


def over_radius(x: Any) -> Any:
    """Return `1 / x` for the radius of functions like `hypot`, whose derivative at radius 0 is 0 by convention."""
    return 1 / x if strict() else inverse(x)


PRODUCT = elementwise(
    product,
    lambda g, y: product(g, y),
    lambda g, x: product(g, x),
    operator=_product,
    spec=ufunc_spec(np.multiply, keeps_weak=True),
    doc="d(x y) = y dx + x dy, where an exact zero wins over infinity and NaN",
    internal=True,
    curvature="product",
    passes_nan=(0, 1),
    plain=lambda x, y: x * y,
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
    curvature="quotient",
    passes_nan=(0, 1),
    plain=lambda x, y: x / y,
)


def _mended_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """The result has the shape of x, whatever that of y."""
    x, y = aligned(values, batched)
    return primitive(spread_out(x, batched[0], size), y)


MENDED = elementwise(
    mended,
    lambda g, poisoned: np.where(poisoned, 0.0, g),
    None,
    operator=_mended,
    derived={"poisoned": lambda x, y: (y == 0) & (x != x)},
    spec=lambda x, y: spec_of(x),
    samples=lambda array: [((array(3), array(3)), {}), ((array(), array()), {})],
    internal=True,
    doc="dx, and zero where x was poisoned",
    batch=_mended_batch,
    linear_by=lambda params: (0, 1),  # where x is finite it is x
    curvature="none",
    passes_nan=(0, 1),  # x was computed from y
    plain=lambda x, y: x,
)
