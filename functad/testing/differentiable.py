"""`assert_differentiable`: a property test of a user function with arguments that Hypothesis draws and shrinks."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functad.compilation.jit import jit
from functad.errors import AbstractValueError, InputError, NothingComparedError, UnsupportedError, WrongDerivativeError
from functad.expressions.spec import dtype_of, shape_of
from functad.importable import optional
from functad.places import here, name_of
from functad.testing.gradients import _Point, check_grads, has_derivative
from functad.testing.numerical import bytes_of_real, error, pairing, random_like
from functad.transforms.grad import vjp
from functad.transforms.jvp import jvp
from functad.transforms.vmap import vmap
from functad.trees.structure import flatten

CHECKS = ("differences", "modes", "vmap", "jit")
AGREEMENT = {8: 1e-9, 4: 1e-3}
"""Largest accepted difference of two computations, relative to the largest number, by the bytes of a real number."""


def assert_differentiable(
    f: Callable[..., Any],
    strategy: Any = None,
    *,
    example: Sequence[Any] | None = None,
    order: int = 2,
    checks: Sequence[str] = CHECKS,
    max_examples: int = 25,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Check the derivatives of a function at arguments that Hypothesis draws. Needs the extra `testing`.

    Args:
        f: a function that takes and returns arrays, numbers, or pytrees of them.
        strategy: a Hypothesis strategy for the tuple of arguments, or for a single argument. Default: arguments like
            `example`, else by the annotations of `f`: `float`, `complex`, `np.float32`, `npt.NDArray[np.float64]`.
        example: arguments. Floating-point and complex leaves are drawn at random in the same shapes and dtypes; other
            leaves stay fixed.
        order: the highest order of derivative.
        checks: a subset of `differences` (both modes and their compositions against numerical derivatives, see
            `check_grads`), `modes` (forward against reverse mode), `vmap` (a batch against a loop) and `jit` (compiled
            against eager execution).
        max_examples: the number of draws.
        atol, rtol: as for `check_grads`.

    Comparisons with differences skip points at kinks. The checks `jit` and `vmap` skip functions that need concrete values.

    Raises:
        WrongDerivativeError: a check failed; the message has the line of `f` and the smallest failing arguments.
        NothingComparedError: no derivative could be compared at any point.
        InputError: `checks` is empty or has an unknown name, or neither a strategy, an example nor annotations give the
            arguments of `f`.

    Example:
        >>> import numpy as np, functad
        >>> assert_differentiable(lambda x, w: np.tanh(x @ w), example=(np.zeros((2, 3)), np.zeros(3)), max_examples=5)
        >>> try:
        ...     assert_differentiable(lambda x: x * functad.stop_gradient(x), example=(1.0,), max_examples=20)
        ... except functad.errors.WrongDerivativeError as wrong:
        ...     print("with the arguments" in str(wrong))
        True
    """
    hypothesis = optional("hypothesis", "assert_differentiable", "Hypothesis", "'functad[testing]'")
    if not checks or not set(checks) <= set(CHECKS):
        raise InputError(f"assert_differentiable of {name_of(f)}, at {here()}: checks are some of {CHECKS}, not {checks!r}.")
    drawn = _arguments(f, strategy, example)
    compared = 0

    def check(given: Any) -> None:
        nonlocal compared
        args = given if isinstance(given, tuple) else (given,)
        try:
            compared += _check(f, args, order, checks, atol, rtol)
        except WrongDerivativeError as wrong:
            text = str(wrong).removesuffix(f" [{wrong.code}]")
            raise WrongDerivativeError(
                f"{text} This is {name_of(f)}{_line_of(f)} with the arguments {args!r}.", wrong.order, wrong.mode, wrong.path
            ) from None

    everything = list(hypothesis.HealthCheck)
    phases = [phase for phase in hypothesis.Phase if phase.name != "explain"]
    settings = hypothesis.settings(
        max_examples=max_examples, deadline=None, database=None, suppress_health_check=everything, phases=phases
    )
    settings(hypothesis.given(drawn)(check))()
    if not compared and "differences" in checks:
        raise NothingComparedError(
            f"No derivative of {name_of(f)}{_line_of(f)} could be compared at {max_examples} points: each lies at a kink, or "
            f"outside the domain. Give a strategy for arguments within it."
        )


def _line_of(f: Callable[..., Any]) -> str:
    """Return the file and line of a function for messages, or an empty string."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _arguments(f: Callable[..., Any], strategy: Any, example: Sequence[Any] | None) -> Any:
    """Return the strategy for the arguments of a function.

    Raises:
        InputError: `strategy` is no strategy, or a parameter has neither an example nor a known annotation.
    """
    from hypothesis import strategies as st  # noqa: PLC0415 - an extra

    from functad.testing.strategies import arrays  # noqa: PLC0415

    if strategy is not None:
        if not isinstance(strategy, st.SearchStrategy):
            raise InputError(
                f"assert_differentiable of {name_of(f)}, at {here()}, was given a {type(strategy).__name__} for a strategy. "
                f"Arguments to draw others like go into example=(...)."
            )
        return strategy

    def like(leaf: Any) -> Any:
        if not has_derivative(leaf):
            return st.just(leaf)
        made = arrays(dtype_of(leaf), shape_of(leaf), separated=True)
        return made.map(type(leaf)) if type(leaf) in (float, complex) else made.map(lambda x: x if np.ndim(leaf) else x[()])

    if example is not None:
        leaves, structure = flatten(tuple(example))
        return st.tuples(*map(like, leaves)).map(lambda drawn: structure.unflatten(list(drawn)))
    annotated, strategies = typing.get_type_hints(f), []
    for name, parameter in inspect.signature(f).parameters.items():
        if parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        found = _of_annotation(annotated.get(name), arrays)
        if found is None:
            raise InputError(
                f"assert_differentiable of {name_of(f)}, at {here()}: nothing says what {name!r} is like. Give a strategy, "
                f"example=(...), or an annotation: float, complex, or npt.NDArray[np.float64]."
            )
        strategies.append(found)
    return st.tuples(*strategies)


def _of_annotation(annotation: Any, arrays: Callable[..., Any]) -> Any:
    """Return the strategy for arguments of a type, or `None` for an unknown type."""
    if annotation in (float, complex):
        return arrays(annotation, (), separated=True).map(annotation)
    if isinstance(annotation, type) and issubclass(annotation, np.inexact):
        return arrays(annotation, (), separated=True).map(lambda x: x[()])
    alias = getattr(typing.get_origin(annotation), "__value__", None)
    if alias is not None:  # NumPy 2.5 and later define `NDArray` as a type alias
        annotation = alias[typing.get_args(annotation)]
    if typing.get_origin(annotation) is np.ndarray:
        scalars = typing.get_args(typing.get_args(annotation)[1])
        if scalars and isinstance(scalars[0], type) and issubclass(scalars[0], np.inexact):
            return arrays(scalars[0], separated=True)
    return None


def _check(
    f: Callable[..., Any], args: tuple[Any, ...], order: int, checks: Sequence[str], atol: float | None, rtol: float | None
) -> int:
    """Run the checks at one point; return 1 if derivatives were compared with differences, else 0."""
    try:
        if "differences" in checks:
            check_grads(f, args, order, atol=atol, rtol=rtol)
        point = _Point.of(f, args, atol, rtol)
    except NothingComparedError:
        return 0
    flat, primals = point.function, point.primals
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        values, pullback = vjp(flat, *primals)
        gs = [random_like(np.asarray(value), rng) for value in values]
        pulled = list(pullback(gs))
        if "modes" in checks:
            ts = [random_like(np.asarray(x), rng)[()] for x in primals]
            pushed = jvp(flat, primals, ts)[1]
            size = pairing(list(map(np.abs, gs)), list(map(np.abs, pushed)))
            forward, reverse = pairing(gs, pushed), pairing(pulled, ts)
            if not abs(forward - reverse) <= _allowed(values) * (1 + size):
                raise WrongDerivativeError(f"the modes disagree: forward mode gives {forward:.9g}, reverse mode {reverse:.9g}.")

        def value_and_pulled(*given: Any) -> list[Any]:
            found, back = vjp(flat, *given)
            return [*found, *back([np.asarray(g)[()] for g in gs])]

        expected = [*values, *pulled]
        if "jit" in checks:
            _compare(lambda: jit(value_and_pulled, backend="numpy")(*primals), expected, "jit")
        if "vmap" in checks:
            near = [(np.asarray(x) * _NEAR).astype(np.asarray(x).dtype)[()] for x in primals]  # the second example
            batch = list(map(np.stack, zip(primals, near, strict=True)))
            both = list(map(np.stack, zip(expected, value_and_pulled(*near), strict=True)))
            _compare(lambda: vmap(value_and_pulled)(*batch), both, "vmap")
    return int("differences" in checks)


_NEAR = 0.999
"""Factor between the two examples of a batch. A factor below 1 moves towards zero, which stays within most domains."""


def _allowed(values: Sequence[Any]) -> float:
    return AGREEMENT[4 if any(bytes_of_real(value) <= 4 for value in values) else 8]


def _compare(run: Callable[[], Sequence[Any]], expected: Sequence[Any], what: str) -> None:
    """Compare values and gradients under a transform with the untransformed ones; skip functions that need concrete values."""
    try:
        found = run()
    except (AbstractValueError, UnsupportedError):
        return
    for a, b in zip(found, expected, strict=True):
        if shape_of(a) != shape_of(b) or not (error(a, b) <= _allowed(expected) or np.array_equal(a, b, equal_nan=True)):
            raise WrongDerivativeError(f"{what} changes a value or a gradient: it gives {a!r}, and without it is {b!r}.")
