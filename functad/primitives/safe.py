"""Products in which an exact zero wins: zero times any number, including infinity and NaN, is zero.

Rules of functions with an infinite derivative use these products. So a branch that `np.where` did not select, with a cotangent
of exactly zero, does not put `0 * inf = nan` into the gradient. A product is bilinear, and its derivative with respect to
either factor is the same product; `where(g == 0, 0, g * d)` would lose the second derivative.

Under `functad.strict_derivatives()` all of these are plain products and quotients. The setting is read only after a NaN was
found, and when a call is recorded: programs without NaN do not pay for it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, ArraySpec, is_inexact, spec_of
from functad.primitives.batching import Params, Values, Which, aligned, spread_out
from functad.primitives.entry import Primitive
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.operands import innermost
from functad.process import context_variable

_ndarray = np.ndarray
_SCALARS = (np.generic, int, float, complex)

STRICT: ContextVar[bool] = context_variable("strict_derivatives", default=False)
"""`True` if rules use plain products (`strict_derivatives`), in this thread or coroutine."""

strict = STRICT.get

QUICK, SINGULAR, ELEMENTWISE, CAREFUL = range(4)

PASS: ContextVar[int] = context_variable("derivative_pass", default=QUICK)
"""The products in derivatives, in this thread or coroutine.

In `product` and `quotient` an exact zero wins in every pass. The passes differ in all other products of the rules.

- `QUICK`: plain IEEE products. A careful pass follows if the result has a NaN.
- `CAREFUL`: an exact zero wins in the rules of all primitives (see `functad.transforms.zero_wins`).

A list without a later careful pass is traced with one of these:

- `SINGULAR`, for lists that are printed or saved: an exact zero wins in the elementwise rules that read a value, or take a
  cotangent, that may be infinite or NaN although all inputs of the list are finite.
- `ELEMENTWISE`, for engines that cannot check for NaN: an exact zero wins in all elementwise rules.
"""

current_pass = PASS.get


def _never() -> bool:
    """Return `False`: in an expression list, zero always wins in these products, whatever the setting is."""
    return False


def has_nan(value: Any) -> bool:
    """Return `True` if an array may hold a NaN. A sum of squares is one pass at memory speed, without a temporary.

    False alarms cost only time: an overflow to infinity minus infinity in complex sums, and every array of another library,
    where a check would wait for its device or compute a lazy value.
    """
    if type(value) is not _ndarray and not issubclass(type(value), (_ndarray, np.generic)):
        return True
    flat = value if value.ndim == 1 else value.ravel("K")
    # `dot` starts threads from 10,000 elements on. There the maximum is as fast; for fewer elements it is twice as slow.
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
    """Return `x` with zeros where `x` is NaN and `y` is exactly zero: the repaired cotangent of a rule.

    It is for rules without products of this module, if an input is infinite or NaN in a branch that was not selected, as in
    `where(x > 0, x * log(x), 0)`. Rules of functions with an infinite derivative do not need it.
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
    except ZeroDivisionError:  # two Python numbers: return infinity or NaN, like NumPy
        out = np.true_divide(x, y).item()
    if type(out) is not _ndarray and issubclass(type(out), _SCALARS):
        return type(out)(0) if out != out and x == 0 and not raw() else out
    if has_nan(out) and not raw():
        return np.where(x == 0, out.dtype.type(0), out)
    return out


def product(x: Any, y: Any) -> Any:
    """Return `x * y`, and zero where either factor is exactly zero."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _product(x, y, strict)
    return x * y if strict() else PRODUCT(x, y)


def careful_product(x: Any, y: Any) -> Any:
    """Return `x * y`; zero where either factor is exactly zero, except in a quick pass.

    For rules with finite derivatives at finite arguments: a quick pass has no extra cost.
    """
    return product(x, y) if current_pass() else x * y


def quotient(x: Any, y: Any) -> Any:
    """Return `x / y`, and zero where `x` is exactly zero."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _quotient(x, y, strict)
    return x / y if strict() else QUOTIENT(x, y)


def inverse(x: Any) -> Any:
    """Return `1 / x`, and 0 where `x` is 0. The derivatives of every order are 0 there too."""
    return (x != 0) / (x + (x == 0))


def over_radius(x: Any) -> Any:
    """Return `1 / x` for the radius in rules such as `hypot`: the derivative at radius 0 is 0 by convention."""
    return 1 / x if strict() else inverse(x)


PRODUCT = elementwise(
    product,
    lambda g, y: product(g, y),
    lambda g, x: product(g, x),
    operator=_product,
    spec=ufunc_spec(np.multiply, keeps_weak=True),
    ufunc=np.multiply,
    python=operator.mul,
    doc="d(x y) = y dx + x dy, where an exact zero wins over infinity and NaN",
    internal=True,
    curvature="product",
    passes_nan=(0, 1),
    plain=lambda x, y: x * y,
    decomposition=True,
)

QUOTIENT = elementwise(
    quotient,
    lambda g, y: quotient(g, y),
    lambda g, y, out: -product(g, quotient(out, y)),
    operator=_quotient,
    spec=ufunc_spec(np.divide, keeps_weak=True),
    ufunc=np.divide,
    python=operator.truediv,
    domain=((-2.0, 2.0), (0.5, 2.0)),
    doc="d(x / y) = dx / y - x / y^2 dy, where a numerator of exactly zero wins",
    internal=True,
    curvature="quotient",
    cost=4.0,
    passes_nan=(0, 1),
    plain=lambda x, y: x / y,
    decomposition=True,
)


def _mended_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Batch with the shape of `x`, even if only `y` is batched."""
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
    linear_by=lambda params: (0, 1),  # the result is x where x is finite
    curvature="none",
    exact=True,
    passes_nan=(0, 1),  # x was computed from y, so NaN of y is in x
    plain=lambda x, y: x,
    python=lambda x, y: x,
    decomposition=True,
)


def passed_on(equation: Any, specs: Sequence[ArraySpec]) -> Sequence[int]:
    """Return the positions of the inputs of an equation whose NaN appears in every result that is computed from it."""
    primitive = equation.primitive
    if primitive.owner is not None or primitive.inner is not None or not all(is_inexact(specs[s]) for s in equation.outputs):
        return ()
    return range(len(equation.inputs)) if primitive.kind in ("linear", "multilinear") else primitive.passes_nan
