"""Host callbacks: NumPy functions inside a program of XLA.

JAX runs callbacks in its own threads. These threads use the user's setting of double precision instead of the program's
setting, so 64-bit values of large arrays can lose half of their bits. Such values are passed as pairs of 32-bit words.
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
    """Return the results of a NumPy function for JAX values, computed in a host callback: scalars for shape `()`.

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

    shapes = tuple(map(_words_of, results))

    def compute(*words: Any) -> Any:
        own = list(values)
        for i, each in zip(places, words, strict=True):
            array = np.ascontiguousarray(each).reshape(-1).view(given[i].dtype).reshape(given[i].shape)
            own[i] = array.item() if given[i].weak else array[()]
        try:
            with np.errstate(all="ignore"):
                outs = function(*own)
        except Exception as error:
            if host is None:
                raise
            host.failures.append(error)
            outs = [np.zeros(spec.shape, spec.dtype) for spec in results]
        arrays = [np.ascontiguousarray(np.asarray(out, spec.dtype)) for out, spec in zip(outs, results, strict=True)]
        return tuple([a.reshape(-1).view(to.dtype).reshape(to.shape) for a, to in zip(arrays, shapes, strict=True)])

    found = jax.pure_callback(compute, shapes, *[_to_words(values[i]) for i in places], vmap_method="sequential")
    return [_from_words(words, spec) for words, spec in zip(found, results, strict=True)]


def _part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of complex numbers, or of other numbers."""
    return np.zeros((), dtype).real.dtype


def _words_of(spec: ArraySpec) -> Any:
    """Return shape and dtype of the words of an array."""
    part = _part_of(spec.dtype)
    axes = (2,) * ((spec.dtype.kind == "c") + (part.itemsize == 8))
    return jax.ShapeDtypeStruct((*spec.shape, *axes), np.uint32 if part.itemsize == 8 else part)


def _to_words(value: Any) -> Any:
    if value.dtype.kind == "c":
        value = jnp.stack((value.real, value.imag), -1)
    return lax.bitcast_convert_type(value, np.uint32) if value.dtype.itemsize == 8 else value


def _from_words(words: Any, spec: ArraySpec) -> Any:
    part = _part_of(spec.dtype)
    parts = lax.bitcast_convert_type(words, part) if part.itemsize == 8 else words
    return lax.complex(parts[..., 0], parts[..., 1]) if spec.dtype.kind == "c" else parts
