"""Array creation from the shape and dtype of a Tensor (`zeros_like`), or with `like=` a Tensor (`np.zeros(3, like=t)`).

Most of these functions create constants. Floating-point and complex constants are still Tensors: buffers for writes of other
Tensors. Arrays filled with Tensors or built from Tensors depend on them: `np.full(3, t, like=t)`,
`np.array([t0, t1], like=t0)`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, shape_of
from functad.primitives.arranging.reshape import RESHAPE, Calls, as_shape, atleast, in_c_order, in_fortran_order
from functad.primitives.arranging.shapes import model_of, query
from functad.primitives.elementwise.conversion import COPY, array_of_number, astype
from functad.primitives.entry import Samples
from functad.primitives.kinds import composite
from functad.primitives.operands import as_operand, concrete, innermost, is_traced, strong


def writable(made: Any, model: Any) -> Any:
    """Return `made` as a buffer if `model` is a Tensor, so that Tensors can be written into it."""
    return type(model).__functad_buffer__(model, made) if is_traced(model) else made


# Functions with a model argument

_MADE = "shape and dtype come from the argument, its value does not matter"


def _made_samples(array: Any) -> Calls:
    return [
        ((array(2, 3),), {}),
        ((array(),), {}),
        ((array(2),), {"dtype": np.float32}),
        ((array(2),), {"shape": (1, 3)}),
        ((array(2),), {"shape": 2, "dtype": int}),
        ((array(0),), {}),
    ]


def _enter_made(function: Any) -> None:
    @query(function, doc=_MADE, samples=_made_samples)
    def made(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
        return writable(function(model_of(a), dtype, order, False, shape), a)


_enter_made(np.zeros_like)
_enter_made(np.ones_like)


@query(np.empty_like, doc=_MADE, samples=lambda array: [((array(0),), {}), ((array(2),), {"shape": (0, 3)})])
def _empty_like(
    prototype: Any, /, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    return writable(np.empty_like(model_of(prototype), dtype, order, False, shape), prototype)


def _full_like_samples(array: Any) -> Calls:
    keywords = {"dtype": array().dtype} if array().dtype.kind == "c" else {}  # a real model would drop imaginary parts
    return [
        ((array(2, 3), 1.5), {}),
        ((array(2, 3), array()), keywords),
        ((array(2, 3), array(3)), keywords),
        ((array(2), array()), {"shape": (3,), **keywords}),
        ((array(2), 2.0), {"dtype": np.float32}),
    ]


@composite(np.full_like, samples=_full_like_samples, doc="linear in the fill value; the model's value does not matter")
def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    fill_value = as_operand(fill_value)
    if not is_traced(fill_value):
        return writable(np.full_like(model_of(a), fill_value, dtype, order, False, shape), a)
    made = writable(np.empty_like(model_of(a), dtype_of(a) if dtype is None else dtype, order, False, shape), a)
    if is_traced(made) and issubclass(type(innermost(made)), (np.ndarray, ArraySpec)):
        made[...] = fill_value
        return made
    return astype(np.broadcast_to(fill_value, made.shape), made.dtype)


# Functions with `like=`


def _enter_created(function: Any, samples: Samples, *, creates: bool = False) -> None:
    """Register a creation function. NumPy dispatches it here if `like=` is a Tensor; it returns a plain array."""
    query(function, doc="makes a constant", samples=samples, creates=creates)(function)


_enter_created(np.zeros, lambda array: [((2,), {"like": array(1)}), (((2, 3), np.float32), {"like": array(1)})], creates=True)
_enter_created(np.ones, lambda array: [((2,), {"like": array(1)}), (((2, 3), np.float32), {"like": array(1)})], creates=True)
_enter_created(np.empty, lambda array: [((0,), {"like": array(1)})], creates=True)
_enter_created(np.eye, lambda array: [((3,), {"like": array(1)}), ((2, 3), {"k": 1, "like": array(1)})], creates=True)
_enter_created(np.identity, lambda array: [((3,), {"like": array(1)})], creates=True)
_enter_created(np.tri, lambda array: [((3,), {"like": array(1)}), ((2, 3, 1), {"dtype": int, "like": array(1)})])
_enter_created(np.frombuffer, lambda array: [((b"12345678",), {"like": array(1)})])
_enter_created(np.fromstring, lambda array: [(("1 2 3",), {"sep": " ", "like": array(1)})])
_enter_created(np.fromfile, lambda array: [((os.devnull,), {"like": array(1)})])
_enter_created(np.loadtxt, lambda array: [((["1 2", "3 4"],), {"like": array(1)})])
_enter_created(np.genfromtxt, lambda array: [((["1 2", "3 4"],), {"like": array(1)})])


@composite(
    np.full,
    samples=lambda array: [((3, 1.5), {"like": array(1)}), (((2, 3), array(3)), {"like": array(1)})],
    doc="linear in the fill value; Tensors are seen if `like=` is one",
    creates=True,
)
def _full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    fill_value = as_operand(fill_value)
    if not is_traced(fill_value):
        return np.full(shape, fill_value, dtype, order)
    filled = np.broadcast_to(fill_value, as_shape(shape))
    return COPY(astype(filled, dtype_of(fill_value) if dtype is None else dtype, copy=False), order=order)


@composite(
    np.arange,
    samples=lambda array: [
        ((3,), {"like": array(1)}),
        ((1.0, 2.0, 0.5), {"like": array(1)}),
        ((np.real(array(low=-2, high=-1)), np.real(array(low=1))), {"like": array(1)}),
        ((np.real(array(low=-2, high=-1)), 2.0, None), {"like": array(1)}),
        ((np.real(array(low=-2, high=-1)), 2.0, np.real(array(low=0.6, high=0.9))), {"like": array(1)}),
        ((1.0, np.real(array(low=1.3))), {"step": 0.5, "dtype": np.float64, "like": array(1)}),
    ],
    value_dependent=True,
    doc="the start, and the step times the number of the element; the stop only decides how many there are",
)
def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None) -> Any:
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    first, last, by = (concrete(value, "np.arange") for value in (start, stop, step))
    foreign = [value for value in (first, last, by) if type(value) not in PLAIN and not issubclass(type(value), np.generic)]
    plain = np.arange(first, last, by, dtype=dtype, like=foreign[0]) if foreign else np.arange(first, last, by, dtype=dtype)
    if not is_traced(start) and not is_traced(step):
        return plain
    return astype(start + np.arange(len(plain)) * step, plain.dtype, copy=False)


# Conversions to arrays


def _list_samples(array: Any) -> Calls:
    like = array(1)
    wider = np.result_type(array().dtype, np.float64)
    return [
        ((array(3),), {"like": like}),
        ((array(2, 3),), {"like": like}),
        (([array(), 1.5, array()],), {"like": like}),
        (([[array(), array()], (1, 2)],), {"like": like}),
        (([array(2), array(2)],), {"dtype": wider, "like": like}),
        ((array(),), {"like": like}),
        (([1, 2],), {"like": like}),
    ]


def _built(value: Any, dtype: Any) -> Any:
    """Return a Tensor if `value` contains Tensors, otherwise a NumPy array."""
    value = as_operand(value)
    if not is_traced(value):
        return np.asarray(value, dtype)
    value = array_of_number(strong(value))
    return value if dtype is None else astype(value, dtype, copy=False)


@composite(
    np.array,
    samples=lambda array: [
        *_list_samples(array),
        ((array(2),), {"ndmin": 3, "copy": False, "like": array(1)}),
        (([array(2)],), {"copy": None, "like": array(1)}),
    ],
    doc="linear; Tensors are seen if `like=` is one",
)
def _array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    **newer: Any,
) -> Any:
    out = _ordered(_built(object, dtype), order, copy)
    if len(shape_of(out)) < ndmin:
        out = RESHAPE(out, shape=(1,) * (ndmin - len(shape_of(out))) + shape_of(out))
    return out


def _ordered(a: Any, order: Any, copy: Any) -> Any:
    """Return an array or Tensor in the memory order `order`, copied if `copy` or the order requires it."""
    if copy is True or copy is np._CopyMode.ALWAYS or (copy is not None and type(copy) is not np._CopyMode and copy):
        return COPY(a, order=order or "K")
    if order == "F":
        return in_fortran_order(a)
    return in_c_order(a) if order == "C" else a


def _enter_conversion(function: Any, ndmin: int, fixed: Any = None) -> None:
    """Register a conversion that copies only if necessary, to the memory order `fixed` or the requested order."""

    @composite(function, samples=_list_samples, doc="linear; Tensors are seen if `like=` is one")
    def converted(a: Any, dtype: Any = None, order: Any = None, *args: Any, copy: bool | None = None, **kwargs: Any) -> Any:
        return atleast(_ordered(_built(a, dtype), fixed or order, copy), ndmin)


_enter_conversion(np.asarray, 0)
_enter_conversion(np.asanyarray, 0)
_enter_conversion(np.ascontiguousarray, 1, "C")
_enter_conversion(np.asfortranarray, np.ndim(np.asfortranarray(np.float64(0))), "F")


@composite(np.require, samples=_list_samples, doc="linear; Tensors are seen if `like=` is one")
def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    wanted = {name.upper()[0] for name in ([requirements] if isinstance(requirements, str) else requirements or ())}
    order = "F" if "F" in wanted else "C" if "C" in wanted else None
    out = _ordered(_built(a, dtype), order, None)
    flags = getattr(innermost(out), "flags", None)
    lacks = flags is not None and any(not flags[name] for name in wanted & {"O", "W"})
    return COPY(out, order=order or "K") if lacks else out


@composite(
    np.fromiter,
    samples=lambda array: [
        (([array(), array(), array()], array().dtype), {"like": array(1)}),
        (([array(2), array(2)], (array().dtype, 2)), {"count": 2, "like": array(1)}),
        (([1, 2, 3], float), {"count": 2, "like": array(1)}),
    ],
    doc="linear in the elements; Tensors are seen if `like=` is one",
)
def _fromiter(iter: Any, dtype: Any, count: int = -1) -> Any:
    elements = list(iter)
    if not any(map(is_traced, elements)):
        return np.fromiter(elements, dtype, count)
    if count > len(elements):
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(elements)} items.")
    return _built(elements if count < 0 else elements[:count], np.dtype(dtype).base)


@composite(
    np.fromfunction,
    samples=lambda array: [
        ((lambda i, j, scale: scale * i + j, (2, 3)), {"scale": array(), "like": array(1)}),
        ((lambda i: i + 1, (3,)), {"dtype": int, "like": array(1)}),
    ],
    doc="that of the function",
)
def _fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    return function(*np.indices(shape, dtype=dtype), **kwargs)
