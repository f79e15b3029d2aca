"""The ufuncs of `functad.numpy`: NumPy's, which take lists with Tensors in them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.adoption.signatures import LISTS, as_array, calling_first
from functad.adoption.standing import ABSENT, stands_for
from functad.tracing.tensor import GIVEN
from functad.tracing.traces.base import OPEN


def ufunc_taking_lists(ufunc: np.ufunc) -> Any:
    """Make a stand-in for a ufunc: its calls, and those of its methods that take arrays, take lists with Tensors in them."""
    number = ufunc.nin if ufunc.nout == 1 else 0
    methods = {name: _method(getattr(ufunc, name)) for name in _METHODS} if number == 2 and ufunc.signature is None else {}
    return stands_for(ufunc, {1: _of_one, 2: _of_two}.get(number, _of_several)(ufunc), **methods)


_METHODS = ("reduce", "accumulate", "reduceat", "outer")


def _of_one(ufunc: np.ufunc) -> Callable[..., Any]:
    several, running = _of_several(ufunc), OPEN.get

    def called(x: Any = ABSENT, /, *others: Any, **kwargs: Any) -> Any:
        if x is ABSENT or others or kwargs:
            return several(*(() if x is ABSENT else (x, *others)), **kwargs)
        if type(x) not in LISTS:
            return ufunc(x)
        if running() is None:  # as in `calling_first`, which would take another 0.1 us
            before = GIVEN[0]
            try:
                out = ufunc(x)
            except Exception:  # noqa: BLE001, S110 - it is raised again below, if no Tensor is there
                pass
            else:
                if GIVEN[0] is before:
                    return out
        return several(x)

    return called


def _of_two(ufunc: np.ufunc) -> Callable[..., Any]:
    several = _of_several(ufunc)

    def called(x: Any = ABSENT, y: Any = ABSENT, /, *others: Any, out: Any = None, **kwargs: Any) -> Any:
        if y is ABSENT or others or kwargs:
            given = [value for value in (x, y, *others) if value is not ABSENT]
            return several(*given, **kwargs) if out is None else several(*given, out=out, **kwargs)
        if out is not None:
            return several(x, y, out=out)
        if type(x) not in LISTS and type(y) not in LISTS:
            return ufunc(x, y)
        return calling_first(ufunc, several, x, y)

    return called


def _of_several(ufunc: np.ufunc) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        for value in args:
            if type(value) in LISTS:
                args = tuple(map(as_array, args))
                break
        return ufunc(*args, **kwargs) if kwargs else ufunc(*args)

    return called


def _method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a ufunc, of which arguments may be lists of Tensors."""

    def called(a: Any = ABSENT, /, axis: Any = ABSENT, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and not args and type(a) not in LISTS:  # `axis` is the second array of `outer`
            if axis is ABSENT:
                return method() if a is ABSENT else method(a)
            if type(axis) not in LISTS:
                return method(a, axis)
        if a is ABSENT:
            return method(**kwargs, **({} if axis is ABSENT else {"axis": axis}))
        return method(*[as_array(value) for value in (a, axis, *args) if value is not ABSENT], **kwargs)

    return called
