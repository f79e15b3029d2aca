"""Host callbacks: NumPy functions inside a program of XLA.

JAX runs callbacks in its own threads. These threads use the user's setting of double precision instead of the program's
setting, so 64-bit values would lose half of their bits. Such values are passed as pairs of 32-bit unsigned integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.backends.xla.engine import jax, jnp, lax
from functad.expressions.spec import ArraySpec
from functad.process import context_variable


class HostCalls:
    """The host callbacks of a program.

    Attributes:
        names: the names of the primitives that NumPy computes, in the part of the program that is traced so far.
        failures: the exceptions of callbacks. XLA would not propagate them.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.failures: list[Exception] = []


HOST: ContextVar[HostCalls | None] = context_variable("host", default=None)
"""The `HostCalls` of the program that JAX traces now; `None` if the program does not check for failures."""


def called(
    name: str,
    function: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    given: Sequence[ArraySpec],
    results: Sequence[ArraySpec],
) -> list[Any]:
    """Return the results of a NumPy function for JAX values, computed in a host callback.

    Args:
        name: the name of the primitive.
        function: a function of NumPy arrays that returns a sequence of results.
        values: the arguments. Constants are passed unchanged.
        given: the specs of the arguments.
        results: the specs of the results.
    """
    host = HOST.get()
    if host is not None:
        host.names.append(name)
    places = [i for i, value in enumerate(values) if isinstance(value, jax.Array)]

    def compute(*bits: Any) -> Any:
        own = list(values)
        for i, each in zip(places, bits, strict=True):
            own[i] = _number(_from_bits(np.asarray(each), given[i]), weak=given[i].weak)
        try:
            with np.errstate(all="ignore"):
                outs = function(*own)
        except Exception as error:
            if host is None:
                raise
            host.failures.append(error)
            outs = [np.zeros(spec.shape, spec.dtype) for spec in results]
        return tuple([_to_bits(np.asarray(out, spec.dtype)) for out, spec in zip(outs, results, strict=True)])

    shapes = tuple([_shape_of_bits(spec) for spec in results])
    found = jax.pure_callback(compute, shapes, *[_given(values[i]) for i in places], vmap_method="sequential")
    return [_taken(bits, spec) for bits, spec in zip(found, results, strict=True)]


def _number(array: Any, *, weak: bool) -> Any:
    """Return a NumPy array; for shape `()` a NumPy scalar, or a Python number if `weak`."""
    return array.item() if weak else array[()]


# NumPy side


def _words(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the shape of one number in 32-bit words; `()` for a dtype that is passed unchanged."""
    if dtype == np.complex128:
        return (2, 2)
    return (2,) if dtype.itemsize == 8 and dtype.kind in "fiu" else ()


def _shape_of_bits(spec: ArraySpec) -> Any:
    words = _words(spec.dtype)
    return jax.ShapeDtypeStruct((*spec.shape, *words), np.uint32 if words else spec.dtype)


def _from_bits(array: Any, spec: ArraySpec) -> Any:
    if not _words(spec.dtype):
        return array
    return np.ascontiguousarray(array).reshape(-1).view(spec.dtype).reshape(spec.shape)


def _to_bits(array: Any) -> Any:
    words = _words(array.dtype)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint32).reshape((*array.shape, *words)) if words else array


# XLA side


def _given(value: Any) -> Any:
    if value.dtype == np.complex128:
        value = jnp.stack((value.real, value.imag), -1)
    return lax.bitcast_convert_type(value, np.uint32) if _words(value.dtype) else value


def _taken(bits: Any, spec: ArraySpec) -> Any:
    words = _words(spec.dtype)
    if not words:
        return bits
    if spec.dtype == np.complex128:
        parts = lax.bitcast_convert_type(bits, np.float64)
        return lax.complex(parts[..., 0], parts[..., 1])
    return lax.bitcast_convert_type(bits, spec.dtype)
