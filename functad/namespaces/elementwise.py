"""Ufuncs of NumPy by the functions of the array API: operands in the dtypes of NumPy's loop, which no library then promotes."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np

from functad.namespaces.array import FUNCTIONS, NamespaceArray
from functad.namespaces.library import Library

_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "fabs": "abs",
    "float_power": "pow",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}
"""Names that the standard has otherwise than NumPy."""

_OF_TRUTH_VALUES = {
    "add": "logical_or",
    "multiply": "logical_and",
    "maximum": "logical_or",
    "minimum": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_and": "logical_and",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
    "absolute": "positive",
    "conjugate": "positive",
}
"""What arithmetic is for truth values, which the standard has none for."""


def _fmax(xp: Any, x: Any, y: Any) -> Any:
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.maximum(x, y)))


def _fmin(xp: Any, x: Any, y: Any) -> Any:
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.minimum(x, y)))


def _fmod(xp: Any, x: Any, y: Any) -> Any:
    r = xp.remainder(xp.abs(x), xp.abs(y))
    return xp.where(x < 0, -r, r)


def _heaviside(xp: Any, x: Any, y: Any) -> Any:
    return xp.where(x == 0, y, xp.where(x < 0, x * 0, x * 0 + 1))


def _modf(xp: Any, x: Any) -> Any:
    whole = xp.trunc(x)
    return xp.where(whole == x, x * 0, x - whole), whole


FORMULAS: dict[str, Callable[..., Any]] = {
    "cbrt": lambda xp, x: xp.sign(x) * xp.pow(xp.abs(x), xp.asarray(1 / 3, dtype=x.dtype, device=x.device)),
    "clip": lambda xp, x, low, high: xp.minimum(xp.maximum(x, low), high),
    "deg2rad": lambda xp, x: x * (pi / 180),
    "degrees": lambda xp, x: x * (180 / pi),
    "divmod": lambda xp, x, y: (xp.floor_divide(x, y), xp.remainder(x, y)),
    "exp2": lambda xp, x: xp.pow(xp.asarray(2.0, dtype=x.dtype, device=x.device), x),
    "fmax": _fmax,
    "fmin": _fmin,
    "fmod": _fmod,
    "heaviside": _heaviside,
    "ldexp": lambda xp, x, n: x * xp.pow(xp.asarray(2.0, dtype=x.dtype, device=x.device), xp.astype(n, x.dtype)),
    "logaddexp2": lambda xp, x, y: xp.logaddexp(x * log(2), y * log(2)) / log(2),
    "modf": _modf,
    "rad2deg": lambda xp, x: x * (180 / pi),
    "radians": lambda xp, x: x * (pi / 180),
    "reciprocal": lambda xp, x: 1 / x,
}
"""What libraries lack that have no more than the standard, in its terms."""

_REDUCTIONS = {
    "add": np.sum,
    "multiply": np.prod,
    "maximum": np.max,
    "minimum": np.min,
    "fmax": np.nanmax,
    "fmin": np.nanmin,
    "logical_and": np.all,
    "logical_or": np.any,
    "bitwise_or": np.any,
    "bitwise_and": np.all,
}
_SCANS = {"add": np.cumsum, "multiply": np.cumprod}


def ufunc_call(lib: Library, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Compute a ufunc, or a method of one, of arrays of a library.

    Raises:
        NotImplementedError: no function of the standard computes it.
    """
    name = ufunc.__name__
    if method == "at" and name in ("add", "subtract") and type(inputs[0]) is NamespaceArray:
        inputs[0].replace(inputs[1], inputs[2] if name == "add" else np.negative(inputs[2]), adds=True)
        return None
    if method == "outer":
        x, y = [value if type(value) is NamespaceArray else np.asarray(value) for value in inputs]
        return ufunc_call(lib, ufunc, "__call__", x.reshape(x.shape + (1,) * y.ndim), y, **kwargs)
    if method == "reduce" and name in _REDUCTIONS:
        return FUNCTIONS[_REDUCTIONS[name]](lib, inputs[0], **{"axis": 0, **kwargs})
    if method == "accumulate" and name in _SCANS:
        return FUNCTIONS[_SCANS[name]](lib, inputs[0], **{"axis": 0, **kwargs})
    if method != "__call__" or (kwargs.keys() - {"dtype", "casting"}):
        raise NotImplementedError(f"{name}.{method} with {', '.join(kwargs) or 'no keywords'}")
    if ufunc.signature is not None:
        return _product(lib, name, inputs)
    loop = _loop(ufunc, inputs, kwargs.get("dtype"))
    return _elementwise(lib, name, [lib.array(value, dtype) for value, dtype in zip(inputs, loop, strict=False)], loop)


def _loop(ufunc: np.ufunc, inputs: Any, dtype: Any) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes that NumPy would compute with."""
    kinds = [
        np.dtype(bool) if type(value) is bool else type(value) if type(value) in (int, float, complex) else value.dtype
        for value in [value if hasattr(value, "dtype") or not isinstance(value, (list, tuple)) else np.asarray(value)
                      for value in inputs]
    ]  # fmt: skip
    known = (*kinds, *[None] * ufunc.nout)
    if dtype is None:
        return ufunc.resolve_dtypes(known)
    return ufunc.resolve_dtypes(known, signature=(*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout), casting="unsafe")


def _elementwise(lib: Library, name: str, operands: list[Any], loop: tuple[np.dtype[Any], ...]) -> Any:
    xp = lib.xp
    if name.startswith("logical_"):
        operands = [lib.array(operand, np.dtype(bool)) for operand in operands]
    elif loop[0].kind == "b" and name in _OF_TRUTH_VALUES:
        name = _OF_TRUTH_VALUES[name]
        if name == "positive":
            return operands[0]
    elif loop[0].kind == "b" and name in ("less", "less_equal", "greater", "greater_equal"):
        operands = [lib.array(operand, np.dtype(np.uint8)) for operand in operands]
    elif name == "conjugate" and loop[0].kind != "c":
        return operands[0]
    own = getattr(xp, _NAMES.get(name, name), None) or getattr(xp, name, None)
    if own is not None and name != "clip":
        return own(*operands)
    if name not in FORMULAS:
        raise NotImplementedError("the array API has no such function")
    return FORMULAS[name](xp, *operands)


def _product(lib: Library, name: str, inputs: Any) -> Any:
    """Return a product of vectors and matrices."""
    dtype = np.result_type(*[value.dtype for value in inputs])
    x, y = [lib.array(value, dtype) for value in inputs]
    xp = lib.xp
    if name == "matmul":
        return xp.matmul(x, y)
    if name == "vecdot":
        return xp.vecdot(x, y)
    if name == "matvec":
        return xp.matmul(x, y[..., None])[..., 0]
    if name == "vecmat":
        return xp.matmul((xp.conj(x) if dtype.kind == "c" else x)[..., None, :], y)[..., 0, :]
    raise NotImplementedError("the array API has no such product")
