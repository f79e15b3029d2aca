"""Formulas that SciPy's Python code chooses by values: if values are unknown or differ between examples, compute all formulas.

If the values are known, SciPy's own functions run and compute only the chosen formula.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from functad.primitives.operands import known_values


def where_unknown(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method for `of_methods`: SciPy's own if its arguments are known, otherwise `function`."""

    def called(original: Any, *args: Any, **kwargs: Any) -> Any:
        if known_values(*args, *kwargs.values()) is not None:
            return original(*args, **kwargs)
        return function(*args, **kwargs)

    return called


def _tuple(arrays: Any) -> tuple[Any, ...]:
    return tuple(arrays) if isinstance(arrays, (list, tuple)) else (arrays,)


def lazily(part: str, name: str, enter: Callable[..., Any]) -> None:
    """Register a replacement for a SciPy function that chooses between formulas; unknown values select with `np.where`.

    Args:
        part: the module of the function; the installed SciPy may lack it.
        name: the name of the function.
        enter: `of_tensors`.
    """
    try:
        original = getattr(import_module(part), name, None)
    except ModuleNotFoundError:
        return
    if original is not None:
        enter(part, name)(_CHOICES[name](original))


def _where(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `apply_where(cond, args, f1, f2, fill_value=)` and `_lazywhere(cond, arrays, f, fillvalue, f2)`."""

    def chosen(cond: Any, arrays: Any, f: Any, *rest: Any, **options: Any) -> Any:
        arrays = _tuple(arrays)
        if known_values(cond, *arrays) is not None:
            return original(cond, arrays, f, *rest, **options)
        named = [value for key, value in options.items() if key != "xp" and value is not None]
        other = next(value for value in (*rest, *named) if value is not None)
        return np.where(cond, f(*arrays), other(*arrays) if callable(other) else other)

    return chosen


def _select(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `_lazyselect(condlist, choicelist, arrays, default)`."""

    def chosen(condlist: Any, choicelist: Any, arrays: Any, default: Any = 0) -> Any:
        if known_values(*condlist, *arrays) is not None:
            return original(condlist, choicelist, arrays, default)
        found = default
        for cond, choice in reversed(list(zip(condlist, choicelist, strict=True))):
            found = np.where(cond, choice(*arrays) if callable(choice) else choice, found)
        return found

    return chosen


_CHOICES = {"apply_where": _where, "_lazywhere": _where, "_lazyselect": _select}
