"""Measurement of the time that compilation saves, if the function compiles."""

from __future__ import annotations

import functools
import inspect
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.jit import jit
from functad.eager.models.variable import standing_in
from functad.expressions.spec import PYTHON_SCALARS, dtype_of
from functad.profiling import measure
from functad.profiling.call import Call, quiet
from functad.transforms.calling.transform import Selection
from functad.transforms.grad import gradient_function
from functad.trees.structure import flatten

LARGEST = 5_000
"""Longer lists of operations are not compiled for the measurement, because it could take minutes."""


class Compiled(NamedTuple):
    """Measurements of the compiled value and gradient.

    Attributes:
        seconds: time of a compiled call; `None` if compilation failed or was not tried.
        without: time of an uncompiled call, measured in turn with the compiled calls.
        compiling: time of the first call.
        backend: the name of the backend.
        reason: the reason why nothing was measured.
        static: positions of arguments that had to be static.
    """

    seconds: float | None
    without: float
    compiling: float
    backend: str
    reason: str
    static: tuple[int, ...] = ()


def gradient_of(call: Call) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return value and gradient of a call as one function for `jit`, with its arguments.

    Results that are no single number are summed, so that their cotangents are ones.
    """
    variables, count = call.variables, len(call.args)

    def total(*args: Any, **kwargs: Any) -> Any:
        with standing_in(zip(variables, args[count:], strict=True)):
            out = call.function(*args[:count], **kwargs)
        out = out[0] if call.has_aux else out
        leaves = [leaf for leaf in flatten(out)[0] if dtype_of(leaf).kind in "fc"]
        if len(leaves) == 1 and np.shape(leaves[0]) == () and dtype_of(leaves[0]).kind == "f":
            return leaves[0]
        return sum([np.sum(leaf.real if dtype_of(leaf).kind == "c" else leaf) for leaf in leaves])

    total.__name__ = total.__qualname__ = call.name
    positions = (*[k for k in call.keys if isinstance(k, int)], *range(count, count + len(variables)))
    names = tuple([k for k in call.keys if isinstance(k, str)])
    selection = Selection("jit", total, positions, names or None)
    made = gradient_function(selection, allow_int=True, with_value=True)
    args, kwargs = call.copies()
    return made, (*args, *[v.copied() for v in variables]), kwargs


def compiled(call: Call, operations: int) -> Compiled:
    """Compile value and gradient of a call, and measure them.

    Args:
        call: the call.
        operations: the number of its operations.
    """
    if operations > LARGEST:
        return Compiled(None, 0.0, 0.0, "", f"with {operations} operations, compiling it to measure that could take minutes")
    f, args, kwargs = gradient_of(call)
    static: tuple[int, ...] = ()
    options: dict[str, Any] = {}
    if call.jitted is not None:
        inner = getattr(call.jitted, "__func__", call.jitted)
        own, given, named = inner.given
        options = inspect.signature(jit).bind(own, *given, **named).arguments
        del options["f"]
        if inner is not call.jitted:  # the positions of a method include the object
            options["static_argnums"] = ()
    try:
        return _measured(f, args, kwargs, call, options, static)
    except Exception as error:  # noqa: BLE001 - any exception during the trace becomes the reason
        reason = first_sentence(error)
    integers = tuple([i for i, a in enumerate(call.args) if type(a) in PYTHON_SCALARS and dtype_of(a).kind in "biu"])
    if integers and not options:
        try:
            return _measured(f, args, kwargs, call, {"static_argnums": integers}, integers)
        except Exception:  # noqa: BLE001, S110 - report the first reason
            pass
    return Compiled(None, 0.0, 0.0, "", reason)


def _measured(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Call,
    options: dict[str, Any],
    static: tuple[int, ...],
) -> Compiled:
    """Compile a function and measure it.

    Raises:
        Exception: any error of tracing, compiling or running the function.
    """
    program: Any = jit(f, **options)

    def run() -> tuple[float]:
        start = measure.clock()
        program(*args, **kwargs)
        return (measure.clock() - start,)

    with quiet(), call.undisturbed():
        (first,) = run()
        eager = functools.partial(measure.gradient_times, call)
        times, _ = measure.repeated(lambda: (sum(measure.warm(run)), sum(measure.warm(eager))))  # in turn, for comparison
    seconds, without = (statistics.median(column) for column in zip(*times, strict=True))
    return Compiled(seconds, without, first, program.compiler.backend.name, "", static)


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of an error message, preceded by the type of an error from outside functad."""
    text = " ".join(str(error).split())
    for end in (". ", "? ", "! "):
        place = text.find(end)
        while place >= 0 and text[:place].endswith(("e.g", "i.e", "etc")):
            place = text.find(end, place + 1)
        text = text[: place + 1] if place > 0 else text
    kind = type(error)
    return text if kind.__module__.startswith("functad") else f"{kind.__name__}: {text}"
