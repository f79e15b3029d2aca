"""Checks of the rules of `custom_vjp` and `custom_jvp`, when a function meets arguments of a kind for the first time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import CustomRuleError, FunctadError
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.rules.results import rule_name
from functad.tracing.traces.base import Recorded, resolve
from functad.transforms.abstract import trace
from functad.transforms.calling.additivity import agree, is_additive
from functad.transforms.calling.trust import TRUSTED
from functad.trees.structure import Structure, difference, flatten

_MOST = 256
"""So many kinds of arguments are remembered of one function."""

_TRUST = "functad.trust_rules() leaves this trial out."


class RuleChecks:
    """The kinds of arguments that the rules of a function have been tried with."""

    def __init__(self) -> None:
        self._passed: set[Any] = set()

    def run(self, kind: str, structure: Structure, arrays: Sequence[Any], trial: Callable[[list[Any]], None]) -> None:
        """Try a rule, unless it has been tried with such arguments, or is trusted.

        Args:
            kind: of the rule.
            structure: of the arguments.
            arrays: those among their leaves.
            trial: is given what these hold, with specs where values are not known; raises if the rule is wrong.
        """
        key = kind, structure, *[(shape_of(a), dtype_of(a)) for a in arrays]
        if key in self._passed or TRUSTED.get():
            return
        values = list(map(example_of, arrays))
        with np.errstate(all="ignore"):
            trial(values)
        if any(isinstance(value, ArraySpec) for value in values):
            return  # that was no more than a look at shapes
        if len(self._passed) >= _MOST:
            self._passed.clear()
        self._passed.add(key)


def example_of(value: Any) -> Any:
    """Look up the value of a Tensor below all traces: of a batch the first example, of an abstract one its spec."""
    if type(value) in PLAIN:
        return value
    from functad.tracing.traces.batch import Batched  # noqa: PLC0415 - few programs use vmap

    value = resolve(value)
    while isinstance(value, Recorded):
        value = resolve(value.below)
        if isinstance(value, Batched):
            value = value.array[0] if shape_of(value.array)[0] else ArraySpec(value.shape, value.dtype)
    return value


def try_value(rule_of: tuple[str, Any, Any], result: tuple[Structure, Sequence[Any]], compute: Callable[[], Any]) -> None:
    """Compare the value that a rule gave with that of the function.

    Args:
        rule_of: the kind of the rule, the function and the rule.
        result: what the rule gave: structure and leaves.
        compute: computes the value of the function.

    Raises:
        CustomRuleError: they differ.
    """
    structure, outs = result
    rule = rule_name(*rule_of)
    leaves, own = flatten(compute())
    if any(isinstance(leaf, Recorded) for leaf in leaves):
        return  # it uses a Tensor that is no argument, which is refused elsewhere
    if own != structure:
        raise CustomRuleError(
            f"{rule}: {difference(own, structure, 'the value')}, as the function gives it, at {here()}. {_TRUST}"
        )
    paths = structure.paths("result")
    for out, leaf, path in zip(outs, leaves, paths, strict=True):
        if (shape_of(out), dtype_of(out)) != (shape_of(leaf), dtype_of(leaf)):
            raise CustomRuleError(
                f"{rule} gives {spec_of(out)} as {path}, but the function {spec_of(leaf)}, at {here()}: the first thing that "
                f"it returns is the value of the function. {_TRUST}"
            )
    wrong = [i for i, pair in enumerate(zip(outs, leaves, strict=True)) if not _same(*pair)]
    if wrong and all(_same(*pair) for pair in zip(leaves, flatten(compute())[0], strict=True)):  # or it is random
        i = wrong[0]
        raise CustomRuleError(
            f"{rule} gives {_shown(outs[i])} as {paths[i]}, but the function {_shown(leaves[i])}, at {here()}: the first thing "
            f"that it returns is the value of the function. {_TRUST}"
        )


def try_linear(function: Any, rule: Any, push: Callable[[list[Any]], Sequence[Any]], likes: Sequence[Any]) -> None:
    """Raise unless a rule of forward mode is linear in the tangents.

    Args:
        function: the function.
        rule: the rule, for messages.
        push: from tangents to tangents, both as leaves.
        likes: what the tangents belong to; `None` where there is none.

    Raises:
        CustomRuleError: it is not.
    """
    if not is_additive(push, likes):
        raise CustomRuleError(
            f"{rule_name('JVP', function, rule)} is not linear in the tangents, at {here()}: what it gives for u - 2 v is not "
            f"what it gives for u less twice that for v, so it is no derivative and has no transpose. Multiply tangents with "
            f"what does not depend on them, and add. {_TRUST}"
        )


def specs_of(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the result of a function with specs for arrays; `None` if it does not say it for arguments without values."""
    try:
        found = trace("the trial of a rule", function, args, keywords)
    except (FunctadError, TypeError, ValueError):
        return None
    return found.output_structure.unflatten(found.results)


def _same(out: Any, leaf: Any) -> bool:
    out, leaf = example_of(out), example_of(leaf)
    if isinstance(out, ArraySpec) or isinstance(leaf, ArraySpec):
        return True
    return agree(np.asarray(out), np.asarray(leaf))


def _shown(leaf: Any) -> str:
    return np.array2string(np.asarray(example_of(leaf)), threshold=6, precision=6)
