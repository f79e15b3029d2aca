"""A step of an optimiser in an abstract trace, as under `functad.jit`.

Each call of the compiled function reads and updates the state of the optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import StructureError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.optimizers.transformations import EmptyState, add_decayed_weights, apply_updates
from functad.places import here
from functad.primitives.operands import read
from functad.transforms.row_slices import RowSlices, whole
from functad.trees import flatten


def traced_step(optimizer: Any, cells: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Record a step of an optimiser.

    Args:
        optimizer: the optimiser; it already knows the variables.
        cells: makes trace inputs of external state.
        pairs: gradients and variables. A variable with the gradient `None` is not updated.

    Raises:
        StructureError: a gradient and its variable differ in shape.
    """
    moving = [(_fitting(gradient, variable), variable) for gradient, variable in pairs if gradient is not None]
    gradients, _ = optimizer.clipping().update([gradient for gradient, _ in moving], EmptyState())
    steps = _cell(
        cells, optimizer, "iterations", 0, lambda: optimizer.iterations, lambda n: setattr(optimizer, "iterations", int(n))
    )
    rate = _rate(optimizer, cells, steps)
    rule, decay = optimizer.rule(rate), add_decayed_weights(-rate * (optimizer.weight_decay or 0.0))
    numbers = {id(slot.variable): number for number, slot in enumerate(optimizer._slots)}
    for gradient, (_, variable) in zip(gradients, moving, strict=True):
        state, structure = _state(optimizer, cells, numbers[id(variable)])
        value = read(variable)
        update, after = rule.update(gradient, structure.unflatten([cell.value for cell in state]), value)
        if optimizer.weight_decay:
            update, _ = decay.update(update, EmptyState(), value)
        variable.assign(apply_updates(value, update))
        for cell, new in zip(state, flatten(after)[0], strict=True):
            cell.change(new)
    steps.change(steps.value + 1)


def _rate(optimizer: Any, cells: Any, steps: Any) -> Any:
    """Return the learning rate of the step: the value of the schedule, or a number that each call reads."""
    schedule = optimizer._learning_rate
    if callable(schedule):
        return schedule(steps.value)
    return _cell(cells, optimizer, "rate", 0.0, lambda: optimizer._learning_rate, lambda value: None).value


def _fitting(gradient: Any, variable: Any) -> Any:
    """Return a gradient as a Tensor of the dtype of its variable."""
    gradient = read(whole(gradient) if isinstance(gradient, RowSlices) else gradient)
    if shape_of(gradient) != tuple(variable.shape):
        own = ArraySpec(tuple(variable.shape), variable.dtype)
        raise StructureError(
            f"apply_gradients, called at {here()}, got for {variable.name!r}, which is {own}, a gradient that is "
            f"{spec_of(gradient)}. Both must have one shape."
        )
    return gradient if dtype_of(gradient) == variable.dtype else gradient.astype(variable.dtype)


def _state(optimizer: Any, cells: Any, number: int) -> tuple[list[Any], Any]:
    """Return the cells of the state of a variable, and the structure of the state."""
    leaves, structure = flatten(optimizer._slots[number].state)

    def cell(place: int) -> Any:
        def now() -> Any:
            return flatten(optimizer._slots[number].state)[0][place]

        def write(value: Any) -> None:
            slot = optimizer._slots[number]
            own, same = flatten(slot.state)
            slot.state = same.unflatten([*own[:place], value, *own[place + 1 :]])

        return _cell(cells, optimizer, (number, place), leaves[place], now, write)

    return [cell(place) for place in range(len(leaves))], structure


def _cell(cells: Any, optimizer: Any, key: Any, like: Any, now: Callable[[], Any], write: Callable[[Any], Any]) -> Any:
    spec = spec_of(like) if not issubclass(type(like), np.ndarray) else ArraySpec(like.shape, like.dtype)
    return cells.cell((id(optimizer), key), spec, now, write)
