"""`grad`, `value_and_grad` and `vjp`: reverse mode on concrete values; `stop_gradient`: a value as a constant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, ParamSpec, Self, TypeVar, TypeVarTuple, cast, overload

import numpy as np

from functad.errors import NonScalarError, UnsupportedError
from functad.expressions.spec import shape_and_dtype, spec_of
from functad.places import here, name_of
from functad.primitives.batching import elementwise
from functad.primitives.kinds import constant
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.ownership import lend, own_results
from functad.tracing.trace import Recorded, Recorder, unwrap
from functad.transforms.boundary import (
    OBJECTS,
    Inputs,
    check_like,
    checked_leaves,
    own_aux,
    own_derivatives,
    split_aux,
    traced,
    without_slope,
    wrap_inputs,
)
from functad.transforms.reverse import foreign_array, pull_back, pull_through
from functad.transforms.transform import ArgNames, ArgNums, Selection, transform
from functad.trees import flatten, tree_map

P = ParamSpec("P")
_float64 = np.float64
_ONE = _float64(1.0)
R = TypeVar("R")
A = TypeVar("A")
Args = TypeVarTuple("Args")


@transform
def value_and_grad(
    f: Callable[P, R],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, Any]]:
    """Return a function that computes the value and the gradient of `f` in one evaluation: `(f(x), g)`.

    `g[i] = d f(x) / d x[i]`.

    Args:
        f: the function. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, holomorphic, allow_int: as for `grad`.

    Returns:
        A function with the signature of `f` that returns `(value, gradient)`, or `((value, aux), gradient)`.

    Raises:
        NonScalarError, InputError: as for `grad`.

    Example:
        >>> import numpy as np
        >>> value, gradient = value_and_grad(lambda w: np.sum(w["a"] ** 2) * w["b"])({"a": np.array([1.0, 2.0]), "b": 3.0})
        >>> float(value)
        15.0
        >>> gradient
        {'a': array([ 6., 12.]), 'b': np.float64(5.0)}
    """
    selection = Selection("value_and_grad", f, argnums, argnames)
    return gradient_function(selection, has_aux, holomorphic, allow_int, with_value=True)


@transform
def grad(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """Return a function that computes the gradient of `f`: `g[i] = d f(x) / d x[i]`.

    Args:
        f: a function of NumPy code that returns one real number. Without `f`, the transform returns a decorator.
        argnums: position, or positions, of the arguments to differentiate with respect to: arrays, numbers, or pytrees of them.
        argnames: name, or names, of these arguments. If given, the default of `argnums` does not apply.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is returned unchanged.
        holomorphic: arguments and value are complex, and the gradient is the complex derivative.
        allow_int: accept integers among the selected arguments and as the value; their gradient is zero.

    Returns:
        A function with the signature of `f` that returns the gradient, or `(gradient, aux)` with `has_aux`. The gradient has
        the structure, shapes and dtypes of the argument. It is a tuple if `argnums` is a sequence, and a dict if `argnames` is
        a sequence. For a complex argument the gradient is `du/dx - i du/dy`.

    Raises:
        NonScalarError: the result of `f` is not one real number, but for example an array, an integer or a boolean.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> grad(lambda x: np.sum(np.sin(x) * x))(np.array([0.0, 1.0])).round(4)
        array([0.    , 1.3818])
        >>> float(grad(grad(grad(lambda x: x**4)))(2.0))
        48.0
    """
    selection = Selection("grad", f, argnums, argnames)
    return gradient_function(selection, has_aux, holomorphic, allow_int)


def gradient_function(
    selection: Selection,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool | None = None,
    *,
    with_value: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the gradient, or value and gradient, of the function of `selection`."""
    transform, f = selection.transform, selection.function

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        recorder = ReverseRecorder(transform, f)
        inputs = wrap_inputs(recorder, selection, args, kwargs, holomorphic=holomorphic, allow_int=allow_int)
        out, aux = traced(recorder, f, inputs.args, inputs.kwargs), None
        if has_aux:
            out, aux = split_aux(out, True, selection)
        recorded = isinstance(out, Recorded) and out.recorder is recorder
        value = out.below if recorded else out
        one = _ONE if type(value) is _float64 and not holomorphic else _seed(value, selection, holomorphic, allow_int)
        found = [None] * recorder.inputs
        if recorded:
            cotangents: list[Any] = [None] * max(out.slot + 1, recorder.inputs)
            cotangents[out.slot] = one
            if recorder.monitor is None:
                found = pull_back(recorder.records, cotangents, recorder.inputs, consume=True)
            else:
                found = recorder.monitor.pull_back(cotangents)
        result = own_derivatives(inputs, found)
        if type(value) is np.ndarray:  # of shape (), and possibly an array of the user
            value = value.copy()
        if not has_aux:
            return (value, result) if with_value else result
        aux = own_aux(aux, recorder, inputs.primals)
        return ((value, aux), result) if with_value else (result, aux)

    return gradient


def _seed(value: Any, selection: Selection, holomorphic: bool, allow_int: bool | None) -> Any:
    """Return the cotangent 1; raise `NonScalarError` if the result is not one number that can be differentiated."""
    shape, dtype = shape_and_dtype(value)
    is_number = shape is not None and dtype is not None
    kind = getattr(dtype, "kind", "V")
    needs = "needs a function that returns one number"
    if not is_number:
        cure = "Return the number alone, and the rest with has_aux=True."
    elif shape != ():
        cure = "Reduce it (np.sum, np.mean), or use jacobian or vjp."
    elif kind not in "biufc":
        cure = OBJECTS
    elif kind in "biu" and not allow_int:
        needs, cure = "needs a function that returns one real number", without_slope(allow_int)
    elif holomorphic and kind != "c":
        needs, cure = "with holomorphic=True needs a complex result", "Leave holomorphic out."
    elif not holomorphic and kind == "c":
        needs = "needs a real result"
        cure = "Return np.abs, .real or .imag of it, or pass holomorphic=True if f is holomorphic."
    else:
        return dtype.type(1) if (inner := foreign_array(value)) is None else np.ones_like(inner)
    is_number = is_number and isinstance(dtype, np.dtype)  # other libraries have other dtype classes
    found = spec_of(value) if is_number else f"a {type(value).__name__}"
    raise NonScalarError(
        f"{selection.transform} {needs}, but {name_of(selection.function)}, called at {here()}, returned {found}. {cure}"
    )


@overload
def vjp(
    f: Callable[[*Args], tuple[R, A]], /, *primals: *Args, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[*Args]], A]: ...
@overload
def vjp(
    f: Callable[[*Args], R], /, *primals: *Args, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[*Args]]]: ...
@overload
def vjp(f: Callable[..., Any], /, *primals: Any, has_aux: bool) -> Any: ...
def vjp(  # type: ignore[misc] # mypy does not see that Any takes each of several types
    f: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> Any:
    """Return the value of `f` and its pullback: `g -> g^T J`.

    Args:
        f: a function of NumPy code.
        primals: the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        has_aux: `f` returns a pair `(value, aux)`.

    Returns:
        `(value, pullback)`, or `(value, pullback, aux)`. `pullback(g)` returns a tuple with one cotangent per argument. The
        cotangent `g` has the structure, shapes and dtypes of the value. The pullback may be called repeatedly.

    Raises:
        InputError: an argument cannot be differentiated.
        StructureError: (by `pullback`) `g` does not match the value.

    Example:
        >>> import numpy as np
        >>> value, pullback = vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        >>> pullback(np.array([1.0, 10.0]))
        (array([ 3., 40.]), array([ 1., 20.]))
    """
    return pulled_back("vjp", f, primals, has_aux=has_aux)


def pulled_back(
    transform: str,
    f: Callable[..., Any],
    primals: tuple[Any, ...],
    *,
    has_aux: bool = False,
    kind: type[Pullback] | None = None,
) -> Any:
    """Return the value, a pullback that may be called at any later time and, with `has_aux`, the auxiliary result."""
    selection = Selection(transform, f, range(len(primals)))
    recorder = ReverseRecorder(transform, f)
    recorder.lasting = True
    inputs = wrap_inputs(recorder, selection, primals, {})
    out, aux = split_aux(traced(recorder, f, inputs.args, {}), has_aux, selection)
    pull = (kind or Pullback)(recorder, inputs, out, selection)
    found = pull.structure.unflatten(own_results(map(lend, pull.values))), pull
    if not has_aux:
        return found
    leaves, structure = flatten(unwrap(aux, recorder))
    return *found, structure.unflatten(own_results(map(lend, leaves)))


class Pullback:
    """The function from the cotangent of a traced result to the cotangents of the selected arguments.

    The pullback keeps the trace, so it may be called repeatedly. Copies are the pullback itself, and it cannot be pickled.

    Attributes:
        arguments: the arguments of the function as text, for messages.
        transform, function: names for messages.
        inputs: the selected arguments.
        values: the leaves of the result.
        structure: the structure of the result.
        recorder: the trace.
        slots: the slot of each leaf of the result in the trace, or `None` if the leaf depends on no argument.
    """

    arguments = "g"

    def __init__(self, recorder: Recorder, inputs: Inputs, out: Any, selection: Selection) -> None:
        leaves, self.structure = checked_leaves(out, selection.transform, selection.function)
        self.transform, self.function = recorder.transform, recorder.function
        self.recorder = recorder
        self.inputs = inputs
        self.slots = [leaf.slot if isinstance(leaf, Recorded) and leaf.recorder is recorder else None for leaf in leaves]
        self.values = [leaf if slot is None else leaf.below for leaf, slot in zip(leaves, self.slots, strict=True)]
        if recorder.monitor is not None:
            recorder.monitor.check_values(self.slots)

    def __call__(self, g: Any) -> Any:
        """Return the cotangents of the selected arguments for a cotangent `g` of the result, which must match the result."""
        seeds = check_like(g, self.structure, self.values, "g", "value")
        return own_derivatives(self.inputs, self.leaves(seeds), seeds)

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs for cotangents of the leaves of the result. `None` means zero in both."""
        return pull_through(self.recorder, self.slots, seeds, consume=False)

    def signature(self) -> str:
        """Return the types of the arguments and of the result as text."""
        taken = self.inputs.pack([spec_of(primal) for primal in self.inputs.primals])
        result = self.structure.unflatten([spec_of(value) for value in self.values])
        return f"{', '.join(map(repr, taken))} -> {result!r}"

    def __repr__(self) -> str:
        return f"<{self.transform} of {name_of(self.function)}: {self.signature()}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable, like any function

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            f"{self!r} cannot be pickled, at {here()}: it holds a trace, which belongs to this process. Pickle its expression "
            f"list, functad.make_expressions(function)({self.arguments}), or pickle the arguments and call {self.transform} "
            f"again."
        )


T = TypeVar("T")


def _identity(x: Any) -> Any:
    return x.copy() if type(x) is np.ndarray else x  # the user may write to the result


STOP = constant(
    _identity,
    name="stop_gradient",
    samples=lambda array: [((array(3),), {})],
    spec=lambda x: x,
    internal=True,
    doc="the value; the derivative is cut",
    batch=elementwise,
)


def stop_gradient(x: T) -> T:
    """Return the value of `x` as a constant: no derivative flows through it, in any mode and of any order.

    Args:
        x: an array, number, or pytree of them.

    Returns:
        The same pytree with plain values. In an abstract trace, the leaves are Tensors with a zero derivative.

    Example:
        >>> import numpy as np, functad
        >>> float(functad.grad(lambda x: x * stop_gradient(x))(3.0))
        3.0
    """
    return cast("T", tree_map(_stopped, x))


def _stopped(leaf: Any) -> Any:
    read = getattr(type(leaf), "__functad_read__", None)  # read a Variable
    return STOP(leaf if read is None else read(leaf))
