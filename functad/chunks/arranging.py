"""Rules for functions that rearrange elements and keep the rows together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.chunks.rules import Along, Call, Found, Rows, follow, rule
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE


def with_rows(shape: Sequence[int], along: Along) -> tuple[Any, ...]:
    """Return a shape with the number of rows of a chunk as its length along `along`."""
    return (*shape[: along.axis], Rows(along.factor), *shape[along.axis + 1 :])


@rule(RESHAPE)
def _reshape(call: Call) -> Found | None:
    """Apply the rule of reshapes: rows stay together if as many elements precede the row axis as before.

    If the rows are the first axis, the elements of a row may be spread over more or fewer axes.
    """
    (along,), (old,), new = call.alongs, call.shapes, call.params["shape"]
    assert along is not None
    before = math.prod(old[: along.axis])
    for j, length in enumerate(new):
        if math.prod(new[:j]) != before or length == 1:
            continue
        if length == old[along.axis]:
            own: Along | None = Along(j, along.factor)
        else:
            own = call.along(length, j) if before == 1 else None
        return None if own is None else Found((own,), params={"shape": with_rows(new, own)})
    return None


@rule(BROADCAST_TO)
def _broadcast_to(call: Call) -> Found | None:
    (along,), shape = call.alongs, call.params["shape"]
    assert along is not None
    own = Along(along.axis + len(shape) - len(call.shapes[0]), along.factor)
    return Found((own,), params={"shape": with_rows(shape, own)})


@rule(TRANSPOSE)
def _transpose(call: Call) -> Found | None:
    (along,) = call.alongs
    assert along is not None
    return Found((Along(call.params["axes"].index(along.axis), along.factor),))


@rule(np.tril, np.triu)
def _triangle(call: Call) -> Found | None:
    (along,) = call.alongs
    assert along is not None
    return follow(call) if along.axis < len(call.shapes[0]) - 2 else None
