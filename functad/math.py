"""The functions of Python's `math`, for numbers and Tensors.

`math.sin(t)` converts a Tensor to a Python number, which would lose its derivative, and raises. For plain numbers, the
functions here call `math`. For a Tensor of one element they return a Tensor of shape (). They raise the same errors as `math`
for the value of a Tensor. `floor`, `ceil` and `trunc` return integers, with derivative zero wherever it exists. `isnan` and
similar functions return a bool.

Example:
    >>> import functad
    >>> from functad import math
    >>> functad.grad(lambda x: math.sin(x) * math.hypot(x, 1.0))(0.0)
    np.float64(1.0)
    >>> math.sin(0.0)
    0.0
"""

from __future__ import annotations

import functools
import math as _math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import shape_of
from functad.primitives.elementwise import special  # noqa: F401 - entries of functions of `math`
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.operands import concrete, innermost, is_traced, known_values
from functad.process import optional
from functad.tracing.conversions import AskedError, asks_first

_NUMBERS = frozenset({float, int, np.float64, bool})
_ASKED = _NUMBERS | {list, tuple, np.ndarray}

Function = Callable[..., Any]


def _as_number(x: Any) -> Any:
    """Return a Tensor of one element with shape (); anything else unchanged."""
    return x.reshape(()) if is_traced(x) and shape_of(x) else x


def _of_numbers(name: str, on_tensors: Function, doc: str) -> Function:
    """Return a function of `math` that calls `on_tensors(plain, args, options)` if an argument is a Tensor."""
    plain: Function = getattr(_math, name)

    @functools.wraps(plain)
    def called(*args: Any, **options: Any) -> Any:
        for arg in args:
            if type(arg) not in _NUMBERS:
                break
        else:  # the common case
            return plain(*args, **options)
        return on_tensors(plain, args, options) if any(map(is_traced, args)) else plain(*args, **options)

    called.__doc__ = doc
    return called


def _differentiated(name: str, on_tensors: Function) -> Function:
    """Return a function of `math` that calls `on_tensors` for Tensors. If their values are known, `math` raises its errors."""

    def differentiated(plain: Function, args: Sequence[Any], options: dict[str, Any]) -> Any:
        if options:
            return plain(*args, **options)  # raises
        values = known_values(*args)
        if values is not None:
            plain(*values)
        return on_tensors(*map(_as_number, args))

    return _of_numbers(name, differentiated, f"`math.{name}`; of a Tensor it is a Tensor.")


def _by_value(name: str) -> Function:
    """Return a function of `math` with derivative zero. It is called with the values of Tensors."""

    def of_values(plain: Function, args: Sequence[Any], options: dict[str, Any]) -> Any:
        return plain(*[concrete(arg, f"math.{name}") for arg in args], **options)

    return _of_numbers(name, of_values, f"`math.{name}`; of a Tensor it is that of the value, with the derivative zero.")


def _called(plain: Function, /, *args: Any, **options: Any) -> Any:
    """Call a function from a frame without `asks_first`, so that it raises for a Tensor."""
    return plain(*args, **options)


def _of_sequences(name: str, on_tensors: Function) -> Function:
    """Return a function of `math` on sequences that calls `on_tensors` if a sequence contains Tensors."""
    plain: Function = getattr(_math, name)
    of_numbers = functools.partial(_called, plain)

    def called(*args: Any, **options: Any) -> Any:
        for arg in args:
            if type(arg) not in _ASKED:
                break
        else:
            try:
                return plain(*args, **options) if options else plain(*args)
            except AskedError:
                pass
        args = tuple([list(arg) if isinstance(arg, Iterator) else arg for arg in args])
        if any(is_traced(arg) or (type(arg) in (list, tuple) and any(map(is_traced, arg))) for arg in args):
            return on_tensors(*args, **options)
        return of_numbers(*args, **options)

    asks_first(called.__code__)
    functools.update_wrapper(called, plain)
    called.__doc__ = f"`math.{name}`; of Tensors it is a Tensor."
    return called


def _special(name: str) -> Function:
    """Return a function of `scipy.special` that is imported on its first call."""
    return lambda x: getattr(optional("scipy.special", f"math.{name} of a Tensor"), name)(x)


def _log(x: Any, *base: Any) -> Any:
    return np.log(x) / np.log(base[0]) if base else np.log(x)


def _frexp(x: Any) -> tuple[Any, int]:
    exponent = _math.frexp(concrete(x, "math.frexp"))[1]
    half = exponent // 2  # 2.0**-exponent may overflow
    return x * 2.0**-half * 2.0 ** (half - exponent), exponent


def _fsum(values: Sequence[Any]) -> Any:
    """Return the sum with the value of `math.fsum`. The difference to NumPy's sum is a constant."""
    total, known = np.sum(np.stack(list(values))), known_values(*values)
    if known is None:
        return total
    return total + (_math.fsum(known) - innermost(total))


def _remainder(x: Any, y: Any) -> Any:
    """Return `x - n y` with the integer `n` nearest to `x / y`; `x` if `n` is zero, for an infinite `y` too."""
    n = np.rint(x / y)
    return x - n * np.where(n == 0, 1.0, y)


def _hypot(*coordinates: Any) -> Any:
    """Return the length of a vector, without overflow of the squares."""
    return functools.reduce(np.hypot, map(_as_number, coordinates), 0.0)


def _dist(p: Sequence[Any], q: Sequence[Any]) -> Any:
    p, q = list(p), list(q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    return _hypot(*[a - b for a, b in zip(p, q, strict=True)])


def _sum_of_products(p: Sequence[Any], q: Sequence[Any]) -> Any:
    if len(p) != len(q):
        raise ValueError("Inputs are not the same length")
    return np.sum(np.stack(list(p)) * np.stack(list(q)))


_ON_TENSORS: dict[str, Function] = {
    **{
        entry.python.__name__: entry.function
        for entry in ENTRIES.values()
        if isinstance(entry, Primitive) and entry.python is not None and entry.python.__module__ == "math"
    },
    "erf": _special("erf"), "erfc": _special("erfc"), "fma": lambda x, y, z: x * y + z, "frexp": _frexp,
    "gamma": _special("gamma"), "ldexp": np.ldexp, "lgamma": _special("gammaln"), "log": _log, "modf": np.modf,
    "remainder": _remainder,
}  # fmt: skip
"""Differentiable functions of numbers, as functions of Tensors."""

_ON_SEQUENCES: dict[str, Function] = {
    "dist": _dist,
    "fsum": _fsum,
    "hypot": _hypot,
    "prod": lambda values, start=1: start * np.prod(np.stack(list(values))),
    "sumprod": _sum_of_products,
}
"""Differentiable functions of points and sequences of numbers."""

_BY_VALUE = ("ceil", "floor", "isclose", "isfinite", "isinf", "isnan", "trunc", "ulp")
"""Functions with derivative zero wherever it exists."""

__all__ = [name for name in dir(_math) if not name.startswith("_")]
for _name in __all__:
    if _name in _ON_TENSORS:
        globals()[_name] = _differentiated(_name, _ON_TENSORS[_name])
    elif _name in _ON_SEQUENCES:
        globals()[_name] = _of_sequences(_name, _ON_SEQUENCES[_name])
    else:  # constants, and functions of integers, which raise for Tensors themselves
        globals()[_name] = _by_value(_name) if _name in _BY_VALUE else getattr(_math, _name)
