"""Numerical derivatives (finite differences), for functions without derivative rules.

Directions are scaled so that the step fits the numbers. A rule calls the function itself, so a derivative of higher order is a
difference of differences. It takes a larger step: the error of a central difference of order `k` is about
`eps / h^k + h^2`, with its minimum at `h = eps^(1 / (k + 2))`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError, CustomRuleError, LoopWarning, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here, warn
from functad.rules.call import Rules, apply
from functad.tracing.trace import Recorded
from functad.transforms.grad import stop_gradient
from functad.transforms.leaves import replaced
from functad.transforms.outside import trial

_TINY = 1e-100
"""The complex step in double precision. There is no cancellation, so its only limit is underflow."""


@dataclass(frozen=True)
class Differences:
    """A function with its method of numerical differentiation.

    Attributes:
        base: the rules that compute the function.
        method: `central` or `complex-step`.
        step: the step of first derivatives, relative to numbers of size 1. Default: derived from the precision.
        order: the order of the derivative that is being computed.
        warns: `True` to give a warning, if the user did not ask for numerical derivatives.
    """

    base: Rules
    method: str
    step: float | None
    order: int = 1
    warns: bool = False

    def rules(self) -> Rules:
        """Return the rules of a call."""
        return self.base._replace(forward=self.forward, backward=self.backward, push=self.push)

    def __call__(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results. The call is recorded as one operation if a Tensor is among the arguments."""
        return apply(self.rules(), arrays)

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results and the residuals, which are the arguments."""
        return self(arrays), arrays

    def _warn(self) -> None:
        if self.warns:
            warn(
                LoopWarning(
                    f"{self.base.name} is no NumPy code, so its own derivative, for forward mode or second derivatives, is "
                    f"made of differences, one for each element, at {here()}. Write it in NumPy, or enter what it calls by "
                    f"primitive."
                )
            )

    def _inner(self, arrays: Sequence[Any]) -> tuple[Differences, int]:
        """Return the function that a rule calls, and the order of its derivative."""
        order = max(self.order, 1 + max(map(_depth, arrays)))
        return replace(self, order=order), order

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results: one difference for each argument, in the direction of its tangent."""
        self._warn()
        totals: list[Any] = []
        for i, t in enumerate(ts):
            if t is None or dtype_of(arrays[i]).kind not in "fc":
                continue
            # No element moves further than the step for its size.
            longest = np.max(np.abs(stop_gradient(t)) / np.maximum(1.0, np.abs(stop_gradient(arrays[i]))), initial=0.0)
            directions: list[Any] = [None] * len(arrays)
            directions[i] = t / (longest + (longest == 0))
            parts = [slope * longest for slope in self._slopes(arrays, directions, 1.0)]
            totals = [a + b for a, b in zip(totals, parts, strict=True)] if totals else parts
        return totals or [None] * len(self(arrays))

    def backward(self, arrays: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments: a difference for each real element, two for each complex element."""
        self._warn()
        result: list[Any] = []
        for i, a in enumerate(arrays):
            if dtype_of(a).kind not in "fc":
                result.append(None)
                continue
            parts = []
            for index in np.ndindex(shape_of(a)):
                unit = np.zeros(shape_of(a), dtype_of(a))
                unit[index] = 1
                part = self._along(arrays, i, unit[()], index, gs)
                parts.append(part if dtype_of(a).kind == "f" else part - 1j * self._along(arrays, i, 1j * unit, index, gs))
            shape = shape_of(a)
            result.append(np.stack(parts).reshape(shape) if parts and shape else parts[0] if parts else np.zeros(shape))
        return result

    def _along(self, arrays: Sequence[Any], i: int, unit: Any, index: tuple[int, ...], gs: Sequence[Any]) -> Any:
        """Return the real part of the product of the cotangents and the derivatives along one element."""
        directions: list[Any] = [None] * len(arrays)
        directions[i] = unit
        element = stop_gradient(arrays[i])[index] if index else stop_gradient(arrays[i])
        slopes = self._slopes(arrays, directions, np.maximum(1.0, np.abs(element)))
        pairs = [np.sum(g * slope) for g, slope in zip(gs, slopes, strict=True) if dtype_of(g).kind in "fc"]
        total = sum(pairs[1:], pairs[0])
        return total.real if dtype_of(total).kind == "c" else total

    def _slopes(self, arrays: Sequence[Any], directions: Sequence[Any], size: Any) -> list[Any]:
        """Return the derivatives of the results along a direction. `None` in it means zero."""
        inner, order = self._inner(arrays)
        moved = [a for a, d in zip(arrays, directions, strict=True) if d is not None]
        if self.method == "complex-step" and all(dtype_of(a).kind == "f" for a in moved):
            h = _complex_step([dtype_of(a) for a in arrays])
            shifted = [a if d is None else a + 1j * h * d for a, d in zip(arrays, directions, strict=True)]
            return [out.imag / h for out in inner(shifted)]
        eps = max([float(np.finfo(dtype_of(a)).eps) for a in moved], default=2.2e-16)
        first = eps ** (1 / 3) if self.step is None else self.step
        h = first ** (3 / (order + 2)) * size
        after = inner([_moved(a, d, h) for a, d in zip(arrays, directions, strict=True)])
        before = inner([_moved(a, d, -h) for a, d in zip(arrays, directions, strict=True)])
        return [
            (b - a) / (2 * h) if dtype_of(a).kind in "fc" else np.zeros(shape_of(a)) for a, b in zip(before, after, strict=True)
        ]


def _complex_step(dtypes: Sequence[np.dtype[Any]]) -> float:
    """Return a complex step that does not underflow in the precision of the arguments, and whose square vanishes beside 1.

    For `complex64`, the precision of the function for `float16` and `float32`, it is the third root of the smallest normal
    number, 2e-13.
    """
    smallest = max([np.finfo(np.result_type(d, np.complex64)).tiny for d in dtypes if d.kind in "fc"], default=0.0)
    return max(_TINY, math.cbrt(smallest))


def _moved(a: Any, direction: Any, h: Any) -> Any:
    """Return an argument moved along a direction, in its own precision."""
    if direction is None:
        return a
    moved = a + h * direction
    return moved if dtype_of(moved) == dtype_of(a) else moved.astype(dtype_of(a))


def _depth(value: Any) -> int:
    """Return the number of concrete traces that record a value."""
    depth = 0
    while isinstance(value, Recorded):
        depth += value.recorder.has_values
        value = value.below
    return depth


def as_spec(found: Any) -> ArraySpec:
    """Return the result of a shape rule, a spec or a pair `(shape, dtype)`, as a spec."""
    return ArraySpec(tuple(found[0]), np.dtype(found[1])) if is_pair(found) else spec_of(found)


def is_pair(found: Any) -> bool:
    """Return `True` for a pair `(shape, dtype)`."""
    return isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], (tuple, list))


def tried(compute: Callable[..., Any], specs: Sequence[Any], params: Mapping[str, Any], name: str) -> Any:
    """Return the result for test arrays: ones, with twos on the diagonal, so that square matrices have an inverse.

    Raises:
        CustomRuleError: the function raises an error for these arrays.
    """
    try:
        with trial(), np.errstate(all="ignore"):
            return compute(*[_made_up(s) for s in specs], **params)
    except Exception as error:
        raise CustomRuleError(
            f"the shape of the result of {name} is not known, at {here()}: called with arrays of ones it raised "
            f"{type(error).__name__}: {error}. Give the rule: shape=lambda x: (x.shape, x.dtype), say."
        ) from error


def _made_up(spec: Any) -> Any:
    if not isinstance(spec, ArraySpec):
        return spec
    ones = np.ones(spec.shape, spec.dtype)
    return ones + np.eye(*spec.shape[-2:], dtype=spec.dtype) if spec.ndim > 1 else ones[()]


def or_approximate(rule: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a VJP rule that also accepts Tensors if the given rule works on plain arrays only.

    Such a rule becomes one operation: it is called for each example of a batch, it is one equation in lists, and its own
    derivatives are numerical. `call(g, shape, *read)` returns the cotangent of shape `shape`; `name` is for lists and messages.
    """

    def call(g: Any, shape: tuple[int, ...], *read: Any) -> Any:
        given = g, *read
        places = [i for i, value in enumerate(given) if isinstance(value, Recorded)]
        try:
            return rule(*given)
        except (ConversionError, AbstractValueError, UnsupportedError):
            if not places or any(isinstance(part, Recorded) for value in read if type(value) is tuple for part in value):
                raise
        spec = ArraySpec(shape, dtype_of(g))

        def value(*arrays: Any) -> tuple[Any, ...]:
            return (np.asarray(rule(*replaced(given, places, arrays))).astype(spec.dtype, casting="same_kind")[()],)

        base = Rules(function=rule, value=value, spec=lambda *specs: (spec,), name=name, loops=True)
        return Differences(base, "central", None, warns=True)([given[i] for i in places])[0]

    return call
