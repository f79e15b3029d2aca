"""The entries of the registry in tests: their names, and whether users call them or a derivative is declared to be zero."""

from __future__ import annotations

from typing import Any

from functad.primitives.entry import ENTRIES


def label(entry: Any) -> str:
    """Return the name of an entry, with its module unless that is `numpy`; labels are unique."""
    module = getattr(entry.function, "__module__", None) or "numpy"
    return entry.name if module == "numpy" else f"{module}.{entry.name}"


def is_public(entry: Any) -> bool:
    """Return `True` if users call the function of an entry; rules call other entries directly."""
    return ENTRIES.get(entry.function) is entry


def is_constant(entry: Any) -> bool:
    """Return `True` if an entry declares derivative zero."""
    return entry.kind == "constant"


def is_unknown(rule: Any) -> bool:
    """Return `True` if a rule is the placeholder of an unknown derivative; `None` is the rule of a zero derivative."""
    return rule is not None and not callable(rule)
