"""The derivative at a point as a linear function, and its transpose: `linearize` and `linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NoReturn, TypeVar, TypeVarTuple, cast, overload

import numpy as np

from functad.errors import NotLinearError, StructureError
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec, inexact, shape_of
from functad.places import here, name_of
from functad.primitives.operands import innermost, zeros_for
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.calling.arguments import check_tangents, enter, traced, undifferentiable
from functad.transforms.calling.results import own_results
from functad.transforms.calling.selection import Selection
from functad.transforms.closed_lists import extract
from functad.transforms.grad import lasting_pullback
from functad.transforms.linearity import linear_list
from functad.transforms.pullbacks import Pullback, refuse_pickling
from functad.transforms.walks.forward import transposed_seeds, with_zeros
from functad.transforms.walks.reverse import pull_back
from functad.trees.functions import tree_map

R = TypeVar("R")
A = TypeVar("A")
Args = TypeVarTuple("Args")


class Pushforward:
    """The transpose of a pullback: `t -> J t`, from the same trace, by a walk through the records of one backward walk.

    A pullback is linear in its cotangent, so it is pulled back itself (as `functad.transforms.walks.forward` does with single
    primitives). It costs about two forward walks, and no second run of the function.
    """

    def __init__(self, pull: Pullback) -> None:
        recorder = ReverseRecorder(pull.transform, pull.function)
        self.zeros = [zeros_for(shape_of(v), inexact(v), innermost(v)) for v in pull.values]
        seeds = [recorder.enter(zero) for zero in self.zeros]
        self.found = pull.leaves(seeds)
        recorder.close()
        self.recorder = recorder

    def leaves(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of the leaves of the result for those of the inputs; `None` stands for zero in both."""
        recorder, seeds = self.recorder, transposed_seeds(self.recorder, tangents, self.found)
        return pull_back(recorder.equations, seeds, recorder.inputs, consume=False)


class LinearFunction(Generic[R, *Args]):
    """The derivative of a function at a point: called with tangents it gives `J t`, its `transpose` with a cotangent `g^T J`.

    Made by `functad.linearize`; both may be called any number of times, also with Tensors, under `vmap` and in other traces.

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
        return self  # as of any function: nothing changes it

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "*tangents", "linearize")

    def __call__(self, *tangents: Any) -> R:
        """Return `J t`.

        Args:
            tangents: one for each primal, of its structure, shapes and dtypes.

        Returns:
            The tangent of the value, of its structure, shapes and dtypes.

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
            A tuple with one cotangent for each primal, of its structure, shapes and dtypes.

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
    """Evaluate `f` once and return its value and its derivative there, as a function to be called repeatedly: `t -> J(x) t`.

    Args:
        f: a function of NumPy code.
        primals: its arguments, all of which are differentiated: arrays, numbers or trees of them.
        has_aux: `f` returns a pair `(value, aux)`.

    Returns:
        `(value, linear)`, or `(value, linear, aux)`. `linear(*tangents)` takes a tangent for each argument and returns that of
        the value; `linear.transpose(g)` takes a cotangent of the value and returns a tuple with those of the arguments.

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
        f: a function of NumPy code that is linear in all its arguments together. Solvers in it, and code that cannot be traced,
            are taken as linear; `functad.testing.check_rules(f, *primals, linear=True)` tests this with numbers.
        primals: arrays, numbers, `ArraySpec`s or trees of them: only shapes and dtypes matter.

    Returns:
        A function from the cotangent of the result to a tuple with those of the arguments.

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
    enter(ReverseRecorder("linear_transpose", f), selection, at_zero, {})  # refuses what cannot be differentiated
    expressions = _linear_list(f, at_zero)
    recorder = ReverseRecorder("linear_transpose", f)
    recorder.lasting = True
    inputs = enter(recorder, selection, at_zero, {})
    with np.errstate(all="ignore"):  # what is dropped on the way may be infinite at zero
        out = traced(recorder, expressions, inputs.args, {})
    pull = Pullback(recorder, inputs, out, selection)
    for value, path in zip(pull.values, pull.structure.paths("result"), strict=True):
        value = innermost(value)
        if not isinstance(value, ArraySpec) and np.any(value != 0):
            raise NotLinearError(
                f"{selection.call}: {path} is not zero where all arguments are, so a constant is added. Take it out, or use "
                f"vjp."
            )
    return pull


def _zeros(leaf: Any) -> Any:
    if isinstance(leaf, ArraySpec):
        return np.zeros(leaf.shape, leaf.dtype)[()]
    if undifferentiable(leaf) is not None:
        return leaf  # which is refused where arguments enter
    return zeros_for(shape_of(leaf), inexact(leaf), leaf)[()]


def _linear_list(f: Callable[..., Any], args: tuple[Any, ...]) -> Expressions:
    """Return a function as a list of what its results need, if it is linear.

    Raises:
        NotLinearError: it is not.
    """
    expressions = linear_list("linear_transpose", f, f, args)
    inputs, outputs = expressions.input_structure, expressions.output_structure
    kept = extract(expressions, range(len(expressions.inputs)), expressions.outputs, expressions.inputs)
    return kept.replace(input_structure=inputs, output_structure=outputs)
