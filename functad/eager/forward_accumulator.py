"""`ForwardAccumulator`: forward-mode derivatives of the operations inside a context."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.eager import containers
from functad.eager.tape.recorder import AccumulatorRecorder, Recording, refuse_within, watch_given
from functad.eager.tape.request import UnconnectedGradients, as_numbers, finished, leaves_of, zero_wanted
from functad.eager.variable import Stamp, Variable
from functad.errors import StructureError
from functad.expressions.records import copied
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of
from functad.places import here, warn
from functad.primitives.operands import read
from functad.transforms.forward import push_forward


class ForwardAccumulator(Recording):
    """Compute tangents, `J t`, of the results inside the context: forward-mode derivatives.

    Accumulators nest with each other (call `jvp` of the inner one first) and with tapes. A `gradient` inside an accumulator
    gives a Hessian-vector product.

    Args:
        primals: a Tensor or Variable, or a nested structure of them.
        tangents: arrays, numbers or Tensors with the shapes and structure of the primals. Dicts are matched by key.

    Raises:
        ValueError: numbers, keys or shapes do not match, or a primal is given twice.
        TypeError: the containers have different types, or a primal is not a Tensor or Variable.

    Example:
        >>> import numpy as np, functad
        >>> x = functad.constant([0.0, 1.0])
        >>> with functad.ForwardAccumulator(x, [1.0, 2.0]) as accumulator:
        ...     y = np.sin(x)
        >>> accumulator.jvp(y).numpy().round(4)
        array([1.    , 1.0806])
    """

    name, _again = "accumulator", "make another one"

    def __init__(self, primals: Any, tangents: Any) -> None:
        pairs, structure = leaves_of(primals, "primals")
        given = containers.matched(structure, tangents, "tangents", "primals")
        self._primals = [primal for primal, _ in pairs]
        if len({id(primal) for primal in self._primals}) < len(self._primals):
            raise ValueError(f"a primal is there twice, at {here()}: give it once, with the sum of its tangents.")
        self._tangents = [_tangent(t, primal, path) for (t, path), primal in zip(given, self._primals, strict=True)]
        self._values = [primal.held if isinstance(primal, Variable) else None for primal in self._primals]
        self._stretches = []
        self._inputs: dict[int, Any] = {}
        self._pushed: list[Any] = []
        self._arrivals: Any = None

    def _open(self) -> None:
        self.recorder = AccumulatorRecorder("a ForwardAccumulator")

    def _start(self) -> None:
        super()._start()
        try:
            for primal, t in zip(self._primals, self._tangents, strict=True):
                if t is not None and not isinstance(primal, Variable):
                    self._inputs[watch_given(read(primal), self.recorder)] = t
        except BaseException:  # an interrupt
            self._stop()
            raise

    def _exited(self) -> None:
        self._push()  # now, so that outer accumulators and tapes record it
        Stamp.renew()

    def wants(self, variable: Variable) -> bool:
        """Return `True` if a Variable is a primal and was not assigned to since the accumulator was made."""
        for primal, t, held in zip(self._primals, self._tangents, self._values, strict=True):
            if primal is variable and t is not None and held is variable.held:
                self._reading = t
                return True
        return False

    def follow(self, slot: int) -> None:
        """Set the tangent of the slot of a Variable that was just read."""
        self._inputs[slot] = self._reading

    def _push(self) -> None:
        """Compute the tangents of new records."""
        recorder = self.recorder
        if recorder.monitor is None:
            _push_from(recorder.records, self._pushed, self._inputs)
        else:
            self._pushed, self._arrivals = [], recorder.monitor.observed_by(self, self._inputs)
            self._arrivals.through(_push_from, recorder.records, self._pushed, self._inputs)

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """Return the tangents of results. `jvp` may be called any number of times, inside the context and after it.

        Args:
            primals: a Tensor or Variable, or a nested structure of them: the results.
            unconnected_gradients: `"none"` or `"zero"`: the tangent of a result without a recorded path from the primals.

        Returns:
            Tensors in the structure of `primals`.

        Raises:
            ValueError: the option is unknown.
            TypeError: a leaf is not a Tensor or Variable.
        """
        zero = zero_wanted(unconnected_gradients)
        pairs, structure = leaves_of(primals, "the argument of jvp")
        if self.recording:
            self._push()
        return structure.unflatten([finished(self._of(leaf), leaf, zero) for leaf, _ in pairs])

    def _of(self, leaf: Any) -> Any:
        for primal, t in zip(self._primals, self._tangents, strict=True):
            if primal is leaf:
                return t
        recorder = self.recorder
        if recorder is None:
            return None
        refuse_within(read(leaf), recorder, "jvp()")
        slot = recorder.slot_of(read(leaf))
        if slot is None or slot >= len(self._pushed):
            return None
        if recorder.monitor is not None:
            recorder.monitor.check_tangent(self, self._arrivals, slot, self._pushed[slot])
        return self._pushed[slot]


def _push_from(equations: list[Any], pushed: list[Any], inputs: dict[int, Any]) -> None:
    """Push tangents through all records; the tangents of inputs, at any slots, are added during the pass."""
    for slot in sorted(slot for slot in inputs if slot >= len(pushed)):
        before = equations[:slot]
        copied(equations, before)
        push_forward(before, pushed)
        pushed.append(inputs[slot])
    push_forward(equations, pushed, range(len(equations)))


def _tangent(t: Any, primal: Any, path: str) -> Any:
    """Return a tangent with the dtype of its primal; warn and return `None` for a primal of integers."""
    shape, dtype = shape_of(primal), dtype_of(primal)
    if dtype.kind not in "fc":
        warn(RuntimeWarning(f"{path} belongs to a primal of {dtype}, which has no derivative: it is left out."))
        return None
    if t is None:
        raise StructureError(f"{path} is None, at {here()}: give zeros where nothing changes.")
    t = as_numbers(t, path)
    if shape_of(t) != shape:
        raise StructureError(f"{path} has shape {shape_of(t)}, and its primal {shape}, at {here()}: they must be equal.")
    if dtype_of(t).kind == "c" and dtype.kind != "c":
        raise StructureError(f"{path} is complex, and its primal is {dtype}, at {here()}.")
    if type(t) in PYTHON_SCALARS:
        return dtype.type(t)
    return t.astype(dtype) if type(t) is np.ndarray or dtype_of(t) != dtype else t  # `astype` copies an array
