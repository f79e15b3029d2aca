"""`GUARD`: the check of a value that Python code needed while a list was traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import GuardError
from functad.expressions.spec import spec_of
from functad.places import here
from functad.primitives.batching import elementwise
from functad.primitives.kinds import constant


def _checked(x: Any, *, value: np.ndarray[Any, Any], line: str) -> Any:
    if not np.array_equal(x, value):
        raise GuardError(
            f"a list that is valid for other values, at {here()}: Python code at {line} gave {_shown(value)} when the list was "
            f"traced, and gives {_shown(x)} now. Trace the function with these values, or call functad.jit of it, which keeps "
            f"a list for each way through the code."
        )
    return x


def _shown(x: Any) -> str:
    return str(x.item()) if x.size == 1 else f"{x.size:,} other values"


GUARD = constant(
    _checked,
    spec=lambda x, *, value, line: spec_of(x),
    samples=lambda array: [((np.array([1, 0]),), {"value": np.array([1, 0]), "line": ""})],
    name="guard",
    internal=True,
    doc="a list that asks for the value is valid for this value only",
    batch=elementwise,
    raises=lambda specs, params: ((0,), ("guard", params["value"].tobytes())),
)
