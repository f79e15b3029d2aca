"""`check_grads`: compare functad's derivatives of a function with numerical ones, in both modes and to any order.

A second derivative is checked as the first derivative of the function `x, t -> J t` or `x, g -> g^T J`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from functad.errors import NothingComparedError, WrongDerivativeError
from functad.expressions.spec import dtype_of, is_array_or_number, is_inexact, shape_of, spec_of
from functad.places import name_of
from functad.testing.numerical import Measured, bytes_of_real, measure, paired, pairing, random_like
from functad.transforms.grad import pulled_back
from functad.transforms.jvp import pushed_along
from functad.transforms.leaves import replaced
from functad.trees.structure import flatten

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
        places = [i for i, leaf in enumerate(leaves) if has_derivative(leaf)]
        name = name_of(f)
        if not places:
            raise NothingComparedError(f"{name} has no floating-point or complex argument to differentiate by: {args!r}.")

        @functools.wraps(f)  # messages name `f`
        def function(*primals: Any) -> list[Any]:
            results = f(*structure.unflatten(replaced(leaves, places, primals)))
            return [leaf for leaf in flatten(results)[0] if has_derivative(leaf)]

        with np.errstate(all="ignore"):
            results = function(*[leaves[i] for i in places])
            precise = function(*[_double(leaves[i]) for i in places])
        if not results:
            raise NothingComparedError(f"{name} returns no floating-point or complex array or number.")
        single = any(bytes_of_real(value) < 8 for value in (*results, *[leaves[i] for i in places]))
        low, high = TOLERANCES[4 if single else 8]
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
        self.scales = [max(1.0, _size(x)) for x in self.doubles]
        drawn = [_double(random_like(x, generator)) for x in point.primals]
        self.direction = [v * scale for v, scale in zip(drawn, self.scales, strict=True)]
        self.generator = generator
        self.twice = False

    def run(self) -> None:
        """Compare the derivatives; repeat a failed comparison with steps of two sizes.

        Raises:
            WrongDerivativeError: the derivatives disagree.
            NothingComparedError: no numerical derivative is reliable.
        """
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
        if alone:
            return np.where(measured.smooth, 1.0, 0.0)[()]
        drawn = np.asarray(self.generator.standard_normal(np.shape(measured.derivative)))
        if measured.derivative.dtype.kind == "c":
            drawn = drawn + 1j * self.generator.standard_normal(np.shape(measured.derivative))
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


def has_derivative(leaf: Any) -> bool:
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


def _size(value: Any) -> float:
    """Return the root mean square of the finite elements."""
    size = np.abs(value)
    size = size[np.isfinite(size)]
    return float(np.sqrt(np.mean(size**2))) if size.size else 0.0


def _size_of(arrays: Sequence[Any]) -> int:
    return sum(map(np.size, arrays))


def _within(found: Any, expected: Any, allowed: Any) -> bool:
    """Return `True` if every error is within its tolerance; NaN is not."""
    return bool(np.all(np.abs(found - expected) <= allowed))


def _worst_of(*numbers: Any) -> list[Any]:
    """Return found, expected and allowed for the element with the largest excess error."""
    found, expected, allowed = map(np.atleast_1d, numbers)
    excess = np.abs(found - expected) - allowed
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    return [value[worst].item() for value in (found, expected, allowed)]
