"""The rules that a user gives to `primitive`: refused where they cannot be called, and looked at in what they give."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import CustomRuleError, InputError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.rules.numerical import or_approximate
from functad.transforms.calling.results import guarded
from functad.transforms.calling.selection import parameters_of

_MADE = {"out", "out_shape", "out_dtype", "params", "arrays", "rest", "shapes", "dtypes"}
"""What a rule may read beside arguments."""


def check_counts(own: str, named: Sequence[str], rules: Sequence[Any], forward: Sequence[Any] | None, *, joint: bool) -> None:
    """Raise unless there are as many rules as arrays."""
    if (joint and len(rules) != 1) or (not joint and len(rules) != len(named)):
        raise InputError(
            f"primitive {own}: {len(rules)} rules for the arrays {', '.join(named) or '(none)'}, at {here()}: give one for "
            f"each, None for a derivative of zero" + (", or a single one that is joint." if joint else ".")
        )
    if forward is not None and len(forward) != len(named):
        raise InputError(f"primitive {own}: {len(forward)} JVP rules for {len(named)} arrays, at {here()}.")


def check_arguments(own: str, f: Any, named: Sequence[str], rules: Sequence[Any]) -> None:
    """Refuse rules that could not be called: what they read is looked up by name.

    Args:
        own: the name of the primitive.
        f: its function.
        named: the names of its arrays.
        rules: of both modes.

    Raises:
        InputError: one is no function with named arguments, or reads what is neither an argument nor made of the result.
    """
    parameters = {} if isinstance(f, np.ufunc) else parameters_of(f)
    known = None if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else {*named, *parameters}
    for rule in rules:
        if rule is None:
            continue
        read = list((parameters_of(rule) or {}).values()) if callable(rule) else []
        shown = f"lambda g, {', '.join(named[:1] or ['out'])}: ..., where g is the cotangent, or the tangent"
        if not read or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in read):
            raise InputError(f"primitive {own}: a rule must be a function that names what it reads, at {here()}: {shown}.")
        if read[0].name in set(named) - {"g", "t"}:
            raise InputError(f"primitive {own}: a rule takes {read[0].name} first, at {here()}. It must be {shown}.")
        for name in [p.name for p in read[1:]]:
            if known is not None and name not in known | _MADE and not _is_about(name, named):
                raise InputError(
                    f"primitive {own}: a rule reads {name!r}, at {here()}, which is no argument of {own}. There are "
                    f"{', '.join(list(named) + [p for p in parameters or () if p not in named])}, and out for the result."
                )


def _is_about(name: str, named: Sequence[str]) -> bool:
    """Say whether a name asks for the shape, dtype or layout of an array."""
    stem, _, asked = name.rpartition("_")
    return stem in named and asked in ("shape", "dtype", "layout")


def guarded_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule that cannot change what it reads: other rules read it too."""

    @functools.wraps(rule)
    def call(*read: Any) -> Any:
        return rule(*[tuple(map(guarded, value)) if type(value) is tuple else guarded(value) for value in read])

    return call


def checked_rule(rule: Callable[..., Any], name: str, own: str) -> Callable[..., Any]:
    """Return a rule that looks at the shape of the cotangent that it gives."""
    signature = inspect.signature(rule)
    seen = f"{name}_shape"
    added = seen not in signature.parameters
    anywhere = or_approximate(rule, f"rule of {own} for {name}")

    def checked(g: Any, *read: Any) -> Any:
        shape = read[-1] if added else read[list(signature.parameters).index(seen) - 1]
        ct = anywhere(g, shape, *(read[:-1] if added else read))
        if shape_of(ct) != shape:
            raise CustomRuleError(
                f"the rule of {own} for {name} gave a cotangent of shape {shape_of(ct)}, but {name} has shape {shape}, at "
                f"{here()}."
            )
        return ct

    parameters = list(signature.parameters.values())
    if added:
        parameters.append(inspect.Parameter(seen, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    parameters = [p.replace(default=inspect.Parameter.empty, kind=p.POSITIONAL_OR_KEYWORD) for p in parameters]
    checked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return checked


def checked_joint(rule: Callable[..., Any], named: Sequence[str], own: str) -> Callable[..., Any]:
    """Return a joint rule that looks at how many cotangents it gives."""

    @functools.wraps(rule)
    def checked(*read: Any) -> Any:
        cts = rule(*read)
        if not isinstance(cts, (tuple, list)) or len(cts) != len(named):
            found = f"{len(cts)} cotangents" if isinstance(cts, (tuple, list)) else f"a {type(cts).__name__}"
            raise CustomRuleError(
                f"the joint rule of {own} gave {found}, at {here()}: it must return a tuple with a cotangent for each of "
                f"{', '.join(named)}."
            )
        return cts

    return checked
