"""Text and notebook display of Tensors from their known state: a display computes, records and refreshes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.display import array_text, bytes_text, dtype_text, faint, heading, joined, repr_within, tag, view
from functad.expressions.spec import ArraySpec, spec_or_none
from functad.places import line_of, name_of
from functad.primitives.indexing.write import part
from functad.tracing.trace import Recorded, Recorder


def known(tensor: Any) -> tuple[list[Recorder], Any]:
    """Return the recorders of a Tensor, newest first, and its value below all of them.

    The value is a spec in a trace without values. The value of a stale view is read from its root, below all traces. The value
    is `None` for a stale Tensor that may or may not be a view.
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
    """Return the text of a Tensor: its spec, or its value within one `Tensor(...)` for each trace."""
    recorders, value = known(tensor)
    if issubclass(type(value), ArraySpec):
        return f"Tensor({value})"
    opening = "Tensor(" * len(recorders)
    return repr_within(opening, value, ")" * len(recorders))


def tensor_markup(tensor: Any) -> str:
    """Return the HTML display of a Tensor: dtype, shape, value, traces, and the line that made it."""
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
    """Return a sentence about the Tensors of a recorder."""
    tapes = getattr(recorder, "tapes", None)
    if tapes is not None:
        return "Of a GradientTape that records no more." if recorder.inactive else "Followed by a GradientTape that records."
    if recorder.inactive:
        return "A constant: no transform and no tape follows it."
    owner = f"{recorder.transform} of {name_of(recorder.function)}" if recorder.function is not None else recorder.transform
    if recorder.closed:
        return f"Of {owner}, which has ended: it is of no more use."
    size = getattr(recorder, "size", None)
    if size is not None:
        return f"Of {owner}: one of {size} examples."
    if not recorder.has_values:
        return f"Of {owner}: without a value, only dtype and shape are known."
    return f"Followed by {owner}."
