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
from functad.importable import by_name, calling_module
from functad.places import here, name_of, user_frame
from functad.rules.call import Rules, apply, of_all_examples
from functad.tracing.batch import BatchRecorder
from functad.tracing.ownership import lend_read_only, take_back
from functad.tracing.trace import Recorded, operand_of, resolve, value_of
from functad.transforms.boundary import as_dtype, check_result
from functad.transforms.forward import with_zeros
from functad.transforms.leaves import replaced
from functad.transforms.reverse import zero_tangent
from functad.transforms.transform import parameters_of, positions_of, transform
from functad.trees.structure import Structure, _split, _steps, difference, flatten, tree_map

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


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
        call = self._call(args, kwargs)
        if not any(isinstance(leaf, Recorded) for leaf in call.leaves):
            return self.function(*args, **kwargs)
        if self.bwd is None and self.jvp is None and self.batch is None:
            method = "defvjp(fwd, bwd)" if self.transform == "custom_vjp" else "defjvp(rule)"
            raise CustomRuleError(
                f"{name_of(self.function)}, called at {here()}, has no rule yet: call "
                f"{getattr(self.function, '__name__', 'f')}.{method} before it is differentiated."
            )
        if self.bwd is not None or self.jvp is not None:
            call.refuse_undifferentiated()
        elif not _in_batch(call.leaves):
            return self.function(*call.bound, **call.keywords)
        outs = apply(call.rules(), [call.leaves[i] for i in call.places])
        return call.result.unflatten(outs)  # type: ignore[no-any-return]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CustomCall:
        """Return a call with keyword arguments made positional where possible, and defaults filled in."""
        if self.parameters and (kwargs or len(args) < len(self.parameters)):
            bound = inspect.signature(self.function).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return CustomCall(self, args, kwargs)


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
