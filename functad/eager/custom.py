"""Custom gradients in the style of TensorFlow: `custom_gradient`, `recompute_grad`, `grad_pass_through`.

A call is one record. Its rule is the gradient function that the user's function returns with its value. The function runs
while no tape records. For second derivatives the function runs again on Tensors, so that the closure of its gradient function
holds traced values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from functad.eager.containers import alike, in_places, is_list, listed, mapped, matched, sorted_leaves, sorted_places
from functad.eager.tape.request import as_numbers, conjugated
from functad.eager.tape.tape import GradientTape
from functad.eager.variable import ACTIVE, GIVEN, TensorLike, Variable, reading, standing_in
from functad.errors import CustomGradientError
from functad.expressions.spec import PLAIN, dtype_of, shape_of, stand_in
from functad.places import here, name_of
from functad.primitives.operands import innermost, read
from functad.process import setting
from functad.rules.call import OneCall, Rules, apply
from functad.tracing.concrete import idle, tensor_of
from functad.tracing.ownership import lend
from functad.tracing.tensor import Tensor
from functad.tracing.trace import GRAPH_HOOK, Recorded, new_arrays_recorded_by, resolve
from functad.tracing.views import clone
from functad.transforms.leaves import replaced
from functad.transforms.transform import transform
from functad.trees import Structure, flatten_as_inserted

P = ParamSpec("P")
R = TypeVar("R")


@transform
def custom_gradient(f: Callable[P, Any]) -> Callable[P, Any]:
    """Return a function with a custom gradient: `f` returns its value and its pullback.

    Args:
        f: a function that returns `(y, grad_fn)`; without it a decorator is returned. `y` is a Tensor or a pytree of Tensors.
            `grad_fn(*dys)` takes one cotangent for each Tensor of `y`. It returns one cotangent for each positional argument,
            in the structure of the arguments or in a flat list; `None` means no path. Leaves of a dict are in the order of
            sorted keys. If `f` reads trainable Variables that are not arguments, `grad_fn` must accept `variables=` and return
            `(grads, grads_of_variables)`. For a method, `self` has no gradient; `f` reads the Variables of `self`. Complex
            cotangents follow the convention of tapes, also under `functad.grad`: for `z * z`, return `dy * np.conj(2 * z)`.

    Returns:
        A function that returns `y`. `grad_fn` gives its reverse-mode derivatives in tapes and transforms. Second derivatives
        are derivatives of `grad_fn`.

    Raises:
        TypeError: `f` does not return a pair, or reads Variables and `grad_fn` takes no `variables`.
        ValueError: (when a gradient is taken) `grad_fn` returned another number of gradients, or a gradient of another shape;
            (when called) `f` uses a traced Tensor that is not an argument, so that its gradient would be lost.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_gradient
        ... def log1pexp(x):
        ...     e = np.exp(x)
        ...     return np.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
        >>> float(functad.grad(log1pexp)(100.0))
        1.0
    """

    @functools.wraps(f)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Any:
        if args and _is_method_of(args[0], f):  # the instance has no gradient, as in TensorFlow
            given: tuple[Any, ...] = args
            method = functools.partial(cast("Any", f), given[0])
            return _Call(method, *_bound(method, given[1:], kwargs)).run()
        bound, rest = _bound(f, args, kwargs)
        return _Call(f, bound, rest).run()

    return wrapper


def _is_method_of(instance: Any, function: Any) -> bool:
    """Return `True` if the class of an instance has a method that `custom_gradient` made from `function`."""
    kind = type(instance)
    if kind in PLAIN or issubclass(kind, (Recorded, TensorLike)):
        return False
    return any(
        getattr(attribute, "__wrapped__", None) is function for base in kind.__mro__ for attribute in vars(base).values()
    )


def _bound(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return `args` and `kwargs` with Tensors given by name moved to their positions, so that they have gradients too."""
    if not any(isinstance(leaf, (Recorded, TensorLike)) for leaf in flatten_as_inserted(kwargs)[0]):
        return args, kwargs
    bound = inspect.signature(f).bind(*args, **kwargs)
    return bound.args, bound.kwargs


def _tensor(value: Any) -> Any:
    """Return a copy of a plain value as a Tensor; a Tensor of a trace stays as it is."""
    return tensor_of(Tensor, value if isinstance(value, Recorded) else np.copy(value)[()])


class _OwnGradient(OneCall):
    """The primitive of one call with a custom gradient. The path ends where the gradient function returns `None`."""

    may_cut = True

    def __init__(self, call: _Call) -> None:
        self.function = call.f
        self.name = str(getattr(call.f, "__name__", type(call.f).__name__))
        self.compute = call.compute
        self.vjps = (lambda g, arrays: call.pull(g, arrays),)
        if not call.variables:
            self.batch = call.batch


class _Call:
    """One call of a function with a custom gradient."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.f = f
        self.kwargs = kwargs
        self.leaves, self.structure = flatten_as_inserted(args)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, (Recorded, TensorLike))]
        self.variables: list[Variable] = []
        self.result: Structure | None = None
        self.known: tuple[Any, Any] | None = None

    def run(self) -> Any:
        """Return the value of the call, and record the call if a trace follows an argument."""
        arguments = [read(self.leaves[i]) for i in self.places]
        if not arguments:
            self.leaves = [lend(leaf) for leaf in self.leaves]
        for i in self.places:
            self.leaves[i] = None  # the record holds this call, and must not keep Tensors alive
        if any(isinstance(resolve(a), Recorded) for a in arguments) or ACTIVE.get():
            self._evaluate([stand_in(innermost(resolve(a))) for a in arguments])
            arguments += [read(variable) for variable in self.variables]
            for recorder in ACTIVE.get():
                recorder.fallible = True
        outs = _OwnGradient(self)(*arguments) if arguments else self.compute()
        assert self.result is not None
        return self.result.unflatten([_tensor(out) for out in outs])

    def compute(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results for arrays, from the last evaluation if it had the same arrays."""
        known = self.known
        if known is None or len(known[0]) > len(arrays) or any(a is not b for a, b in zip(known[0], arrays, strict=False)):
            return self._evaluate(arrays[: len(self.places)])
        return known[1][0]  # type: ignore[no-any-return]

    def _evaluate(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run the function on plain values without recording, and keep its gradient function."""
        lowered = [(given.variable, innermost(resolve(given._value))) for given in GIVEN.get().values()]
        with _unrecorded(self.f), standing_in(lowered), reading() as found:
            outs, grad_fn = self._call([idle(Tensor, np.copy(a)[()]) if type(a) in PLAIN else a for a in arrays])
        own = [leaf for leaf in self.leaves if isinstance(leaf, Variable)]
        self.variables = [v for v in found if v.trainable and not any(v is given for given in own)]
        if self.variables and not _takes_variables(grad_fn):
            names = ", ".join(repr(v.name) for v in self.variables)
            raise TypeError(
                f"{name_of(self.f)}, called at {here()}, reads the Variables {names}, which are no arguments, so its "
                f"gradient function must accept them: def grad_fn(*dys, variables): return grads, grads_of_variables."
            )
        values = []
        for out in outs:
            value = resolve(out)
            if isinstance(value, Recorded):
                raise CustomGradientError(
                    f"{name_of(self.f)}, called at {here()}, uses a Tensor that is followed and is no argument: the gradient "
                    f"by it would be lost. Make it an argument."
                )
            values.append(value)
        self.known = tuple(arrays), (tuple(values), grad_fn)
        return tuple(values)

    def _call(self, arguments: Sequence[Any]) -> tuple[list[Any], Callable[..., Any]]:
        pair = self.f(*self.structure.unflatten(replaced(self.leaves, self.places, arguments)), **self.kwargs)
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"{name_of(self.f)}, called at {here()}, must return a pair: its value, and the gradient function.")
        outs, self.result = flatten_as_inserted(pair[0])
        if not outs:
            raise TypeError(
                f"{name_of(self.f)}, called at {here()}, must return Tensors or numbers as its value, not {pair[0]!r}."
            )
        return [as_numbers(out, f"the value of {name_of(self.f)}") for out in outs], pair[1]

    def pull(self, g: Any, arrays: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments and Variables.

        The gradient function reads the Variables' values of the call, despite later assignments and `functional_call`.
        """
        known, count = self.known, len(self.places)
        own = arrays[:count]
        with standing_in(zip(self.variables, arrays[count:], strict=True)):
            if known is not None and len(known[0]) == count and all(a is b for a, b in zip(known[0], own, strict=True)):
                grad_fn = known[1][1]
            else:
                grad_fn = self._call([a if isinstance(a, Recorded) else idle(Tensor, np.copy(a)[()]) for a in own])[1]
            return self._pulled(grad_fn, g, arrays)

    def batch(self, primitive: Any, size: int, values: Sequence[Any], batched: Sequence[bool], params: Any) -> Any:
        """Return the results for all examples of a batch, from one call with one rule."""

        def forward(*arrays: Any) -> tuple[tuple[Any, ...], Any]:
            outs, grad_fn = self._call([clone(a) if isinstance(a, Recorded) else a for a in arrays])
            return tuple(map(resolve, outs)), (grad_fn, arrays)

        def backward(kept: Any, gs: Sequence[Any]) -> list[Any]:
            return self._pulled(kept[0], tuple(gs), kept[1])

        rules = Rules(self.f, lambda *arrays: forward(*arrays)[0], forward, backward, name=primitive.name)
        return apply(rules.of_batch(size, tuple(batched)), values)

    def _pulled(self, grad_fn: Callable[..., Any], g: Any, arrays: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments and Variables from the user's gradient function."""
        assert self.result is not None
        gs = g if type(g) is tuple else (g,)
        dys = [conjugated(gs[place]) for place in sorted_places(self.result)]
        dys = [clone(dy) if isinstance(dy, Recorded) else idle(Tensor, np.copy(dy)[()]) for dy in dys]
        of_variables: Sequence[Any] = ()
        if self.variables:
            pair = grad_fn(*dys, variables=list(self.variables))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise CustomGradientError(
                    f"the gradient function of {name_of(self.f)} was given variables=, and returned a {type(pair).__name__}, "
                    f"at {here()}: return a pair, the gradients of the arguments and a list of those of the Variables."
                )
            found, of_variables = pair[0], listed(pair[1]) if is_list(pair[1]) else [pair[1]]
            self._check_count(of_variables, len(self.variables), "Variables")
        else:
            found = grad_fn(*dys)
        grads = [*self._by_argument(found), *of_variables]
        return [None if ct is None else self._fitting(ct, array) for ct, array in zip(grads, arrays, strict=True)]

    def _by_argument(self, found: Any) -> list[Any]:
        """Return the gradients of the Tensor arguments, from the result of a gradient function."""
        what = f"what the gradient function of {name_of(self.f)} returned"
        if not is_list(found):
            given = tuple(found) if type(found) in (tuple, list) else (found,)
            if len(self.structure.children) == 1 and not (len(given) == 1 and alike(self.structure.children[0], given[0])):
                given = (found,)
            grads = [grad for grad, _ in matched(self.structure, given, what, "args", none=True)]
            return [grads[i] for i in self.places]
        grads = listed(found)
        if len(grads) == len(self.places) != len(self.leaves):
            return grads
        self._check_count(grads, len(self.leaves), "arguments")
        grads = in_places(self.structure, grads)
        return [grads[i] for i in self.places]

    def _check_count(self, grads: Sequence[Any], wanted: int, what: str) -> None:
        if len(grads) != wanted:
            raise CustomGradientError(
                f"the gradient function of {name_of(self.f)} returned {len(grads)} gradients for {wanted} {what}, at {here()}: "
                f"return one for each, None where there is no path."
            )

    def _fitting(self, ct: Any, array: Any) -> Any:
        shape = shape_of(array)
        ct = resolve(as_numbers(ct, f"what the gradient function of {name_of(self.f)} returned"))
        if shape_of(ct) != shape:
            raise CustomGradientError(
                f"the gradient function of {name_of(self.f)} returned a gradient of shape {shape_of(ct)} for an argument of "
                f"shape {shape}, at {here()}."
            )
        return conjugated(ct) if type(ct) not in (float, int) else np.float64(ct)


def _takes_variables(grad_fn: Callable[..., Any]) -> bool:
    parameters = inspect.signature(grad_fn).parameters
    return "variables" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@contextmanager
def _unrecorded(f: Callable[..., Any]) -> Iterator[None]:
    """Return a context without recording, in which Tensors of the outer tapes, from closures, raise."""
    before = ACTIVE.get()

    def refuse(tensors: Sequence[Recorded]) -> bool:
        if any(tensor.recorder in before for tensor in tensors):
            raise CustomGradientError(
                f"{name_of(f)} uses a Tensor that is followed and is no argument, at {here()}: the gradient by it would be "
                f"lost. Make it an argument, or a constant by functad.stop_gradient."
            )
        return False

    with setting(ACTIVE, ()), setting(GRAPH_HOOK, refuse), new_arrays_recorded_by(None):
        yield


@transform
def recompute_grad(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that keeps only the arguments of `f` as residuals, and runs `f` again for its gradient.

    Value and gradient equal the value and gradient of `f`, with less memory and one more evaluation. `functad.checkpoint`
    repeats the records instead of the Python code, and has policies for residuals.

    Args:
        f: a function of Tensors, arrays of any shape, numbers, or structures of them. It may read Variables, and must compute
            the same result for the same arguments. Without it a decorator is returned.

    Returns:
        A function with the signature of `f`. Its results are Tensors with the structure, shapes and dtypes of the results of
        `f`.

    Raises:
        CustomGradientError: (when called) `f` uses a traced Tensor that is not an argument, so that its gradient would be lost.

    Example:
        >>> import numpy as np, functad
        >>> float(functad.grad(recompute_grad(lambda x: np.sin(np.sin(x))))(0.0))
        1.0
    """

    @custom_gradient
    @functools.wraps(f)
    def recomputed(*args: P.args, **kwargs: P.kwargs) -> Any:
        def run(tape: GradientTape, variables: Sequence[Variable] = ()) -> tuple[Any, dict[int, Any]]:
            """Run the function on copies, which it may write into; return its result and, by identity, the watched Tensors."""
            sources = [leaf for leaf in sorted_leaves(args) if isinstance(leaf, Recorded) and dtype_of(leaf).kind in "fc"]
            watched: dict[int, Any] = {id(t): np.copy(t) for t in sources}  # type: ignore[call-overload]
            tape.watch([*watched.values(), *variables])
            own = {key: np.copy(t) for key, t in watched.items()}  # watched Tensors must not change
            given = mapped(lambda leaf: own.get(id(leaf), leaf) if isinstance(leaf, Recorded) else leaf, args)
            return f(*given, **kwargs), watched

        def grad_fn(*dys: Any, variables: Sequence[Variable] = ()) -> Any:
            with GradientTape(watch_accessed_variables=False) as tape:
                y, watched = run(tape, variables)
            leaves = sorted_leaves(y)
            targets = [(leaf, dy) for leaf, dy in zip(leaves, dys, strict=True) if isinstance(leaf, (Recorded, TensorLike))]
            asked = [*watched.values(), *variables]
            found = tape.gradient([t for t, _ in targets], asked, [dy for _, dy in targets], "zero")
            by_source = dict(zip(watched, found, strict=False))
            grads = [by_source.get(id(leaf)) for leaf in sorted_leaves(args)]
            return (grads, found[len(watched) :]) if variables else grads

        with GradientTape(watch_accessed_variables=False) as tape:
            return run(tape)[0], grad_fn

    recomputed.__wrapped__ = f  # type: ignore[attr-defined]
    return recomputed


@transform
def grad_pass_through(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function with the value of `f` and the derivative of the identity, for rounding and similar functions.

    The cotangent of the result is the cotangent of the argument, for every `f` (the straight-through estimator of Bengio,
    Leonard and Courville, 2013).

    Args:
        f: a function of one or several Tensors or arrays. It returns one result for each argument, with the same shape.
            Without it a decorator is returned.

    Returns:
        A function with the signature of `f`. Its results are Tensors with the shapes and dtypes of the results of `f`.

    Raises:
        CustomGradientError: (when a gradient is taken) the results differ from the arguments in number or shape.

    Example:
        >>> import numpy as np, functad
        >>> float(functad.grad(grad_pass_through(np.round))(2.6))
        1.0
    """

    @custom_gradient
    @functools.wraps(f)
    def passing(*args: P.args, **kwargs: P.kwargs) -> Any:
        def grad_fn(*dys: Any, variables: Sequence[Variable] = ()) -> Any:
            return (list(dys), [None] * len(variables)) if variables else list(dys)

        return f(*args, **kwargs), grad_fn

    return passing
