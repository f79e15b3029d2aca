"""Functions with boolean results: comparisons, logic and predicates."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.backends.xla import complex_numbers
from functad.backends.xla.elementwise import converted
from functad.backends.xla.engine import cast, jnp
from functad.backends.xla.table import Call, row
from functad.primitives.reductions.over_axes import SELECTED


@row(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
def _comparison(call: Call, x: Any, y: Any) -> Any:
    """Compare integers by value, including Python integers outside the range of the other dtype."""
    dtypes = [spec.dtype for spec in call.given]
    function = getattr(jnp, call.primitive.function.__name__)
    if all(dtype.kind in "biu" for dtype in dtypes):
        if np.uint64 in dtypes and any(dtype.kind == "i" for dtype in dtypes):
            return NotImplemented  # no dtype of XLA holds both
        common = np.result_type(*dtypes)
        return function(cast(x, common), cast(y, common))
    x, y = converted(call, (x, y))
    name = call.primitive.function.__name__
    return (complex_numbers.FUNCTIONS.get(name, function) if x.dtype.kind == "c" else function)(x, y)


@row(np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
def _logic(call: Call, *values: Any) -> Any:
    return getattr(jnp, call.primitive.function.__name__)(*[cast(value, np.bool_) for value in values])


@row(np.isfinite, np.isinf, np.isnan, np.signbit, np.isposinf, np.isneginf, np.iscomplex, np.isreal)
def _question(call: Call, x: Any) -> Any:
    dtype = call.given[0].dtype
    name = call.primitive.function.__name__
    if name == "signbit" and dtype.kind != "f":
        return cast(x, dtype) < 0 if dtype.kind == "i" else NotImplemented
    return getattr(jnp, name)(cast(x, dtype))


@row(np.isclose, np.allclose)
def _close(call: Call, a: Any, b: Any, rtol: Any, atol: Any, *, equal_nan: bool) -> Any:
    common = np.result_type(*[spec.dtype for spec in call.given[:2]], np.float32)
    a, b = cast(a, common), cast(b, common)
    limit = cast(atol, np.float64) + cast(rtol, np.float64) * abs(b)
    close = ((abs(a - b) <= limit) & jnp.isfinite(b)) | (a == b)
    if equal_nan:
        close = close | ((a != a) & (b != b))
    return jnp.all(close) if call.primitive.function is np.allclose else close


@row(np.array_equal, np.array_equiv)
def _same(call: Call, a: Any, b: Any, equal_nan: bool = False) -> Any:
    shapes = [spec.shape for spec in call.given]
    if call.primitive.function is np.array_equal and shapes[0] != shapes[1]:
        return jnp.zeros((), np.bool_)
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return jnp.zeros((), np.bool_)
    common = np.result_type(*[spec.dtype for spec in call.given])
    a, b = cast(a, common), cast(b, common)
    return jnp.all((a == b) | ((a != a) & (b != b)) if equal_nan else a == b)


@row(SELECTED)
def _selected(call: Call, a: Any, out: Any) -> Any:
    a, out = cast(a, call.given[0].dtype), cast(out, call.given[1].dtype)
    return (a == out) | ((a != a) & (out != out))
