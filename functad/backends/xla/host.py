"""Host callbacks: NumPy functions inside a program of XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.backends.xla.engine import jax
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

    def compute(*arrays: Any) -> Any:
        own = list(values)
        for i, each in zip(places, arrays, strict=True):
            array = np.asarray(each)
            own[i] = array.item() if given[i].weak else array[()]
        try:
            with np.errstate(all="ignore"):
                outs = function(*own)
        except Exception as error:
            if host is None:
                raise
            host.failures.append(error)
            outs = [np.zeros(spec.shape, spec.dtype) for spec in results]
        return tuple([np.asarray(out, spec.dtype) for out, spec in zip(outs, results, strict=True)])

    shapes = tuple([jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in results])
    return list(jax.pure_callback(compute, shapes, *[values[i] for i in places], vmap_method="sequential"))
