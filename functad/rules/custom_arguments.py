"""The arguments of one call of a function with rules of its own, and how rules of trees become rules of arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import CustomRuleError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of
from functad.places import here, name_of
from functad.rules.results import check_pair, cotangents_of, of_all_examples, tangents_of
from functad.rules.rule_checks import specs_of, try_linear, try_value
from functad.rules.rules import Rules
from functad.tracing.traces.base import Recorded
from functad.transforms.calling.arguments import check_result, operand_of, value_of
from functad.transforms.calling.results import guarded
from functad.transforms.leaves import replaced
from functad.transforms.walks.cotangents import zero_tangent
from functad.transforms.walks.forward import with_zeros
from functad.trees.functions import tree_map
from functad.trees.structure import Structure, flatten

_NUMBERS = frozenset({np.float64, np.float32, float})


class Arguments:
    """The arguments of one call: which of their leaves are arrays, and how rules of trees become rules of arrays.

    Attributes:
        leaves: all leaves of `(args, keywords)`, read if they are Variables.
        places: which of them are arrays.
        result: the structure of the value, which is known when that has been computed.
    """

    result: Structure

    def __init__(self, custom: Any, bound: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.custom = custom
        self.bound, self.keywords = bound, keywords
        leaves, self.structure = flatten((bound, keywords))
        self.leaves = [operand_of(leaf) for leaf in leaves]
        self.places = [i for i, leaf in enumerate(self.leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the arrays: a list that is pickled is evaluated with others."""
        leaves = replaced(self.leaves, self.places, [None] * len(self.places))
        bound, keywords = self.structure.unflatten(leaves)
        return {**vars(self), "leaves": leaves, "bound": bound, "keywords": keywords}

    @property
    def per_argument(self) -> tuple[Structure, ...]:
        """The structure of each positional argument."""
        return self.structure.children[0].children

    def refuse_undifferentiated(self) -> None:
        """Refuse Tensors that are followed where no rule gives a derivative.

        Raises:
            CustomRuleError: one is among the arguments of `nondiff_argnums`, or can be given by name only.
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
        """Return the rules of the call as those of a function of arrays."""
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
        args, keywords = self._tree([guarded(a) for a in arrays])
        return self._results(self.custom.function(*args, **keywords))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the leaves of the value, and what the backward rule needs."""
        given = [guarded(a) for a in arrays]  # the backward rule may need what the function would write into
        args, keywords = self._tree(given)
        pair = self.custom.fwd(*args, **keywords)
        check_pair(pair, f"the forward rule of {name_of(self.custom.function)}", "what the backward rule needs")
        back = {id(own): (own, a) for own, a in zip(given, arrays, strict=True) if own is not a}
        residuals = tree_map(lambda leaf: _unguarded(leaf, back), pair[1]) if back else pair[1]
        outs = self._results(pair[0])
        if not any(isinstance(out, Recorded) for out in outs) or any(isinstance(a, Recorded) for a in arrays):
            # Otherwise the rule uses a Tensor that is no argument, and is about to be refused.
            self.custom.checks.run("fwd", self.structure, arrays, functools.partial(self._try_value, "forward", outs))
        return outs, (residuals, arrays)

    def _try_value(self, kind: str, outs: Sequence[Any], values: Sequence[Any]) -> None:
        """Compare the value that a rule gave with that of the function."""
        args, keywords = self._tree(list(map(guarded, values)))
        function = self.custom.function
        rule = self.custom.fwd if kind == "forward" else self.custom.jvp
        if any(isinstance(value, ArraySpec) for value in values):
            specs = specs_of(function, args, keywords)
            if specs is not None:
                try_value((kind, function, rule), (self.result, outs), lambda: specs)
        else:
            try_value((kind, function, rule), (self.result, outs), lambda: function(*args, **keywords))

    def _try_push(self, outs: Sequence[Any], ts: Sequence[Any], values: Sequence[Any]) -> None:
        """Try whether the forward-mode rule gives the value, and is linear."""
        self._try_value("JVP", outs, values)
        if any(isinstance(value, ArraySpec) for value in values):
            return
        likes = [None if t is None or dtype_of(v).kind not in "fc" else v for t, v in zip(ts, values, strict=True)]
        try_linear(self.custom.function, self.custom.jvp, lambda given: self._pushed(values, given)[1], likes)

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangent of each array."""
        residuals, arrays = kept
        args, _ = self._tree(arrays)
        custom = self.custom
        g = self.result.unflatten(gs)
        found = custom.bwd(*[args[i] for i in custom.nondiff], tree_map(guarded, residuals), g)
        by_leaf = cotangents_of(found, (custom.function, custom.bwd), self.per_argument, custom.nondiff, args)
        by_leaf += [None] * self.structure.children[1].leaves
        return [by_leaf[i] for i in self.places]

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangent of each leaf of the value."""
        outs, found = self._pushed(arrays, ts)
        self.custom.checks.run("jvp", self.structure, arrays, functools.partial(self._try_push, outs, ts))
        return found

    def _pushed(self, arrays: Sequence[Any], ts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the leaves of the value that the rule gives, and the tangent of each."""
        custom = self.custom
        args, _ = self._tree([guarded(a) for a in arrays])
        none = [zero_tangent(leaf) if type(leaf) in PYTHON_SCALARS else None for leaf in self.leaves]
        tangents = replaced(none, self.places, with_zeros(ts, arrays))
        trees = self.structure.unflatten(tangents)[0]
        differentiated = [i for i in range(len(args)) if i not in custom.nondiff]
        pair = custom.jvp(
            *[args[i] for i in custom.nondiff],
            tuple([args[i] for i in differentiated]),
            tuple([trees[i] for i in differentiated]),
        )
        found = tangents_of(pair, (custom.function, custom.jvp), self.result)
        return list(map(value_of, flatten(pair[0])[0])), found

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


def _unguarded(leaf: Any, back: dict[int, tuple[Any, Any]]) -> Any:
    """Return the argument itself for what a rule was given in its place, unless it was written into; else the leaf."""
    own, argument = back.get(id(leaf), (None, None))
    if leaf is not own or leaf is None:
        return leaf
    changed = isinstance(leaf, Recorded) and not (leaf.below is argument.below and leaf.slot == argument.slot)
    return leaf if changed else argument
