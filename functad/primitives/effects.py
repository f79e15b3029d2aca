"""Calls with an effect, which run once per call and in order: `functad.debug.print`.

An expression list keeps an equation only if a result depends on it, and runs independent equations in any order. A call with
an effect is therefore part of the data flow. Its result is a token, a boolean without meaning. The next such call of the trace
takes the token as an operand, so the order is kept. The results of a loop body or branch are tied to the last token, so they
cannot be computed without the calls. The first call takes the first input of its trace, such as the carry of a loop, so that it
is no loop-invariant code.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.batching import Params, Values, Which, aligned, spread_out
from functad.primitives.entry import Primitive
from functad.primitives.kinds import constant, general


def _examples(values: Sequence[Any], axes: Sequence[Sequence[bool]], shape: Sequence[int]) -> Any:
    """Yield the values of each example; `axes` has for each value and each batch axis `True` if the value has the axis."""
    for index in np.ndindex(*shape):
        yield [
            value[tuple([i for i, own in zip(index, has, strict=True) if own])] if any(has) else value
            for value, has in zip(values, axes, strict=False)
        ]


def _printed(
    *values: Any, text: str, structure: Any, static: tuple[Any, ...], axes: tuple[tuple[bool, ...], ...], shape: tuple[int, ...]
) -> Any:
    """Print a line for each example, and return a token; values after the first `len(axes)` are tokens."""
    for own in _examples(values[: len(axes)], axes, shape):
        given = iter(own)
        args, kwargs = structure.unflatten([next(given) if is_array else leaf for is_array, leaf in static])
        builtins.print(text.format(*args, **kwargs))  # noqa: T201 - the effect
    return np.zeros(shape, np.bool_)[()]


def _batched_print(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Print a line for each example, with the examples of an outer batch inside; one line if the examples print the same."""
    shown = len(params["axes"])
    if not any(batched[:shown]):
        return spread_out(primitive(*values, **params), False, size)
    axes = tuple([(own, *has) for own, has in zip(batched[:shown], params["axes"], strict=True)])
    return primitive(*values, **{**params, "axes": axes, "shape": (size, *params["shape"])})


PRINT = constant(
    _printed,
    doc="a line of text is printed, and the result is a token",
    samples=None,
    spec=lambda *values, shape, **params: ArraySpec(shape, np.dtype(np.bool_)),
    batch=_batched_print,
    internal=True,
    name="print",
    zero_d=False,
    effect=True,
)


def _tied(x: Any, token: Any, /) -> Any:
    return x.copy() if type(x) is np.ndarray else x


def _batched_tie(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Batch with the shape of `x`, even if only the token is batched."""
    x, token = aligned(values, batched)
    return primitive(spread_out(x, batched[0], size), token)


TIE = general(
    _tied,
    lambda g: g,
    None,
    jvps=(lambda t: t, None),
    doc="dx: the value, computed after a call with an effect",
    samples=lambda array: [((array(3), array()), {})],
    spec=lambda x, token: spec_of(x),
    batch=_batched_tie,
    internal=True,
    name="after",
    cost=1e9,  # a backward pass reads the value that the forward pass has computed, so that the effect is not repeated
)
