"""Lowering of views: reshape, transpose, broadcast, basic indices. They are free for operands in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.backends.native.arrays import Array, Formula, Memory, aligned
from functad.backends.native.lowering import Lowered, View, row
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.values import Value
from functad.primitives.arranging.flip import FLIP
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE
from functad.primitives.elementwise.complex_numbers import IMAG, REAL


def broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array broadcast to a shape."""
    if isinstance(array, Memory):
        new = len(shape) - len(array.shape)
        own = zip(array.shape, array.strides, shape[new:], strict=True)
        return array.view(shape, [0] * new + [0 if n == 1 != m else s for n, s, m in own])
    return Formula(shape, array.kind, lambda code, index: array.at(code, aligned(index, array.shape)))


def transposed(array: Array, axes: Sequence[int]) -> Array:
    """Return an array with permuted axes."""
    shape = tuple([array.shape[i] for i in axes])
    if isinstance(array, Memory):
        return array.view(shape, [array.strides[i] for i in axes])

    def element(code: Code, index: Sequence[Index]) -> Value:
        own: list[Index] = [0] * len(axes)
        for i, axis in enumerate(axes):
            own[axis] = index[i]
        return array.at(code, own)

    return Formula(shape, array.kind, element)


@row(BROADCAST_TO)
def _broadcast_to(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return View(lambda arrays: broadcast(arrays[0], results[0].shape), same=given[0].shape == results[0].shape)


@row(RESHAPE)
def _reshape(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.params.get("order", "C") != "C":
        return None
    return View(lambda arrays: arrays[0].reshaped(results[0].shape), same=True)


@row(TRANSPOSE)
def _transpose(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axes = equation.params["axes"]
    axes = tuple(reversed(range(given[0].ndim))) if axes is None else tuple(axes)
    return View(lambda arrays: transposed(arrays[0], axes))


class Part:
    """A basic index (integers, slices, new axes, ellipsis) into an array of known shape.

    Attributes:
        shape: the shape of the part.
        starts: for each axis of the array, the first index.
        axes: for each axis of the array, the axis of the part and the step; `None` for an integer index.
    """

    def __init__(self, shape: Sequence[int], index: Any) -> None:
        parts = list(index) if isinstance(index, tuple) else [index]
        taken = sum(part is not None and part is not Ellipsis for part in parts)
        fill = [slice(None)] * (len(shape) - taken)
        if Ellipsis in parts:
            place = parts.index(Ellipsis)
            parts[place : place + 1] = fill
        else:
            parts += fill
        self.starts: list[int] = []
        self.axes: list[tuple[int, int] | None] = []
        found: list[int] = []
        lengths = iter(shape)
        for part in parts:
            if part is None:
                found.append(1)
            elif isinstance(part, slice):
                start, stop, step = part.indices(next(lengths))
                self.starts.append(start)
                self.axes.append((len(found), step))
                found.append(len(range(start, stop, step)))
            else:
                self.starts.append(int(part) % next(lengths))
                self.axes.append(None)
        self.shape = tuple(found)

    def of(self, array: Array) -> Array:
        """Return the part of `array`."""
        if isinstance(array, Memory):
            strides = [0] * len(self.shape)
            for stride, axis in zip(array.strides, self.axes, strict=True):
                if axis is not None:
                    strides[axis[0]] = stride * axis[1]
            return array.view(self.shape, strides, sum(a * b for a, b in zip(self.starts, array.strides, strict=True)))

        def element(code: Code, index: Sequence[Index]) -> Value:
            own = [
                start if axis is None else code.linear([index[axis[0]]], [axis[1]], start)
                for start, axis in zip(self.starts, self.axes, strict=True)
            ]
            return array.at(code, own)

        return Formula(self.shape, array.kind, element)


@row(FLIP)
def _flip(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axes = equation.params["axis"]
    part = Part(given[0].shape, tuple([slice(None, None, -1 if i in axes else 1) for i in range(given[0].ndim)]))
    return View(lambda arrays: part.of(arrays[0]))


@row(REAL, IMAG)
def _part_of_real(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.primitive is REAL:
        return View(lambda arrays: arrays[0], same=True)
    kind = KINDS[results[0].dtype]
    return View(lambda arrays: Formula(results[0].shape, kind, lambda code, index: code.constant(0, kind)))
