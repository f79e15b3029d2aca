"""The methods of ufuncs (`np.add.reduce`, `np.multiply.outer`, ...) and the keywords of ufunc calls, on Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

METHODS: dict[str, Callable[..., Any]] = {}


def call_with_keywords(entry: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return entry.front(*inputs)
