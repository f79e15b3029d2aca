"""`linearize` and `linear_transpose`: the derivative at a point as a linear function, and transposes of linear functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NoReturn, TypeVar, TypeVarTuple, cast, overload

import numpy as np

from functad.errors import NotLinearError, StructureError
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec, inexact, shape_of
from functad.places import here, name_of
from functad.primitives.operands import innermost, zeros_for
from functad.tracing.ownership import own_results
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.calling.boundary import check_tangents, traced, undifferentiable, wrap_inputs
from functad.transforms.calling.transform import Selection
from functad.transforms.grad import lasting_pullback
from functad.transforms.linearity import linear_list
from functad.transforms.lists import extract
from functad.transforms.pullbacks import Pullback, refuse_pickling
from functad.transforms.walks.forward import transposed_seeds, with_zeros
from functad.transforms.walks.reverse import pull_back
from functad.trees.functions import tree_map

R = TypeVar("R")
A = TypeVar("A")
Args = TypeVarTuple("Args")


class Pushforward:
    """The transpose of a pullback, `t -> J t`, from the same trace.

    A pullback is linear in its cotangent. The backward pass is recorded once, and a call pulls the tangents back through its
    records (`push_transposed` in `functad.transforms.walks.forward` does the same for one primitive). A call takes the time of
    about two forward passes, without a second run of the function.
    """

    def __init__(self, pull: Pullback) -> None:
        recorder = ReverseRecorder(pull.transform, pull.function)
        self.zeros = [zeros_for(shape_of(v), inexact(v), innermost(v)) for v in pull.values]
        seeds = [recorder.enter(zero) for zero in self.zeros]
        self.found = pull.leaves(seeds)
        recorder.close()
        self.recorder = recorder

    def leaves(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of the leaves of the result for tangents of the inputs; `None` means zero in both."""
        recorder, seeds = self.recorder, transposed_seeds(self.recorder, tangents, self.found)
        return pull_back(recorder.equations, seeds, recorder.inputs, consume=False)


class LinearFunction(Generic[R, *Args]):
    """The derivative of a function at a point: `linear(*tangents)` is `J t`, and `linear.transpose(g)` is `g^T J`.

    `functad.linearize` returns it. Both may be called repeatedly, also with Tensors, under `vmap` and in other traces.

    Example:
        >>> linear = linearize(lambda x: x**2, np.array([1.0, 2.0]))[1]
        >>> linear
        <derivative of <lambda>: float64[2] -> float64[2]>
        >>> linear(np.array([1.0, 1.0])), linear.transpose(np.array([1.0, 10.0]))
        (array([2., 4.]), (array([ 2., 40.]),))
    """

    def __init__(self, pull: Pullback) -> None:
        self._pull = pull
        self._push: Pushforward | None = None

    def __repr__(self) -> str:
        return f"<derivative of {name_of(self._pull.function)}: {self._pull.signature()}>"

    def __copy__(self) -> LinearFunction[R, *Args]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> LinearFunction[R, *Args]:
        return self  # immutable, like any function

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "*tangents", "linearize")

    def __call__(self, *tangents: Any) -> R:
        """Return `J t`.

        Args:
            tangents: one tangent per primal, with the structure, shapes and dtypes of the primal.

        Returns:
            The tangent of the value, with the structure, shapes and dtypes of the value.

        Raises:
            StructureError: the tangents do not match the primals.
        """
        inputs = self._pull.inputs
        if len(tangents) != len(inputs.structures):
            raise StructureError(
                f"a linear function of {len(inputs.structures)} arguments was called with {len(tangents)}, at {here()}."
            )
        given = check_tangents(inputs, tangents)
        if self._push is None:
            self._push = Pushforward(self._pull)
        results = with_zeros(self._push.leaves(given), self._pull.values)
        return cast("R", self._pull.structure.unflatten(own_results(results, given)))

    def transpose(self, g: Any) -> tuple[*Args]:
        """Return `g^T J`.

        Args:
            g: a cotangent, with the structure, shapes and dtypes of the value.

        Returns:
            A tuple with one cotangent per primal, with the structure, shapes and dtypes of the primal.

        Raises:
            StructureError: `g` does not match the value.
        """
        return cast("tuple[*Args]", self._pull(g))


@overload
def linearize(
    f: Callable[[*Args], tuple[R, A]], /, *primals: *Args, has_aux: Literal[True]
) -> tuple[R, LinearFunction[R, *Args], A]: ...
@overload
def linearize(
    f: Callable[[*Args], R], /, *primals: *Args, has_aux: Literal[False] = False
) -> tuple[R, LinearFunction[R, *Args]]: ...
@overload
def linearize(f: Callable[..., Any], /, *primals: Any, has_aux: bool) -> Any: ...
def linearize(  # type: ignore[misc] # mypy does not see that Any takes each of several types
    f: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> Any:
    """Return the value of `f` and its derivative at this point as a reusable linear function: `t -> J(x) t`.

    Args:
        f: a function of NumPy code, which runs once.
        primals: the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        has_aux: `f` returns a pair `(value, aux)`.

    Returns:
        `(value, linear)`, or `(value, linear, aux)`. `linear(*tangents)` takes one tangent per argument and returns the tangent
        of the value. `linear.transpose(g)` takes a cotangent of the value and returns a tuple with one cotangent per argument.

    Raises:
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> value, linear = linearize(lambda x: x**2, np.array([1.0, 2.0]))
        >>> linear(np.array([1.0, 1.0])), linear(np.array([0.0, 3.0]))
        (array([2., 4.]), array([ 0., 12.]))
        >>> linear.transpose(np.array([1.0, 10.0]))
        (array([ 2., 40.]),)
    """
    pull, value, *aux = lasting_pullback("linearize", f, primals, has_aux)
    return value, LinearFunction(pull), *aux


def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a linear function: `g -> g^T A` for `f(x) = A x`.

    Args:
        f: a function of NumPy code that is jointly linear in all its arguments. Solvers and code that cannot be traced are
            assumed to be linear; `functad.testing.check_rules(f, *primals, linear=True)` tests this numerically.
        primals: arrays, numbers, `ArraySpec`s or pytrees of them. Only shapes and dtypes matter.

    Returns:
        A function that takes the cotangent of the result and returns a tuple with one cotangent per argument.

    Raises:
        NotLinearError: `f` is not linear; the message names the operation.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> transpose = linear_transpose(lambda x: np.cumsum(2 * x), np.zeros(3))
        >>> transpose(np.array([1.0, 0.0, 1.0]))
        (array([4., 2., 2.]),)
    """
    selection = Selection("linear_transpose", f, range(len(primals)))
    at_zero = tuple([tree_map(_zeros, primal) for primal in primals])
    # This call raises if an argument cannot be differentiated.
    wrap_inputs(ReverseRecorder("linear_transpose", f), selection, at_zero, {})
    expressions = _linear_list(f, at_zero)
    recorder = ReverseRecorder("linear_transpose", f)
    recorder.lasting = True
    inputs = wrap_inputs(recorder, selection, at_zero, {})
    with np.errstate(all="ignore"):  # values that the derivative does not need may be infinite at zero
        out = traced(recorder, expressions, inputs.args, {})
    pull = Pullback(recorder, inputs, out, selection)
    for value, path in zip(pull.values, pull.structure.paths("result"), strict=True):
        value = innermost(value)
        if not isinstance(value, ArraySpec) and np.any((value != 0) & (value == value)):  # zero times infinity is NaN
            raise NotLinearError(
                f"{selection.call}: {path} is not zero where all arguments are, so a constant is added. Take it out, or use "
                f"vjp."
            )
    return pull


def _zeros(leaf: Any) -> Any:
    if isinstance(leaf, ArraySpec):
        return np.zeros(leaf.shape, leaf.dtype)[()]
    if undifferentiable(leaf) is not None:
        return leaf  # `wrap_inputs` raises for this leaf
    return zeros_for(shape_of(leaf), inexact(leaf), leaf)[()]


def _linear_list(f: Callable[..., Any], args: tuple[Any, ...]) -> Expressions:
    """Return the expression list of a linear function, without dead code.

    Raises:
        NotLinearError: `f` is not linear.
    """
    expressions = linear_list("linear_transpose", f, f, args)
    inputs, outputs = expressions.input_structure, expressions.output_structure
    kept = extract(expressions)
    return kept.replace(input_structure=inputs, output_structure=outputs)
