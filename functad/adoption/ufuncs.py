"""The ufuncs of `functad.numpy`: NumPy's ufuncs, extended to lists with Tensors in them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.adoption.signatures import concerns_tensors, with_tensors
from functad.adoption.standing import ABSENT, stands_for
from functad.tracing.conversions import AskedError, asks_first


def ufunc_taking_lists(ufunc: np.ufunc) -> Any:
    """Return a replacement of a ufunc. Its calls and array methods accept lists that contain Tensors."""
    reduces = ufunc.nin == 2 and ufunc.nout == 1 and ufunc.signature is None
    methods = {name: _method(getattr(ufunc, name)) for name in _METHODS} if reduces else {}
    of_known = {1: _of_one, 2: _of_two}.get(ufunc.nin, _of_several) if ufunc.nout == 1 else _of_several
    return stands_for(ufunc, of_known(ufunc), **methods)


_METHODS = ("reduce", "accumulate", "reduceat", "outer")


# `out` is a parameter: packing and unpacking keywords costs 0.15 us more.


def _of_one(ufunc: np.ufunc) -> Callable[..., Any]:
    several, of_tensors = _of_several(ufunc), functools.partial(with_tensors, ufunc)

    def called(x: Any = ABSENT, /, out: Any = None, *others: Any, **kwargs: Any) -> Any:
        try:
            if not kwargs and not others and x is not ABSENT:
                return ufunc(x) if out is None else ufunc(x, out)
        except (AskedError, ValueError) as error:
            if not concerns_tensors(error):
                raise
            call: Callable[..., Any] = of_tensors
        else:
            call = several
        return _seldom(call, [x], out, others, kwargs)

    asks_first(called.__code__)
    return called


def _of_two(ufunc: np.ufunc) -> Callable[..., Any]:
    several, of_tensors = _of_several(ufunc), functools.partial(with_tensors, ufunc)

    def called(x: Any = ABSENT, y: Any = ABSENT, /, out: Any = None, *others: Any, **kwargs: Any) -> Any:
        try:
            if not kwargs and not others and y is not ABSENT:
                return ufunc(x, y) if out is None else ufunc(x, y, out)
        except (AskedError, ValueError) as error:
            if not concerns_tensors(error):
                raise
            call: Callable[..., Any] = of_tensors
        else:
            call = several
        return _seldom(call, [x, y], out, others, kwargs)

    asks_first(called.__code__)
    return called


def _seldom(several: Callable[..., Any], args: list[Any], out: Any, others: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the less frequent calls of a ufunc: lists with Tensors in them, options, or a wrong number of arguments."""
    given = [value for value in args if value is not ABSENT]
    if others:
        return several(*given, out, *others, **kwargs)
    return several(*given, **kwargs) if out is None else several(*given, out=out, **kwargs)


def _of_several(ufunc: np.ufunc) -> Callable[..., Any]:
    of_tensors = functools.partial(with_tensors, ufunc)

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return ufunc(*args, **kwargs) if kwargs else ufunc(*args)
        except (AskedError, ValueError) as error:
            if not concerns_tensors(error):
                raise
        return of_tensors(*args, **kwargs)

    asks_first(called.__code__)
    return called


def _method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a ufunc that accepts lists of Tensors."""
    of_tensors = functools.partial(with_tensors, method)

    def called(a: Any = ABSENT, /, axis: Any = ABSENT, *args: Any, **kwargs: Any) -> Any:
        try:
            if not kwargs and not args and a is not ABSENT:  # `axis` is the second array of `outer`
                return method(a) if axis is ABSENT else method(a, axis)
        except (AskedError, ValueError) as error:
            if not concerns_tensors(error):
                raise
        if a is ABSENT:
            return method(**kwargs, **({} if axis is ABSENT else {"axis": axis}))
        return of_tensors(*[value for value in (a, axis, *args) if value is not ABSENT], **kwargs)

    asks_first(called.__code__)
    return called
