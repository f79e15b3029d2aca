"""The array arguments of registered functions: their names, and `*args` that takes any number of arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.errors import CustomRuleError, InputError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.operands import layout_of
from functad.transforms.calling.transform import parameters_of

_TRAITS: dict[str, Callable[[Any], Any]] = {"shape": shape_of, "dtype": dtype_of, "layout": layout_of}


def names_of_arrays(f: Any, names: Sequence[str] | None, count: int, own: str, *, joint: bool) -> list[str]:
    """Return the names of the array arguments."""
    if names is not None:
        return list(names)
    if isinstance(f, np.ufunc):
        return ["x", "y", "z"][: f.nin]
    parameters = parameters_of(f)
    if parameters is None:
        raise InputError(f"primitive {own}: its signature is not known, so give names= of its arrays, at {here()}.")
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    chosen = [p for p in positional if p.default is p.empty] if joint else positional[:count]
    many = variadic(f) if joint else None
    return [p.name for p in chosen] + ([] if many is None else [many])


def variadic(f: Any) -> str | None:
    """Return the name of the parameter that takes any number of positional arguments; `None` if there is none."""
    parameters = None if isinstance(f, np.ufunc) else parameters_of(f)
    return next((p.name for p in (parameters or {}).values() if p.kind is p.VAR_POSITIONAL), None)


def grouped(names: Sequence[str], many: str | None, arrays: Sequence[Any]) -> dict[str, Any]:
    """Return the arrays of a call by name. The name `many` gets a tuple with the arrays that the other names leave."""
    given = iter(arrays)
    left = len(arrays) - len(names) + 1
    return {name: tuple([next(given) for _ in range(left)]) if name == many else next(given) for name in names}


def caller(f: Any, names: Sequence[str]) -> Callable[..., Any]:
    """Return `call(*arrays, **params)`, which passes each array to the parameter of its name."""
    if isinstance(f, np.ufunc):
        return f
    parameters, many = parameters_of(f) or {}, variadic(f)
    first = list(parameters)[: len(names)] == list(names)
    positional = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_ONLY]
    unnamed = not set(names) <= set(parameters)
    if not parameters or unnamed or (first and len(positional) <= len(names) and many is None):
        return f  # type: ignore[no-any-return]
    if many is not None:  # arguments before `*args` must be positional
        positional = list(parameters)[: list(parameters).index(many)]

    def call(*arrays: Any, **params: Any) -> Any:
        given = grouped(names, many, arrays) | params
        args = [given.pop(name) for name in positional]
        return f(*args, *(() if many is None else given.pop(many)), **given)

    return call


def joint_rule(rule: Callable[..., Any], names: Sequence[str], many: str | None, own: str) -> Callable[..., Any]:
    """Return a joint rule that checks the number of its cotangents.

    A primitive that takes any number of arrays has no names for them. Its rule receives all `arrays`, and finds each by name.
    """

    @functools.wraps(rule)
    def checked(*read: Any) -> Any:
        return _for_each(rule(*read), names, len(names), own)

    if many not in names:
        return checked
    wanted = list(parameters_of(rule) or {})[1:]
    others = [name for name in wanted if name != "arrays" and _part(name, names) is None]

    def named(g: Any, arrays: tuple[Any, ...], *values: Any) -> Any:
        given = {"arrays": arrays, **dict(zip(others, values, strict=True))}
        groups = grouped(names, many, arrays)
        read = [given[name] if name in given else _read(_part(name, names), groups, many) for name in wanted]
        return _for_each(rule(g, *read), names, len(arrays), own)

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ["g", "arrays", *others]]
    named.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return named


def _for_each(cts: Any, names: Sequence[str], count: int, own: str) -> Any:
    """Return the cotangents of a joint rule. Raise unless there is one for each array."""
    if not isinstance(cts, (tuple, list)) or len(cts) != count:
        found = f"{len(cts)} cotangents" if isinstance(cts, (tuple, list)) else f"a {type(cts).__name__}"
        arrays = ", ".join(names) if len(names) == count else f"the {count} arrays of {', '.join(names)}"
        raise CustomRuleError(
            f"the joint rule of {own} gave {found}, at {here()}: it must return a tuple with a cotangent for each of {arrays}."
        )
    return cts


def _part(name: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the array that a rule reads by a name, and the trait after its name; `None` if no array has the name."""
    stem, _, trait = name.rpartition("_")
    return (name, "") if name in names else (stem, trait) if stem in names and trait in _TRAITS else None


def _read(part: tuple[str, str] | None, groups: Mapping[str, Any], many: str | None) -> Any:
    assert part is not None
    name, trait = part
    if not trait:
        return groups[name]
    return tuple(map(_TRAITS[trait], groups[name])) if name == many else _TRAITS[trait](groups[name])
