"""What derivative rules of the user's return, checked and taken apart: each leaf by its name, such as `args[0]['w']`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import CustomRuleError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number, is_inexact, shape_of, spec_of
from functad.places import here, name_of
from functad.transforms.calling.arguments import as_dtype, value_of
from functad.trees.structure import Structure, _split, _steps, difference, flatten

_OF_NUMPY = frozenset({np.ndarray, np.float64, np.float32})


def cotangents_of(
    found: Any, rule_of: tuple[Any, Any], structures: Sequence[Structure], nondiff: Sequence[int], args: Sequence[Any]
) -> list[Any]:
    """Return the cotangent of each leaf of the arguments, `None` for zero, from what a backward rule returned.

    `rule_of` is the function and its rule.

    Raises:
        CustomRuleError: it does not fit the arguments.
    """
    wanted = [i for i in range(len(structures)) if i not in nondiff]
    if type(found) is tuple and len(found) == len(structures) == len(wanted) and all(map(_fits, found, args)):
        return list(found)  # as nearly always: one array or number for each
    rule = rule_name("backward", *rule_of)
    if not isinstance(found, (tuple, list)) or len(found) != len(wanted):
        what = f"{len(found)} cotangents" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
        one = ", (g,)" if len(wanted) == 1 else ""
        raise CustomRuleError(
            f"{rule} returned {what} for {len(wanted)} arguments, at {here()}: return a tuple{one} with one for each, None "
            "for zero."
        )
    given = iter(found)
    leaves: list[Any] = []
    for i, (structure, arg) in enumerate(zip(structures, args, strict=True)):
        path = f"args[{i}]"
        cts = [None] * structure.leaves if i in nondiff else _spread(next(given), structure, path, rule)
        for ct, value, name in zip(cts, flatten(arg)[0], structure.paths(path), strict=True):
            leaves.append(_fitting(ct, value, name, rule, "cotangent", "argument"))
    return leaves


def _fits(ct: Any, arg: Any) -> bool:
    """Say whether it is clear at once that a cotangent fits an argument that is one real array or number."""
    if type(ct) not in _OF_NUMPY or (type(arg) is not float and type(arg) not in _OF_NUMPY):
        return False
    return ct.shape == shape_of(arg) and ct.dtype == dtype_of(arg) and ct.dtype.kind == "f"  # type: ignore[no-any-return]


def rule_name(kind: str, function: Any, rule: Any) -> str:
    """Name a rule for a message, with the line where it is defined."""
    code = getattr(rule, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the {kind} rule of {name_of(function)}{where}"


def check_pair(pair: Any, rule: str, second: str) -> None:
    """Raise unless a rule has returned a pair, the value and what is called `second`.

    Raises:
        CustomRuleError: it has not.
    """
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise CustomRuleError(f"{rule} must return a pair, the value and {second}, not a {type(pair).__name__}, at {here()}.")


def _spread(tree: Any, structure: Structure, path: str, rule: str) -> list[Any]:
    """Return the leaves of a tree of a structure, in which `None` may stand for a whole branch."""
    if tree is None:
        return [None] * structure.leaves
    if structure.kind is None:
        return [tree]
    parts = _split(tree)
    if parts is None or parts[0] is not structure.kind or parts[1] != structure.data:
        raise CustomRuleError(f"{rule}: {difference(structure, flatten(tree)[1], path)}, at {here()}.")
    rows = zip(parts[2], structure.children, _steps(structure), strict=True)
    return [leaf for part, child, step in rows for leaf in _spread(part, child, path + step, rule)]


def tangents_of(pair: Any, rule_of: tuple[Any, Any], structure: Structure) -> list[Any]:
    """Return the tangent of each leaf of the value, `None` for zero, from what a forward-mode rule returned.

    Raises:
        CustomRuleError: it does not fit the value.
    """
    rule = rule_name("JVP", *rule_of)
    check_pair(pair, rule, "its tangent")
    outputs, own = flatten(pair[0])
    if own != structure:
        raise CustomRuleError(f"{rule}: {difference(structure, own, 'the value')}, at {here()}.")
    ts = _spread(pair[1], structure, "the tangent", rule)
    return [
        _fitting(t, value, name, rule, "tangent", "result")
        for t, value, name in zip(ts, outputs, structure.paths("result"), strict=True)
    ]


def _fitting(leaf: Any, value: Any, name: str, rule: str, what: str, whose: str) -> Any:
    """Return a cotangent or tangent if it fits the value that it belongs to, or the shape and dtype of that."""
    leaf = value_of(leaf)
    if leaf is None:
        return None
    value = value_of(value)
    if not is_array_or_number(value) or not is_inexact(value):
        return None  # what is no number, or an integer, has none
    shape, dtype = shape_of(value), dtype_of(value)
    if type(leaf) not in PYTHON_SCALARS and not hasattr(leaf, "dtype"):
        raise CustomRuleError(f"{rule}: the {what} of {name} is a {type(leaf).__name__}, not an array, at {here()}.")
    own = dtype_of(leaf)
    if shape_of(leaf) != shape or own.kind not in "biufc" or (own.kind == "c" and dtype.kind != "c"):
        wanted = f"{dtype.name}[{','.join(map(str, shape))}]"
        raise CustomRuleError(f"{rule}: the {what} of {name} is {spec_of(leaf)}, but the {whose} is {wanted}, at {here()}.")
    return as_dtype(leaf, dtype)


def of_all_examples(outs: Sequence[Any], flags: Sequence[bool], size: int, gave: Sequence[str]) -> tuple[Any, ...]:
    """Put the batch axis in front of all results that a rule of `vmap` gave.

    Args:
        outs: the results.
        flags: which of them have that axis.
        size: its length.
        gave: for messages, the rule and the result, such as `the batch rule of f: value has`.

    Raises:
        CustomRuleError: a result has not the axis that it should have.
    """
    for out, flag, what in zip(outs, flags, gave, strict=True):
        if flag and (not shape_of(out) or shape_of(out)[0] != size):
            raise CustomRuleError(
                f"{what} shape {shape_of(out)}, but its first axis should be the batch of {size}, at {here()}."
            )
    return tuple([a if flag else np.broadcast_to(a, (size, *shape_of(a))) for a, flag in zip(outs, flags, strict=True)])
