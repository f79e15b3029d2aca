"""`Point`: value and gradient of a call at the checked point, and at other values of its inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.checkup.looking import LookingRecorder, Rounding, real_bytes
from functad.expressions.spec import dtype_of, shape_of
from functad.places import user_frame
from functad.profiling.call import Call, quiet
from functad.tracing.traces.base import Recorder
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.calling.boundary import traced
from functad.transforms.walks.forward import random_like
from functad.transforms.walks.reverse import pull_back
from functad.trees.structure import flatten


class Outcome(NamedTuple):
    """The results of a run.

    Attributes:
        values: the floating-point and complex leaves of the result.
        gradients: the gradient for each input, or `None` without a path.
    """

    values: list[Any]
    gradients: list[Any]

    @property
    def finite(self) -> bool:
        """Whether all values and gradients are finite."""
        return all(bool(np.all(np.isfinite(a))) for a in (*self.values, *self.gradients) if a is not None)


class Point:
    """A call as a function of its differentiated inputs.

    Attributes:
        call: the call.
        paths: the names of the inputs in messages.
        primals: the values of the inputs.
        doubles: the values in double precision.
        single: `True` if an input has single precision.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.paths = [path for path, _ in call.inputs()]
        self.primals = [dtype_of(value).type(value) if np.ndim(value) == 0 else value for _, value in call.inputs()]
        self.doubles = [np.array(x, np.promote_types(dtype_of(x), np.float64))[()] for x in self.primals]
        self.single = any(real_bytes(x) == 4 for x in self.primals)

    def function(self, *values: Any) -> list[Any]:
        """Return the floating-point and complex leaves of the result; each call draws the same random numbers."""
        with quiet(), self.call.undisturbed():
            out = self.call.bound(values=dict(enumerate(values)))()
        leaves = [getattr(leaf, "numpy", lambda leaf=leaf: leaf)() for leaf in flatten(out)[0]]
        return [
            leaf for leaf in leaves if hasattr(leaf, "dtype") or type(leaf) in (float, complex) if dtype_of(leaf).kind in "fc"
        ]

    def differentiated(self, recorder: Recorder | None = None, values: Sequence[Any] | None = None) -> Outcome:
        """Return value and gradient, at the primals or at given values, with the given trace or a new one."""
        call = self.call
        recorder = ReverseRecorder("doctor", call.function) if recorder is None else recorder
        known: Mapping[int, Any] = {} if values is None else dict(enumerate(values))
        with call.undisturbed(), quiet():
            out = traced(recorder, call.entered(recorder, known), (), {})
            found, slots = call.finished(recorder, out)
            seeds = call.seeds(recorder, found, slots)
            gradients = pull_back(recorder.equations, seeds, recorder.inputs, consume=True)
        return Outcome([value for value in found if dtype_of(value).kind in "fc"], gradients)

    def looked_at(
        self, values: Sequence[Any] | None = None, rounding: Rounding | None = None
    ) -> tuple[LookingRecorder, Outcome]:
        """Return value and gradient with the trace that examined all operations, or perturbed some of them."""
        recorder = LookingRecorder(self.call.function, user_frame(sys._getframe(1)), rounding)
        return recorder, self.differentiated(recorder, values)

    def direction(self, seed: int) -> list[Any]:
        """Return a random direction for each input, scaled by its size if that is above 1."""
        generator = np.random.default_rng(seed)
        return [random_like(x, generator) * max(1.0, _size(x)) for x in self.doubles]

    def moved(self, share: float) -> list[Any]:
        """Return the inputs with every element moved by up to `share` of itself; a zero by a share of the array's size."""
        generator = np.random.default_rng(1)
        return [
            (x + share * generator.uniform(-1, 1, shape_of(x)) * np.where(x == 0, _size(x) or 1.0, x)).astype(dtype_of(x))[()]
            for x in self.primals
        ]

    def alone(self) -> Callable[..., Any]:
        """Return the call as a function of the differentiated inputs, with the name of the user's function."""

        def function(*values: Any) -> Any:
            return self.call.bound(values=dict(enumerate(values)))()

        function.__name__ = function.__qualname__ = self.call.name
        return function


def _size(value: Any) -> float:
    """Return the root mean square of the finite elements."""
    size = np.abs(value)
    size = size[np.isfinite(size)] if np.ndim(size) else size
    return float(np.sqrt(np.mean(size**2))) if np.size(size) and np.all(np.isfinite(size)) else 0.0
