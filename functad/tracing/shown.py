"""How Tensors are shown: what is known of them is told, and nothing is computed, recorded or read anew for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.display.amounts import bytes_text
from functad.display.markup import faint, heading, joined, tag, view
from functad.display.values import array_text, dtype_text, repr_within
from functad.expressions.spec import ArraySpec, spec_or_none
from functad.places import line_of, name_of
from functad.primitives.indexing.write import part
from functad.tracing.traces.base import Recorded, Recorder


def known(tensor: Any) -> tuple[list[Recorder], Any]:
    """Return the recorders of the traces that a Tensor is in, from the newest on, and its value below all of them.

    Where a trace has no values that is a spec. The value of a view of what was written to since is read from what it views,
    past all traces; it is `None` where it is in doubt whether that is one.
    """
    recorders: list[Recorder] = []
    paths, value = [], tensor
    while issubclass(type(value), Recorded):
        if value.below is None:
            origin = getattr(value, "origin", None)
            if origin is None:
                return [*recorders, value.recorder], None
            value, path = origin
            paths.append(path)
        else:
            recorders.append(value.recorder)
            value = value.below
    for path in reversed(paths):
        if not issubclass(type(value), ArraySpec):
            value = part(value, path)
        else:
            model = part(np.empty(value.shape, value.dtype), path)
            value = ArraySpec(model.shape, model.dtype)
    return recorders, value


def tensor_text(tensor: Any) -> str:
    """Return the text of a Tensor: its value or its spec, within a pair of brackets for each trace."""
    recorders, value = known(tensor)
    if issubclass(type(value), ArraySpec):
        return f"Tensor({value})"
    opening = "Tensor(" * len(recorders)
    return repr_within(opening, value, ")" * len(recorders))


def tensor_markup(tensor: Any) -> str:
    """Return the display of a Tensor for notebooks: dtype and shape, the value, whose it is, and the line that made it."""
    recorders, value = known(tensor)
    spec = spec_or_none(value)
    facts = [dtype_text(spec.dtype), str(spec.shape), bytes_text(spec.nbytes)] if spec else []
    line = line_of(tensor.code, tensor.instruction) if tensor.code is not None else ""
    told = [trace_text(recorder) for recorder in recorders]
    place = [joined(" Made at ", tag("code", line), ".")] if line else []
    return view(
        heading("Tensor", *facts),
        None if value is None or issubclass(type(value), ArraySpec) else tag("pre", array_text(value)),
        *[tag("div", faint(joined(text, *(place if text is told[0] else [])))) for text in told],
    )


def trace_text(recorder: Recorder) -> str:
    """Say in a sentence what a Tensor of a recorder is."""
    tapes = getattr(recorder, "tapes", None)
    if tapes is not None:
        return "Of a GradientTape that records no more." if recorder.inactive else "Followed by a GradientTape that records."
    if recorder.inactive:
        return "A constant: no transform and no tape follows it."
    whose = f"{recorder.transform} of {name_of(recorder.function)}" if recorder.function is not None else recorder.transform
    if recorder.closed:
        return f"Of {whose}, which has ended: it is of no more use."
    return recorder.described(whose)
