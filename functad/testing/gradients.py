"""Checks of the derivatives of user functions, in both modes and to any order.

`check_grads` compares functad's derivatives with numerical ones at a point. A second derivative is checked as the first
derivative of the function `x, t -> J t` or `x, g -> g^T J`. `assert_differentiable` is a property test: it repeats
`check_grads` and checks of transforms at arguments that Hypothesis draws and shrinks.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from functad.compilation.jit import jit
from functad.errors import AbstractValueError, InputError, NothingComparedError, UnsupportedError, WrongDerivativeError
from functad.expressions.spec import dtype_of, is_array_or_number, is_inexact, shape_of, spec_of
from functad.places import here, name_of
from functad.process import optional
from functad.testing.numerical import Measured, bytes_of_real, error, mean_size, measure, paired, pairing, random_like
from functad.transforms.grad import pulled_back, vjp
from functad.transforms.leaves import replaced
from functad.transforms.linear import jvp, pushed_along
from functad.transforms.vmap import vmap
from functad.trees import flatten

Mode = Literal["rev", "fwd"]
MODES = {"rev": "reverse", "fwd": "forward"}
TOLERANCES = {8: (1e-8, 1e-6), 4: (1e-4, 1e-3)}
"""`atol` and `rtol` by the bytes of a real number, for numbers of size 1 and functions with some thousand roundings."""
LOOKED_AT = 256
"""Number of elements per input that are perturbed one by one, to find elements at a kink or to name a wrong element."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Mode | Sequence[Mode] = ("rev", "fwd"),
    atol: float | None = None,
    rtol: float | None = None,
    *,
    seed: int = 0,
) -> None:
    """Check derivatives of `f` at `args` against numerical ones.

    The comparison uses random directions, so its cost does not grow with the size of the arguments. Each mode takes about
    seven evaluations of `f` and one derivative, and as much again for each of the `len(modes)` derivatives of the next order.
    The numerical derivative is a complex step if `f` accepts complex numbers, else central differences. Both use double
    precision, also for arguments in single precision. Elements at a kink, where one-sided differences disagree, are skipped.

    Args:
        f: a function that takes and returns arrays, numbers, or pytrees of them.
        args: its arguments; `check_grads` differentiates with respect to the floating-point and complex ones.
        order: the highest order of derivative.
        modes: `rev` for reverse, `fwd` for forward, or both; from the second order on also their compositions.
        atol: absolute tolerance. Default: 1e-8, or 1e-4 in single precision.
        rtol: tolerance relative to the largest number of the same array. Default: 1e-6, or 1e-3 in single precision.
        seed: seed of the random directions.

    Raises:
        WrongDerivativeError: a derivative is wrong; the message names order, mode, input, element and both numbers.
        NothingComparedError: no derivative could be compared.
        ValueError: `order` or `modes` is invalid.

    Example:
        >>> import functad
        >>> check_grads(lambda w: np.sum(np.tanh(w["a"]) * w["b"]), [{"a": np.array([0.1, 0.7]), "b": 2.0}])
        >>> try:
        ...     check_grads(lambda x: x * functad.stop_gradient(x), [3.0], modes=["rev"])
        ... except WrongDerivativeError as wrong:
        ...     print(str(wrong).partition(":")[2])
         functad gives 3, differences 6 (off by 3.0e+00, allowed 6.0e-06). [wrong-derivative]
    """
    modes = (modes,) if isinstance(modes, str) else modes
    if order < 1 or not modes or not set(modes) <= set(MODES):
        raise ValueError(f"order must be 1 or more and modes some of {list(MODES)}, not {order!r} and {modes!r}")
    _Point.of(f, args, atol, rtol).check(order, tuple(modes), np.random.default_rng(seed))


@dataclass(frozen=True)
class _Point:
    """A function from arrays to a list of arrays, with the point of differentiation."""

    name: str
    function: Callable[..., list[Any]]
    primals: list[Any]
    paths: list[str]
    tolerance: tuple[float, float]
    real_bytes: int
    order: int = 1
    over: str = ""

    @staticmethod
    def of(f: Callable[..., Any], args: Sequence[Any], atol: float | None, rtol: float | None) -> _Point:
        """Return a function of pytrees as a function of their inexact leaves."""
        leaves, structure = flatten(tuple(args))
        places = [i for i, leaf in enumerate(leaves) if _has_derivative(leaf)]
        name = name_of(f)
        if not places:
            raise NothingComparedError(f"{name} has no floating-point or complex argument to differentiate by: {args!r}.")

        @functools.wraps(f)  # messages name `f`
        def function(*primals: Any) -> list[Any]:
            results = f(*structure.unflatten(replaced(leaves, places, primals)))
            return [leaf for leaf in flatten(results)[0] if _has_derivative(leaf)]

        with np.errstate(all="ignore"):
            results = function(*[leaves[i] for i in places])
            precise = function(*[_double(leaves[i]) for i in places])
        if not results:
            raise NothingComparedError(f"{name} returns no floating-point or complex array or number.")
        low, high = TOLERANCES[min(map(bytes_of_real, [*results, *[leaves[i] for i in places]]))]
        tolerance = (low if atol is None else atol, high if rtol is None else rtol)
        paths = structure.paths("args")
        real_bytes = min(map(bytes_of_real, precise))  # `f` may round to float32 inside for any input
        return _Point(name, function, [leaves[i] for i in places], [paths[i] for i in places], tolerance, real_bytes)

    def check(self, order: int, modes: tuple[Mode, ...], generator: np.random.Generator) -> None:
        """Check the first derivatives of this function; for a higher order, check the functions that compute them."""
        for mode in modes:
            _Comparison(self, mode, generator).run()
        if order > 1:
            for mode in modes:
                self.derivative(mode, generator).check(order - 1, modes, generator)

    def derivative(self, mode: Mode, generator: np.random.Generator) -> _Point:
        """Return the JVP (`fwd`) or VJP (`rev`) as a function of the point and of its tangents or cotangents."""
        count = len(self.primals)
        if mode == "fwd":
            ends = _directions(self.primals, generator)
            names = [f"the tangent of {path}" for path in self.paths]

            def derivative(*both: Any) -> list[Any]:
                return list(pushed_along("check_grads", self.function, both[:count], both[count:])[1])
        else:
            with np.errstate(all="ignore"):
                results = self.function(*self.primals)
            ends = _directions(results, generator)
            names = [f"the cotangent of result {i}" for i in range(len(ends))]

            def derivative(*both: Any) -> list[Any]:
                values, pull = pulled_back("check_grads", self.function, both[:count])
                if [shape_of(value) for value in values] != [shape_of(g) for g in both[count:]]:
                    return [x * np.nan for x in both[:count]]  # a mask selects other elements here
                return list(pull(list(both[count:])))

        return _Point(
            self.name,
            functools.wraps(self.function)(derivative),
            [*self.primals, *ends],
            [*self.paths, *names],
            self.tolerance,
            self.real_bytes,
            self.order + 1,
            f" over {MODES[mode]}{self.over}",
        )


class _Comparison:
    """The comparison of the derivatives of one function in one mode with numerical derivatives.

    Attributes:
        doubles: the point in double precision, used for differences.
        scales: step size per input: the size of its elements, at least 1.
        twice: accept an element only if steps of two sizes agree. If a kink is nearer than the step, as for `abs(x) ** 1.5`,
            the error of one step can exceed its uncertainty. A failure is therefore repeated with `twice`.
    """

    def __init__(self, point: _Point, mode: Mode, generator: np.random.Generator) -> None:
        self.point = point
        self.mode = mode
        self.doubles = [_double(x) for x in point.primals]
        self.scales = [max(1.0, mean_size(x)) for x in self.doubles]
        drawn = [_double(random_like(x, generator)) for x in point.primals]
        self.direction = [v * scale for v, scale in zip(drawn, self.scales, strict=True)]
        self.generator = generator
        self.twice = False

    def run(self) -> None:
        """Compare the derivatives; repeat a failed comparison with steps of two sizes."""
        if not _within(*self._pair(*self._smooth())):
            self.twice = True
            direction, measured = self._smooth()
            if not _within(*self._pair(direction, measured)):
                self._blame(direction)

    def _smooth(self) -> tuple[Sequence[Any], list[Measured]]:
        """Return a direction without kinks, and the numerical derivative along it.

        Raises:
            NothingComparedError: no element of the arguments or results is free of kinks.
        """
        direction = self.direction
        measured = self._measure(direction)
        if not all(bool(np.all(m.smooth)) for m in measured):
            direction = self._without_kinks()
            measured = self._measure(direction)
        if _size_of(direction) * _size_of([m.smooth for m in measured]) and not (
            any(map(np.any, direction)) and any(np.any(m.smooth) for m in measured)
        ):
            raise NothingComparedError(
                f"No derivative of {self.point.name} of order {self.point.order} could be compared: differences do not settle "
                f"on a number for any element of its arguments. The point lies at a kink, or outside the domain. "
                f"Choose other args."
            )
        return direction, measured

    def _measure(self, direction: Sequence[Any]) -> list[Measured]:
        return measure(self.point.function, self.doubles, direction, real_bytes=self.point.real_bytes, twice=self.twice)

    def _without_kinks(self) -> list[Any]:
        """Return the direction with zeros for the input elements that cause a kink when they move."""
        kept = []
        finite = [m.smooth for m in self._measure([v * 0 for v in self.direction])]
        for i, v in enumerate(self.direction):
            flat = np.array(v).reshape(-1)
            if flat.size > LOOKED_AT:
                kept.append(v)
                continue
            for j in range(flat.size):
                measured = self._measure(self._only(self.direction, i, j))
                if not all(bool(np.all(m.smooth | ~known)) for m, known in zip(measured, finite, strict=True)):
                    flat[j] = 0
            kept.append(flat.reshape(np.shape(v))[()])
        return kept

    def _only(self, direction: Sequence[Any], i: int, j: int | None = None) -> list[Any]:
        """Return a direction with zeros everywhere except in input `i`, or except in its element `j`."""
        only = [v * 0 for v in direction]
        only[i] = direction[i]
        if j is not None:
            one = np.zeros(np.size(direction[i]), dtype_of(direction[i]))
            one[j] = np.reshape(direction[i], -1)[j]
            only[i] = one.reshape(np.shape(direction[i]))[()]
        return only

    def _pair(self, direction: Sequence[Any], measured: Sequence[Measured]) -> tuple[Any, Any, Any]:
        """Return functad's derivative along a direction, the measured derivative and the tolerance.

        The three are arrays in forward mode. In reverse mode they are numbers, paired with a random cotangent.
        """
        atol, rtol = self.point.tolerance
        if self.mode == "fwd":
            rows = zip(self._push(direction), measured, strict=True)
            parts = [[np.asarray(x)[m.smooth] for x in (t, m.derivative, m.allowed(atol, rtol))] for t, m in rows]
            found, wanted, allowed = (np.concatenate(column) for column in zip(*parts, strict=True))
            return found, wanted, allowed
        alone = _size_of([m.derivative for m in measured]) == 1
        gs = [self._cotangent(m, alone=alone) for m in measured]
        expected, size, doubt = paired(gs, measured)
        return pairing(self._pull(gs), direction), expected, atol + rtol * size + doubt

    def _cotangent(self, measured: Measured, *, alone: bool) -> Any:
        """Return a random cotangent of a result, zero where it has no derivative; 1 if the result is a single number."""
        drawn = 1.0 if alone else random_like(measured.derivative, self.generator)
        return np.where(measured.smooth, drawn, 0)[()]

    def _push(self, direction: Sequence[Any]) -> list[Any]:
        tangents = [np.asarray(v).astype(dtype_of(x))[()] for v, x in zip(direction, self.point.primals, strict=True)]
        with np.errstate(all="ignore"):
            return list(pushed_along("check_grads", self.point.function, self.point.primals, tangents)[1])

    def _pull(self, gs: Sequence[Any]) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            values, pullback = pulled_back("check_grads", self.point.function, tuple(self.point.primals))
            return list(pullback([g.astype(dtype_of(y)) for g, y in zip(gs, values, strict=True)]))

    def _blame(self, direction: Sequence[Any]) -> None:
        """Raise for the first input with a wrong derivative and its first wrong element, else for all arguments together."""
        worst: tuple[str, tuple[Any, Any, Any]] | None = None
        for i, path in enumerate(self.point.paths):
            numbers = self._compared(self._only(direction, i))
            if _within(*numbers):
                continue
            worst = (f"{path} ({spec_of(self.point.primals[i])})", numbers)
            shape = shape_of(self.point.primals[i])
            for j in range(min(math.prod(shape), LOOKED_AT) if shape else 0):
                numbers = self._compared(self._only(direction, i, j))
                if not _within(*numbers):
                    index = ", ".join(map(str, np.unravel_index(j, shape)))
                    worst = (f"{path}[{index}] ({spec_of(self.point.primals[i])})", numbers)
                    break
            break
        where, numbers = worst or ("all arguments together", self._pair(direction, self._measure(direction)))
        found, expected, allowed = _worst_of(*numbers)
        mode = MODES[self.mode] + self.point.over
        raise WrongDerivativeError(
            f"the derivative of {self.point.name} by {where} is wrong in order {self.point.order}, {mode} mode: functad gives "
            f"{found:.9g}, differences {expected:.9g} (off by {abs(found - expected):.1e}, allowed {allowed:.1e}).",
            self.point.order,
            mode,
            where.partition(" (")[0],
        )

    def _compared(self, direction: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return found, expected and allowed for a direction of length 1: for one element, its partial derivative."""
        length = math.sqrt(math.fsum(float(np.sum(np.abs(v) ** 2)) for v in direction)) or 1.0
        scale = max((scale for v, scale in zip(direction, self.scales, strict=True) if np.any(v)), default=1.0)
        unit = [v / length * scale for v in direction]
        if sum(map(np.count_nonzero, unit)) == 1:
            unit = [v if np.iscomplexobj(v) else abs(v) for v in unit]
        found, expected, allowed = self._pair(unit, self._measure(unit))
        return found / scale, expected / scale, allowed / scale


def _has_derivative(leaf: Any) -> bool:
    """Return `True` for a floating-point or complex array or number."""
    return is_array_or_number(leaf) and not isinstance(leaf, type) and is_inexact(leaf)


def _directions(values: Sequence[Any], generator: np.random.Generator) -> list[Any]:
    """Return random tangents or cotangents; 1 for a single number, so that messages show plain derivatives."""
    if _size_of(values) == 1:
        return [x * 0 + dtype_of(x).type(1) for x in values]
    return [random_like(x, generator) for x in values]


def _double(value: Any) -> Any:
    """Return a copy in double precision."""
    return np.array(value, np.complex128 if dtype_of(value).kind == "c" else np.float64)[()]


def _size_of(arrays: Sequence[Any]) -> int:
    return sum(map(np.size, arrays))


def _within(found: Any, expected: Any, allowed: Any) -> bool:
    """Return `True` if every error is within its tolerance; NaN is not."""
    return bool(np.all(np.abs(found - expected) <= allowed))


def _worst_of(*numbers: Any) -> list[Any]:
    """Return found, expected and allowed for the element with the largest excess error."""
    found, expected, allowed = (np.atleast_1d(value) for value in numbers)
    excess = np.abs(found - expected) - allowed
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    return [value[worst].item() for value in (found, expected, allowed)]


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

    Comparisons with differences skip points at kinks. The check `vmap` skips functions that need concrete values, and `jit`
    functions that need floats.

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
        if not _has_derivative(leaf):
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
            program = jit(value_and_pulled, backend="numpy")
            _compare(lambda: [program(*primals) for _ in range(2)][1], expected, "jit")  # the second call compiles a path
        if "vmap" in checks:
            near = [(np.asarray(x) * _NEAR).astype(np.asarray(x).dtype)[()] for x in primals]  # the second example
            batch = list(map(np.stack, zip(primals, near, strict=True)))
            both = list(map(np.stack, zip(expected, value_and_pulled(*near), strict=True)))
            _compare(lambda: vmap(value_and_pulled)(*batch), both, "vmap")
    return int("differences" in checks)


_NEAR = 0.999
"""Factor between the two examples of a batch. A factor below 1 moves towards zero, which stays within most domains."""


def _allowed(values: Sequence[Any]) -> float:
    return AGREEMENT[min(map(bytes_of_real, values))]


def _compare(run: Callable[[], Sequence[Any]], expected: Sequence[Any], what: str) -> None:
    """Compare values and gradients under a transform with the untransformed ones; skip functions that need concrete values."""
    try:
        found = run()
    except (AbstractValueError, UnsupportedError):
        return
    for a, b in zip(found, expected, strict=True):
        if shape_of(a) != shape_of(b) or not (error(a, b) <= _allowed(expected) or np.array_equal(a, b, equal_nan=True)):
            raise WrongDerivativeError(f"{what} changes a value or a gradient: it gives {a!r}, and without it is {b!r}.")
