"""`GUARD`: the check of a value that Python code needed while a list was traced; `CHECK`, the same in source code to ship."""

from __future__ import annotations

from collections.abc import Mapping
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


def checked(x: Any, *, value: Any, message: str) -> Any:
    """Return `x`; raise `ValueError` with a message if it is not equal to `value`."""
    if not np.array_equal(x, value):
        raise ValueError(message)
    return x


CHECK = constant(
    checked,
    spec=lambda x, *, value, message: spec_of(x),
    samples=lambda array: [((np.array([1, 0]),), {"value": np.array([1, 0]), "message": ""})],
    internal=True,
    doc="a list that asks for the value is valid for this value only",
    batch=elementwise,
    raises=lambda specs, params: ((0,), ("check", params["value"].tobytes())),
)


def as_check(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `CHECK` for parameters of `GUARD`."""
    value, line = params["value"], params["line"]
    message = f"The arguments take another path than this code, for which {line} gave {_shown(value)}."
    return {"value": value, "message": message}
