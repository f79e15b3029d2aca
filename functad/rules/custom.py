"""Functions with user-defined derivative rules: `custom_vjp` and `custom_jvp`.

A call is recorded as one operation with these rules. A rule is NumPy code, so outer traces record its operations for
derivatives of higher order. The results of rules are checked. An error names the path of the wrong leaf, such as
`args[0]['w']`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np

from functad.errors import CustomRuleError, InputError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number, is_inexact, shape_of, spec_of
from functad.places import here, name_of, user_frame
from functad.process import by_name, calling_module
from functad.rules.call import Rules, apply, of_all_examples
from functad.tracing.batch import BatchRecorder
from functad.tracing.ownership import lend_read_only, take_back
from functad.tracing.trace import Recorded, operand_of, resolve, value_of
from functad.transforms.boundary import as_dtype, checked_leaves
from functad.transforms.forward import with_zeros
from functad.transforms.leaves import replaced
from functad.transforms.reverse import zero_tangent
from functad.transforms.transform import parameters_of, positions_of, transform
from functad.trees import Structure, _split, _steps, difference, flatten, tree_map

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
Error = Callable[[str], CustomRuleError]


class CustomFunction(Generic[P, R]):
    """A function with user-defined derivative rules, made by `custom_vjp` or `custom_jvp`.

    A call with arrays calls the function; a call with Tensors or Variables is recorded as one operation.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_jvp
        ... def f(x):
        ...     return np.sin(x)
        >>> @f.defjvp
        ... def f_jvp(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return f(x), 100.0 * t
        >>> type(f).__name__, float(functad.grad(f)(0.0))
        ('CustomFunction', 100.0)
    """

    def __init__(self, f: Callable[P, R], nondiff_argnums: int | Sequence[int], transform: str) -> None:
        functools.update_wrapper(self, f)
        self.function = f
        self.transform = transform
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.jvp: Callable[..., Any] | None = None
        self.batch: Callable[..., Any] | None = None
        self.made_in = calling_module(user_frame(sys._getframe(1)))
        # Other parameters of a ufunc, such as `where`, are not arguments of the function.
        self.parameters = {} if isinstance(f, np.ufunc) else parameters_of(f) or {}
        self.nondiff = self._nondiff(nondiff_argnums)

    def _nondiff(self, given: int | Sequence[int]) -> tuple[int, ...]:
        """Return the positions of `nondiff_argnums`, counted from the first argument.

        Raises:
            InputError: the function has no argument at a position.
        """
        positions = positions_of(self.transform, self.function, given, "nondiff_argnums")
        kinds = [parameter.kind for parameter in self.parameters.values()]
        known = bool(kinds) and inspect.Parameter.VAR_POSITIONAL not in kinds
        count = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
        for position in positions:
            if (known and not -count <= position < count) or (not known and position < 0):
                has = f"{count} positional arguments" if known else "no fixed number of positional arguments"
                raise InputError(
                    f"{self.transform} of {name_of(self.function)}, at {here()}: nondiff_argnums has {position}, but the "
                    f"function has {has}. Give positions from 0 on."
                )
        return tuple(sorted({position % count if known else position for position in positions}))

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rules of reverse mode.

        Args:
            fwd: `fwd(*args)` returns the value and the residuals for `bwd`, a tree with leaves of any type.
            bwd: `bwd(*nondiff, kept, g)` takes the cotangent `g` of the value. It returns a tuple with the cotangent of each
                argument that is not among `nondiff_argnums`. `None`, also inside a tree, means zero. It must be linear in `g`.
        """
        self.fwd, self.bwd = fwd, bwd

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule of forward mode; also a decorator.

        Args:
            jvp: `jvp(*nondiff, primals, tangents)`, with a tuple of arguments and a tuple of their tangents, returns the value
                and its tangent. It must be linear in the tangents. The tangent of a leaf that is not a number is `None`.

        Returns:
            The rule.
        """
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule of forward mode for each argument: `jvp(t, out, *args)`; `None` means zero.

        Args:
            jvps: one rule for each argument: `jvp(t, out, *args)` returns the contribution of the tangent `t` of this argument
                to the tangent of the value, with the structure, shapes and dtypes of the value. `None` means zero.
        """

        def rule(*given: Any) -> tuple[Any, Any]:
            *nondiff, primals, tangents = given
            of_primals, of_nondiff = iter(primals), iter(nondiff)
            count = len(nondiff) + len(primals)
            args = [next(of_nondiff if i in self.nondiff else of_primals) for i in range(count)]
            out: Any = self(*args)  # type: ignore[call-arg]
            if len(jvps) != len(primals):
                raise CustomRuleError(
                    f"defjvps of {name_of(self.function)} got {len(jvps)} rules for {len(primals)} arguments, at {here()}: "
                    f"give one for each, None for zero."
                )
            parts = [one(t, out, *args) for one, t in zip(jvps, tangents, strict=True) if one is not None]
            leaves = [flatten(part)[0] for part in parts]
            zero, structure = flatten(out)
            sums = [sum(column[1:], column[0]) for column in zip(*leaves, strict=True)]
            return out, structure.unflatten(sums or [np.zeros(shape_of(leaf)) for leaf in zero])

        self.jvp = rule

    def defbatch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule of `vmap`; also a decorator.

        Args:
            rule: `rule(size, batched, *args)` returns the value and a tree like `batched` for the value. `batched` has the
                structure of `args`, with `True` at each leaf with the batch axis of length `size` in front. Derivatives of the
                batched function are the batched derivative rules; they do not depend on this rule.

        Returns:
            The rule.
        """
        self.batch = rule
        return rule

    def __reduce__(self) -> Any:
        named = by_name(self, getattr(self, "__module__", None), self.made_in)
        rules = {"fwd": self.fwd, "bwd": self.bwd, "jvp": self.jvp, "batch": self.batch}
        return named or (CustomFunction, (self.function, self.nondiff, self.transform), rules)

    def __setstate__(self, rules: dict[str, Any]) -> None:
        vars(self).update(rules)

    def __repr__(self) -> str:
        return f"<{self.transform} {name_of(self.function)}>"

    @overload
    def __get__(self, instance: None, owner: Any = None) -> CustomFunction[P, R]: ...
    @overload
    def __get__(self: CustomFunction[Concatenate[Any, Q], R], instance: object, owner: Any = None) -> Callable[Q, R]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the value. The call is recorded as one operation if an argument is a traced Tensor."""
        call, arrays = self._call(args, kwargs)
        differs = self.bwd is not None or self.jvp is not None
        batches = self.batch is not None
        if not any(isinstance(a, Recorded) for a in arrays) or (batches and not differs and not _in_batch(arrays)):
            return self.function(*args, **kwargs)
        if differs:
            call.refuse_undifferentiated(arrays)
        elif not batches:
            method = "defvjp(fwd, bwd)" if self.transform == "custom_vjp" else "defjvp(rule)"
            raise CustomRuleError(
                f"{name_of(self.function)}, called at {here()}, has no rule yet: call "
                f"{getattr(self.function, '__name__', 'f')}.{method} before it is differentiated."
            )
        outs = apply(call.rules(), arrays)
        return call.result.unflatten(outs)  # type: ignore[no-any-return]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CustomCall, list[Any]]:
        """Return a call and its arrays. Keyword arguments are made positional where possible, and defaults filled in."""
        if self.parameters and (kwargs or len(args) < len(self.parameters)):
            bound = inspect.signature(self.function).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        leaves, structure = flatten((args, kwargs))
        leaves = [operand_of(leaf) for leaf in leaves]
        places = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
        return CustomCall(self, structure, replaced(leaves, places, [None] * len(places)), places), [leaves[i] for i in places]


def _in_batch(leaves: Sequence[Any]) -> bool:
    """Return `True` if the innermost trace of some values is the trace of a batch."""
    recorders = [t.recorder for t in [resolve(a) for a in leaves if isinstance(a, Recorded)] if isinstance(t, Recorded)]
    newest = max(recorders, key=lambda recorder: recorder.serial, default=None)
    return isinstance(newest, BatchRecorder)


class WithRules(Protocol[Q]):
    """A transform that takes `f` and returns a `CustomFunction` with the signature of `f`."""

    @overload
    def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> CustomFunction[P, R]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, R]], CustomFunction[P, R]]: ...


def _with_rules(make: Callable[Concatenate[Callable[..., Any], Q], Any]) -> WithRules[Q]:
    return cast("WithRules[Q]", transform(make))


@_with_rules
def custom_vjp(f: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> CustomFunction[P, R]:
    """Give a function its own rules for reverse mode, which compute `g -> g^T J`.

    Set the rules with `f.defvjp(fwd, bwd)`. If a forward-mode rule is set too, with `f.defjvp`, each mode uses its own rule.
    Otherwise forward mode transposes the backward rule, which must then be NumPy code. `f.defbatch` sets a rule for `vmap`. By
    default, function and rules are computed for all examples at once.

    Args:
        f: a function of arrays, numbers and trees; without it a decorator is returned. It may be any code, because it is called
            with plain arrays, unless transforms are nested.
        nondiff_argnums: positions of arguments without a derivative, such as functions. They come first in calls of `bwd`.

    Returns:
        The function, with the methods `defvjp`, `defjvp`, `defjvps` and `defbatch`. Keyword arguments are passed by position
        where possible. Keyword-only arguments are passed to `f` and `fwd` by name, and have no derivative.

    Raises:
        InputError: `nondiff_argnums` is not valid.
        CustomRuleError: (when called) no rule is set, or the function closes over a Tensor of the same transform; (when
            differentiated) the result of a rule does not fit; the message names the leaf, such as `args[0]['w']`.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_vjp
        ... def clipped(x, low, high):
        ...     return np.sin(x)
        >>> def forward(x, low, high):
        ...     return clipped(x, low, high), (np.cos(x), low, high)
        >>> def backward(kept, g):
        ...     slope, low, high = kept
        ...     return np.clip(g * slope, low, high), None, None
        >>> clipped.defvjp(forward, backward)
        >>> functad.grad(lambda x: np.sum(clipped(x, -0.5, 0.5)))(np.array([0.0, 1.5, 3.0])).round(4)
        array([ 0.5   ,  0.0707, -0.5   ])
    """
    return CustomFunction(f, nondiff_argnums, "custom_vjp")


@_with_rules
def custom_jvp(f: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> CustomFunction[P, R]:
    """Give a function its own rule for forward mode, which computes `t -> J t`.

    Set the rule with `f.defjvp(rule)`, or with `f.defjvps`, one for each argument. Reverse mode transposes it, so it must be
    NumPy code that is linear in the tangents, unless rules for reverse mode are set too, with `f.defvjp`.

    Args:
        f: a function of arrays, numbers and trees; without it a decorator is returned.
        nondiff_argnums: positions of arguments without a derivative, such as functions. They come first in calls of the rule.

    Returns:
        The function, with the same methods as the result of `custom_vjp`.

    Raises:
        InputError, CustomRuleError: as for `custom_vjp`.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_jvp
        ... def log1pexp(x):
        ...     return np.log1p(np.exp(x))
        >>> @log1pexp.defjvp
        ... def log1pexp_jvp(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return log1pexp(x), t * (1 - 1 / (1 + np.exp(x)))
        >>> float(functad.grad(log1pexp)(100.0))
        1.0
        >>> float(functad.jvp(functad.grad(log1pexp), (0.0,), (1.0,))[1])
        0.25
    """
    return CustomFunction(f, nondiff_argnums, "custom_jvp")


# Calls: conversion between the user's trees and the flat arrays of a primitive


class CustomCall:
    """The arguments of one call, and the user's rules on trees as rules on arrays.

    Attributes:
        structure: the structure of `(args, keywords)`.
        leaves: their leaves, `None` in place of arrays.
        places: positions of the leaves that are arrays.
        result: the structure of the value; set when the value has been computed.
    """

    result: Structure

    def __init__(self, custom: Any, structure: Structure, leaves: list[Any], places: list[int]) -> None:
        self.custom, self.structure, self.leaves, self.places = custom, structure, leaves, places

    @property
    def per_argument(self) -> tuple[Structure, ...]:
        """The structure of each positional argument."""
        return self.structure.children[0].children

    def refuse_undifferentiated(self, arrays: Sequence[Any]) -> None:
        """Refuse traced Tensors among arguments without a derivative.

        Raises:
            CustomRuleError: a traced Tensor is in `nondiff_argnums`, or is a keyword-only argument.
        """
        arguments = [i for i, child in enumerate(self.per_argument) for _ in range(child.leaves)]
        for place, a in zip(self.places, arrays, strict=True):
            if not isinstance(a, Recorded) or dtype_of(a).kind not in "fc":
                continue
            if place >= len(arguments):
                path = self.structure.children[1].paths("kwargs")[place - len(arguments)]
                problem = (
                    f"{path} is followed, but is given by name only, and rules give derivatives of positional arguments. Let "
                    f"the function take it by position too."
                )
            elif arguments[place] in self.custom.nondiff:
                problem = (
                    f"args[{arguments[place]}] is followed, but is among nondiff_argnums, so the derivative by it would be "
                    f"lost. Take it out of nondiff_argnums, or pass functad.stop_gradient of it."
                )
            else:
                continue
            raise CustomRuleError(f"{name_of(self.custom.function)}, called at {here()}: {problem}")

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

    def _error(self, kind: str) -> Error:
        """Return a function that returns the error of a rule from a text after the name of the rule."""
        return lambda text: CustomRuleError(rule_name(kind, self.custom) + text)

    def _tree(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, keywords = self.structure.unflatten(replaced(self.leaves, self.places, arrays))
        return args, keywords

    def _results(self, out: Any) -> tuple[Any, ...]:
        leaves, self.result = checked_leaves(out, self.custom.transform, self.custom.function)
        return tuple(map(value_of, leaves))

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the leaves of the value."""
        args, keywords = self._tree([lend_read_only(a) for a in arrays])
        return self._results(self.custom.function(*args, **keywords))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the leaves of the value, and the residuals of the backward rule."""
        given = [lend_read_only(a) for a in arrays]  # read-only: the backward rule reads them later
        args, keywords = self._tree(given)
        pair = self.custom.fwd(*args, **keywords)
        _check_pair(pair, self._error("forward"), "the residuals of the backward rule")
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
        if not isinstance(found, (tuple, list)) or len(found) != count:
            what = f"{len(found)} cotangents" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
            one = ", (g,)" if count == 1 else ""
            raise self._error("backward")(
                f" returned {what} for {count} arguments, at {here()}: return a tuple{one} with one for each, None for zero."
            )
        given, error = iter(found), self._error("backward")
        leaves: list[Any] = []
        for i, (structure, arg) in enumerate(zip(self.per_argument, args, strict=True)):
            path = f"args[{i}]"
            cts = _spread(None if i in custom.nondiff else next(given), structure, path, error)
            leaves += _fitted(cts, flatten(arg)[0], structure, path, error, "cotangent", "argument")
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
        error = self._error("JVP")
        _check_pair(pair, error, "its tangent")
        outs, structure = flatten(pair[0])
        if structure != self.result:
            raise error(f": {difference(self.result, structure, 'the value')}, at {here()}.")
        ts = _spread(pair[1], structure, "the tangent", error)
        return list(map(value_of, outs)), _fitted(ts, outs, structure, "result", error, "tangent", "result")

    def batch(self, size: int, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
        """Return the leaves of the value with the batch axis in front."""
        args, _ = self._tree(values)
        flags = replaced([False] * len(self.leaves), self.places, batched)
        pair = self.custom.batch(size, self.structure.unflatten(flags)[0], *args)
        _check_pair(pair, self._error("batch"), "which of its leaves have the batch axis")
        outs = self._results(pair[0])
        own = self.result.flatten_like(pair[1], "the second result of the batch rule")
        gave = [f"the batch rule of {name_of(self.custom.function)}: {path} has" for path in self.result.paths("value")]
        return of_all_examples(outs, own, size, gave)


_RULES = {"forward": "fwd", "backward": "bwd", "JVP": "jvp", "batch": "batch"}
"""The attribute of `CustomFunction` with the rule of each kind."""


def rule_name(kind: str, custom: Any) -> str:
    """Return the name of a rule for a message, with the line of its definition."""
    code = getattr(getattr(custom, _RULES[kind]), "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the {kind} rule of {name_of(custom.function)}{where}"


def _check_pair(pair: Any, error: Error, second: str) -> None:
    """Raise unless a rule has returned a pair, the value and `second`."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise error(f" must return a pair, the value and {second}, not a {type(pair).__name__}, at {here()}.")


def _spread(tree: Any, structure: Structure, path: str, error: Error) -> list[Any]:
    """Return the leaves of a tree with the given structure. `None` in place of a subtree gives `None` for each leaf."""
    if tree is None:
        return [None] * structure.leaves
    if structure.kind is None:
        return [tree]
    parts = _split(tree)
    if parts is None or parts[0] is not structure.kind or parts[1] != structure.data:
        raise error(f": {difference(structure, flatten(tree)[1], path)}, at {here()}.")
    rows = zip(parts[2], structure.children, _steps(structure), strict=True)
    return [leaf for part, child, step in rows for leaf in _spread(part, child, path + step, error)]


def _fitted(
    found: Sequence[Any], values: Sequence[Any], structure: Structure, root: str, error: Error, what: str, whose: str
) -> list[Any]:
    """Return cotangents or tangents in the dtypes of their values. `None` means zero.

    Raises:
        CustomRuleError: a shape or dtype does not match.
    """
    result: list[Any] = []
    for i, (leaf, value) in enumerate(zip(map(value_of, found), map(value_of, values), strict=True)):
        if leaf is None or not is_array_or_number(value) or not is_inexact(value):
            result.append(None)  # integers and leaves that are not numbers have no derivative
            continue
        shape, dtype = shape_of(value), dtype_of(value)
        if type(leaf) in (np.ndarray, np.float64) and leaf.dtype is dtype and leaf.shape == shape:
            result.append(leaf)  # the common case
            continue
        own = dtype_of(leaf) if type(leaf) in PYTHON_SCALARS or hasattr(leaf, "dtype") else None
        if own is None or shape_of(leaf) != shape or own.kind not in "biufc" or (own.kind == "c" and dtype.kind != "c"):
            shown = f"a {type(leaf).__name__}, not an array" if own is None else f"{spec_of(leaf)}, but the {whose} is "
            wanted = "" if own is None else f"{dtype.name}[{','.join(map(str, shape))}]"
            raise error(f": the {what} of {structure.paths(root)[i]} is {shown}{wanted}, at {here()}.")
        result.append(as_dtype(leaf, dtype))
    return result
