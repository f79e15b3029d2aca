"""Calls of functions with user rules: conversion between the user's trees and the flat arrays of a primitive.

The results of rules are checked. An error names the path of the wrong leaf, such as `args[0]['w']`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import CustomRuleError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number, is_inexact, shape_of, spec_of
from functad.places import here, name_of
from functad.rules.rules import Rules, of_all_examples
from functad.tracing.ownership import lend_read_only, take_back
from functad.tracing.traces.base import Recorded
from functad.tracing.values import operand_of, value_of
from functad.transforms.calling.boundary import as_dtype, check_result
from functad.transforms.leaves import replaced
from functad.transforms.walks.cotangents import zero_tangent
from functad.transforms.walks.forward import with_zeros
from functad.trees.functions import tree_map
from functad.trees.structure import Structure, _split, _steps, difference, flatten

_OF_NUMPY = frozenset({np.ndarray, np.float64, np.float32})
_NUMBERS = frozenset({np.float64, np.float32, float})


class CustomCall:
    """The arguments of one call, and the user's rules on trees as rules on arrays.

    Attributes:
        leaves: all leaves of `(args, keywords)`, with Variables replaced by their Tensors.
        places: positions of the leaves that are arrays.
        result: the structure of the value; set when the value has been computed.
    """

    result: Structure

    def __init__(self, custom: Any, bound: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.custom = custom
        self.bound, self.keywords = bound, keywords
        leaves, self.structure = flatten((bound, keywords))
        self.leaves = [operand_of(leaf) for leaf in leaves]
        self.places = [i for i, leaf in enumerate(self.leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without arrays: an unpickled list is evaluated with other arrays."""
        leaves = replaced(self.leaves, self.places, [None] * len(self.places))
        bound, keywords = self.structure.unflatten(leaves)
        return {**vars(self), "leaves": leaves, "bound": bound, "keywords": keywords}

    @property
    def per_argument(self) -> tuple[Structure, ...]:
        """The structure of each positional argument."""
        return self.structure.children[0].children

    def refuse_undifferentiated(self) -> None:
        """Refuse traced Tensors among arguments without a derivative.

        Raises:
            CustomRuleError: a traced Tensor is in `nondiff_argnums`, or is a keyword-only argument.
        """
        f, position = self.custom.function, 0
        for i, child in enumerate(self.per_argument):
            for leaf in self.leaves[position : position + child.leaves]:
                if i in self.custom.nondiff and isinstance(leaf, Recorded) and dtype_of(leaf).kind in "fc":
                    raise CustomRuleError(
                        f"{name_of(f)}, called at {here()}: args[{i}] is followed, but is among nondiff_argnums, so the "
                        f"derivative by it would be lost. Take it out of nondiff_argnums, or pass functad.stop_gradient of it."
                    )
            position += child.leaves
        for leaf, path in zip(self.leaves[position:], self.structure.children[1].paths("kwargs"), strict=True):
            if isinstance(leaf, Recorded) and dtype_of(leaf).kind in "fc":
                raise CustomRuleError(
                    f"{name_of(f)}, called at {here()}: {path} is followed, but is given by name only, and rules give "
                    f"derivatives of positional arguments. Let the function take it by position too."
                )

    def rules(self) -> Rules:
        """Return the rules of the call as rules of a function of arrays."""
        custom = self.custom
        return Rules(
            function=custom,
            value=self.value,
            forward=None if custom.bwd is None else self.forward,
            backward=None if custom.bwd is None else self.backward,
            push=None if custom.jvp is None else self.push,
            batch=None if custom.batch is None else self.batch,
            name=getattr(custom.function, "__name__", "custom"),
            by_user=True,
        )

    def _tree(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, keywords = self.structure.unflatten(replaced(self.leaves, self.places, arrays))
        return args, keywords

    def _results(self, out: Any) -> tuple[Any, ...]:
        given, structure = flatten(out)
        leaves = tuple(map(value_of, given))
        if not _NUMBERS.issuperset(map(type, leaves)):
            for leaf, path in zip(leaves, structure.paths("result"), strict=True):
                check_result(leaf, path, self.custom.transform, self.custom.function)
        self.result = structure
        return leaves

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the leaves of the value."""
        args, keywords = self._tree([lend_read_only(a) for a in arrays])
        return self._results(self.custom.function(*args, **keywords))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the leaves of the value, and the residuals of the backward rule."""
        given = [lend_read_only(a) for a in arrays]  # read-only: the backward rule reads them later
        args, keywords = self._tree(given)
        pair = self.custom.fwd(*args, **keywords)
        check_pair(pair, f"the forward rule of {name_of(self.custom.function)}", "the residuals of the backward rule")
        lent = {id(copy): (copy, a) for copy, a in zip(given, arrays, strict=True) if copy is not a}
        residuals = tree_map(lambda leaf: take_back(leaf, lent), pair[1]) if lent else pair[1]
        return self._results(pair[0]), (residuals, arrays)

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangent of each array."""
        residuals, arrays = kept
        args, _ = self._tree(arrays)
        custom = self.custom
        g = self.result.unflatten(gs)
        found = custom.bwd(*[args[i] for i in custom.nondiff], tree_map(lend_read_only, residuals), g)
        by_leaf = [*self._cotangents(found, args), *[None] * self.structure.children[1].leaves]
        return [by_leaf[i] for i in self.places]

    def _cotangents(self, found: Any, args: Sequence[Any]) -> list[Any]:
        """Return the cotangent of each leaf of the positional arguments (`None` for zero), from the backward rule's result.

        Raises:
            CustomRuleError: the result does not match the arguments.
        """
        custom = self.custom
        count = len(args) - len(custom.nondiff)
        if type(found) is tuple and len(found) == len(args) == count and all(map(_fits, found, args)):
            return list(found)  # the common case: one array or number for each argument
        rule = rule_name("backward", custom.function, custom.bwd)
        if not isinstance(found, (tuple, list)) or len(found) != count:
            what = f"{len(found)} cotangents" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
            one = ", (g,)" if count == 1 else ""
            raise CustomRuleError(
                f"{rule} returned {what} for {count} arguments, at {here()}: return a tuple{one} with one for each, None for "
                f"zero."
            )
        given = iter(found)
        leaves: list[Any] = []
        for i, (structure, arg) in enumerate(zip(self.per_argument, args, strict=True)):
            path = f"args[{i}]"
            cts = _spread(None if i in custom.nondiff else next(given), structure, path, rule)
            for ct, value, name in zip(cts, flatten(arg)[0], structure.paths(path), strict=True):
                leaves.append(_fitting(ct, value, name, rule, "cotangent", "argument"))
        return leaves

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangent of each leaf of the value."""
        return self.pushed(arrays, ts)[1]

    def pushed(self, arrays: Sequence[Any], ts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the leaves of the value from the rule, and the tangent of each, `None` for zero.

        Raises:
            CustomRuleError: the result is not a pair, or a tangent does not match the value.
        """
        custom = self.custom
        args, _ = self._tree([lend_read_only(a) for a in arrays])
        none = [zero_tangent(leaf) if type(leaf) in PYTHON_SCALARS else None for leaf in self.leaves]
        tangents = replaced(none, self.places, with_zeros(ts, arrays))
        trees = self.structure.unflatten(tangents)[0]
        differentiated = [i for i in range(len(args)) if i not in custom.nondiff]
        pair = custom.jvp(
            *[args[i] for i in custom.nondiff],
            tuple([args[i] for i in differentiated]),
            tuple([trees[i] for i in differentiated]),
        )
        rule = rule_name("JVP", custom.function, custom.jvp)
        check_pair(pair, rule, "its tangent")
        outs, structure = flatten(pair[0])
        if structure != self.result:
            raise CustomRuleError(f"{rule}: {difference(self.result, structure, 'the value')}, at {here()}.")
        rows = zip(_spread(pair[1], structure, "the tangent", rule), outs, structure.paths("result"), strict=True)
        return list(map(value_of, outs)), [_fitting(t, out, name, rule, "tangent", "result") for t, out, name in rows]

    def batch(self, size: int, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
        """Return the leaves of the value with the batch axis in front."""
        args, _ = self._tree(values)
        flags = replaced([False] * len(self.leaves), self.places, batched)
        pair = self.custom.batch(size, self.structure.unflatten(flags)[0], *args)
        rule = f"the batch rule of {name_of(self.custom.function)}"
        check_pair(pair, rule, "which of its leaves have the batch axis")
        outs = self._results(pair[0])
        own = self.result.flatten_like(pair[1], "the second result of the batch rule")
        gave = [f"{rule}: {path} has" for path in self.result.paths("value")]
        return of_all_examples(outs, own, size, gave)


def _fits(ct: Any, arg: Any) -> bool:
    """Return `True` if a cotangent and an argument are real arrays or numbers of the same shape and dtype."""
    if type(ct) not in _OF_NUMPY or (type(arg) is not float and type(arg) not in _OF_NUMPY):
        return False
    return ct.shape == shape_of(arg) and ct.dtype == dtype_of(arg) and ct.dtype.kind == "f"  # type: ignore[no-any-return]


def rule_name(kind: str, function: Any, rule: Any) -> str:
    """Return the name of a rule for a message, with the line of its definition."""
    code = getattr(rule, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the {kind} rule of {name_of(function)}{where}"


def check_pair(pair: Any, rule: str, second: str) -> None:
    """Raise unless a rule has returned a pair, the value and `second`.

    Raises:
        CustomRuleError: the result is not a pair.
    """
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise CustomRuleError(f"{rule} must return a pair, the value and {second}, not a {type(pair).__name__}, at {here()}.")


def _spread(tree: Any, structure: Structure, path: str, rule: str) -> list[Any]:
    """Return the leaves of a tree with the given structure. `None` in place of a subtree gives `None` for each leaf."""
    if tree is None:
        return [None] * structure.leaves
    if structure.kind is None:
        return [tree]
    parts = _split(tree)
    if parts is None or parts[0] is not structure.kind or parts[1] != structure.data:
        raise CustomRuleError(f"{rule}: {difference(structure, flatten(tree)[1], path)}, at {here()}.")
    rows = zip(parts[2], structure.children, _steps(structure), strict=True)
    return [leaf for part, child, step in rows for leaf in _spread(part, child, path + step, rule)]


def _fitting(leaf: Any, value: Any, name: str, rule: str, what: str, whose: str) -> Any:
    """Return a cotangent or tangent in the dtype of its value. Raise if its shape or dtype does not match."""
    leaf = value_of(leaf)
    if leaf is None:
        return None
    value = value_of(value)
    if not is_array_or_number(value) or not is_inexact(value):
        return None  # integers and leaves that are not numbers have no derivative
    shape, dtype = shape_of(value), dtype_of(value)
    if type(leaf) not in PYTHON_SCALARS and not hasattr(leaf, "dtype"):
        raise CustomRuleError(f"{rule}: the {what} of {name} is a {type(leaf).__name__}, not an array, at {here()}.")
    own = dtype_of(leaf)
    if shape_of(leaf) != shape or own.kind not in "biufc" or (own.kind == "c" and dtype.kind != "c"):
        wanted = f"{dtype.name}[{','.join(map(str, shape))}]"
        raise CustomRuleError(f"{rule}: the {what} of {name} is {spec_of(leaf)}, but the {whose} is {wanted}, at {here()}.")
    return as_dtype(leaf, dtype)
