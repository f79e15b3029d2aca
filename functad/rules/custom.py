"""Functions with user-defined derivative rules: `custom_vjp` and `custom_jvp`.

A call is recorded as one operation with these rules. A rule is NumPy code, so outer traces record its operations for
derivatives of higher order.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np

from functad.errors import CustomRuleError, InputError
from functad.expressions.spec import shape_of
from functad.importable import by_name, calling_module
from functad.places import here, name_of, user_frame
from functad.rules.call import apply
from functad.rules.custom_call import CustomCall
from functad.tracing.traces.base import Recorded, resolve
from functad.tracing.traces.batch import BatchRecorder
from functad.transforms.calling.transform import parameters_of, positions_of, transform
from functad.trees.structure import flatten

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
