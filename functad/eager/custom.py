"""Functions whose derivative the user gives: `custom_gradient`, `recompute_grad`, `grad_pass_through`.

A call is recorded as one operation, whose rule is what the user's function returned beside its value. The function runs with
no tape recording. The rule is run on what the walk gives it; where that is to be differentiated in turn, the function runs
again on Tensors, so that what its rule closes over is followed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from functad.eager.active import ACTIVE
from functad.eager.containers import alike, in_places, is_list, listed, mapped, matched, sorted_leaves, sorted_places
from functad.eager.models.tensor_like import TensorLike
from functad.eager.models.variable import GIVEN, Variable, reading, standing_in
from functad.eager.tape.request import as_numbers, conjugated
from functad.eager.tape.tape import GradientTape
from functad.errors import CustomGradientError
from functad.expressions.spec import PLAIN, dtype_of, shape_of, stand_in
from functad.places import here, name_of
from functad.primitives.entry import Primitive
from functad.primitives.operands import innermost, read
from functad.rules.call import OneCall, apply
from functad.rules.rules import Rules
from functad.settings import setting
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import ONLOOKER, Recorded, making_plain, resolve
from functad.tracing.traces.idle import idle, tensor_of
from functad.tracing.views import clone
from functad.transforms.calling.transform import transform
from functad.transforms.leaves import copied, replaced
from functad.trees.structure import Structure, flatten_as_inserted

P = ParamSpec("P")
R = TypeVar("R")


@transform
def custom_gradient(f: Callable[P, Any]) -> Callable[P, Any]:
    """Give a function a gradient of its own: `f` returns its value and the function that pulls cotangents back.

    Args:
        f: returns `(y, grad_fn)`; without it a decorator is returned. `y` is a Tensor, or a structure of them.
            For a method, `self` has no gradient; the Variables of `self` are Variables that `f` reads.
            `grad_fn(*dys)`, with one cotangent for each of them, returns one for each positional argument, in the structure of
            the arguments or in a list; `None` says that there is no path. Of a dict, one comes after the other in the order of
            the sorted keys. If `f` reads trainable Variables that are no arguments, `grad_fn` must accept `variables=`, and
            return `(grads, grads_of_variables)`. For complex numbers cotangents and gradients are those of tapes, also if the
            function is used under `functad.grad`: the derivative of `z * z` is `dy * np.conj(2 * z)`.

    Returns:
        A function that returns `y`. Its derivatives in reverse mode, in tapes and transforms, are what `grad_fn` gives; those
        of second order are the derivatives of what `grad_fn` computes.

    Raises:
        TypeError: `f` does not return a pair, or reads Variables and `grad_fn` takes no `variables`.
        ValueError: (when a gradient is taken) `grad_fn` returned another number of gradients, or one of another shape; (when
            called) `f` uses a Tensor that is followed and is no argument, so that its gradient would be lost.

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
    """Return `True` if a class of an instance has a method that was made of a function by `custom_gradient`."""
    kind = type(instance)
    if kind in PLAIN or issubclass(kind, (Recorded, TensorLike)):
        return False
    return any(
        getattr(attribute, "__wrapped__", None) is function for base in kind.__mro__ for attribute in vars(base).values()
    )


def _bound(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with Tensors that were given by name in their places, so that they have gradients too."""
    if not any(isinstance(leaf, (Recorded, TensorLike)) for leaf in flatten_as_inserted(kwargs)[0]):
        return args, kwargs
    bound = inspect.signature(f).bind(*args, **kwargs)
    return bound.args, bound.kwargs


def _tensor(value: Any) -> Any:
    """Return a value as a Tensor; what a trace follows is one already."""
    return tensor_of(Tensor, value if isinstance(value, Recorded) else np.copy(value)[()])


class _OwnGradient(OneCall):
    """The primitive of a call whose gradient function is the user's: where that returns `None`, the path ends."""

    may_cut = True
    spec = Primitive.spec_by_stand_in

    def __init__(self, call: _Call) -> None:
        self.function = call.f
        self.name = str(getattr(call.f, "__name__", type(call.f).__name__))
        self.compute = call.compute
        self.vjps = (lambda g, arrays: call.pull(g, arrays),)
        if not call.variables:
            self.batch = call.batch


class _Call:
    """One call of a function with a gradient of its own."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.f = f
        self.kwargs = kwargs
        self.leaves, self.structure = flatten_as_inserted(args)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, (Recorded, TensorLike))]
        self.variables: list[Variable] = []
        self.result: Structure | None = None
        self.known: tuple[Any, Any] | None = None

    def run(self) -> Any:
        """Return the value, recorded if an argument is followed."""
        arguments = [read(self.leaves[i]) for i in self.places]
        if not arguments:
            self.leaves = copied(self.leaves)
        for i in self.places:
            self.leaves[i] = None  # the record, which holds this call, is not to keep Tensors alive
        if any(isinstance(resolve(a), Recorded) for a in arguments) or ACTIVE.get():
            self._evaluate([stand_in(innermost(resolve(a))) for a in arguments])
            arguments += [read(variable) for variable in self.variables]
            for recorder in ACTIVE.get():
                recorder.fallible = True
        outs = _OwnGradient(self)(*arguments) if arguments else self.compute()
        assert self.result is not None
        return self.result.unflatten([_tensor(out) for out in outs])

    def compute(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results, known if the function was evaluated for these arrays."""
        known = self.known
        if known is None or len(known[0]) > len(arrays) or any(a is not b for a, b in zip(known[0], arrays, strict=False)):
            return self._evaluate(arrays[: len(self.places)])
        return known[1][0]  # type: ignore[no-any-return]

    def _evaluate(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run the function on plain values, while nothing records, and keep its rule."""
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

        The rule reads Variables as they were in the call, whatever was assigned since, or what functional_call gave them.
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
        """Return the results for all examples of a batch, by a call whose rule is that of all of them."""

        def forward(*arrays: Any) -> tuple[tuple[Any, ...], Any]:
            outs, grad_fn = self._call([clone(a) if isinstance(a, Recorded) else a for a in arrays])
            return tuple(map(resolve, outs)), (grad_fn, arrays)

        def backward(kept: Any, gs: Sequence[Any]) -> list[Any]:
            return self._pulled(kept[0], tuple(gs), kept[1])

        rules = Rules(self.f, lambda *arrays: forward(*arrays)[0], forward, backward, name=primitive.name)
        return apply(rules.of_batch(size, tuple(batched)), values)

    def _pulled(self, grad_fn: Callable[..., Any], g: Any, arrays: Sequence[Any]) -> list[Any]:
        """Pull a cotangent back through the gradient function of the user's."""
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
        """Return the gradients by the arguments that are Tensors, given what a gradient function returned."""
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
    """Let no tape or transform record, and refuse Tensors that were recorded until now: they are closed over."""
    before = ACTIVE.get()

    def refuse(tensors: Sequence[Recorded]) -> bool:
        if any(tensor.recorder in before for tensor in tensors):
            raise CustomGradientError(
                f"{name_of(f)} uses a Tensor that is followed and is no argument, at {here()}: the gradient by it would be "
                f"lost. Make it an argument, or a constant by functad.stop_gradient."
            )
        return False

    with setting(ACTIVE, ()), setting(ONLOOKER, refuse), making_plain():
        yield


@transform
def recompute_grad(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that computes `f`, keeps nothing but its arguments, and computes it again for its gradient.

    Value and gradient are those of `f`, for less memory and one more evaluation. `functad.checkpoint` does the same by what was
    recorded, without running the Python code of `f` again, and has policies for what to keep.

    Args:
        f: a function of Tensors, arrays of any shape, numbers, or structures of them, which may read Variables; called again
            with the same arguments it must do the same. Without it a decorator is returned.

    Returns:
        A function with the signature of `f`. Its results are Tensors, in the structure, shapes and dtypes of those of `f`.

    Raises:
        CustomGradientError: (when called) `f` uses a Tensor that is followed and is no argument, so that its gradient would be
            lost.

    Example:
        >>> import numpy as np, functad
        >>> float(functad.grad(recompute_grad(lambda x: np.sin(np.sin(x))))(0.0))
        1.0
    """

    @custom_gradient
    @functools.wraps(f)
    def recomputed(*args: P.args, **kwargs: P.kwargs) -> Any:
        def run(tape: GradientTape, variables: Sequence[Variable] = ()) -> tuple[Any, dict[int, Any]]:
            """Run the function while a tape records, so that it may write into its arrays; return what it was given too."""
            sources = [leaf for leaf in sorted_leaves(args) if isinstance(leaf, Recorded) and dtype_of(leaf).kind in "fc"]
            watched: dict[int, Any] = {id(t): np.copy(t) for t in sources}  # type: ignore[call-overload]
            tape.watch([*watched.values(), *variables])
            own = {key: np.copy(t) for key, t in watched.items()}  # what is watched stays what it is
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
    """Return a function with the value of `f` and the derivative of the identity: for rounding and the like.

    The cotangent of the argument is that of the result, `g -> g`, whatever `f` does (the straight-through estimator of Bengio,
    Leonard and Courville, 2013).

    Args:
        f: a function of one Tensor or array of any shape that returns one like it; of several, with as many results. Without it
            a decorator is returned.

    Returns:
        A function with the signature of `f`. Its results are Tensors, with the shapes and dtypes of those of `f`.

    Raises:
        CustomGradientError: (when a gradient is taken) the number or the shapes of the results are not those of the arguments.

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
