"""Forward mode where tangents do not tell everything: at equal eigenvalues, whose vectors are any basis of a space.

What a function makes of eigenvalues and vectors shows in their cotangents, and the VJP rules of the decompositions raise where
something is lost: see `functad.primitives.linalg.degenerate`. So where tangents have passed equal values, what follows the
decomposition is transposed, as it is linear in its tangents, and a weighted sum of each result is pulled back as far as the
decomposition. The weights are arbitrary, so that nothing cancels. The VJP rule then raises, or the tangents were right.

No outer trace sees any of this, but an abstract one: there values are not known, and the expression list asks when it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.operands import absent, innermost, is_traced
from functad.tracing.traces.base import Recorded
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.walks.one_record import pull_record
from functad.transforms.walks.reverse import pull_back
from functad.trees.structure import flatten


def loss_at(equation: Any, ts: Sequence[Any]) -> tuple[bool, ...]:
    """Ask `Primitive.lost` of a record with one input; where values are not known, everything may be lost."""
    plan, _, saved, fits = equation
    t, read = lowered(ts[0]), lowered(plan.arguments(saved)[0])
    if any(map(is_traced, flatten((t, read))[0])):
        return (True,) * (len(fits[1]) if plan.primitive.multiple else 1)
    found: tuple[bool, ...] = plan.primitive.lost(t, *read)
    return found


def lowered(saved: Any) -> Any:
    """Put the values below all traces in place of the Tensors that a record keeps, where they are known."""
    if isinstance(saved, tuple):
        parts = [lowered(part) for part in saved]
        return type(saved)(*parts) if hasattr(saved, "_fields") else tuple(parts)
    value = innermost(saved)
    return saved if isinstance(value, ArraySpec) else value


def check_losses(
    equations: Sequence[Any],
    losses: Sequence[tuple[int, tuple[bool, ...]]],
    outputs: Collection[int],
    push: Callable[[Sequence[Any], list[Any], Collection[int]], Any],
) -> None:
    """Raise if what a record has lost matters to a result.

    Args:
        equations: the records of a forward trace.
        losses: the indices of such records, and of which of their results the cotangents are to be looked at.
        outputs: the slots of the results.
        push: pushes tangents through all records.

    Raises:
        DegenerateError: it does.
    """
    lowest = [None if e is None else (e[0], e[1], lowered(e[2]), e[3]) for e in equations]
    for index, lost in losses:
        plan, slot, saved, fits = lowest[index]  # type: ignore[misc]
        if any(e is not None and e[0].primitive in plan.primitive.looked_at_by and inputs_of(e)[0] == slot for e in lowest):
            continue
        multiple = plan.primitive.multiple
        specs = fits[1] if multiple else (fits,)
        for cotangents in _cotangents(lowest, index, specs, outputs, push):
            seen = [ct if look else None for ct, look in zip(cotangents, lost, strict=True)]
            if all(ct is None for ct in seen):
                seen = cotangents
            g = tuple([absent(*spec) if ct is None else ct for ct, spec in zip(seen, specs, strict=True)])
            with np.errstate(all="ignore"):
                pull_record(plan.primitive.reverse_plan((0,)), g if multiple else g[0], saved)


def _cotangents(equations: Sequence[Any], index: int, specs: Any, outputs: Collection[int], push: Callable[..., Any]) -> Any:
    """Yield for each result the cotangents of what one record made, pulled back from a weighted sum of its elements."""
    recorder = ReverseRecorder("jvp", equations[index][0].primitive)
    made = [recorder.enter(np.zeros(shape, dtype)) for shape, dtype in specs]
    tangents = [*[None] * (index + 1 - len(made)), *made]
    push(equations, tangents, outputs)
    recorder.close()
    weights = np.random.default_rng(0)
    for slot in dict.fromkeys(outputs):
        t = tangents[slot]
        if isinstance(t, Recorded) and t.recorder is recorder:
            cotangents: list[Any] = [None] * len(recorder.equations)
            cotangents[t.slot] = random_like(t, weights)
            yield pull_back(recorder.equations, cotangents, recorder.inputs, consume=False)


def random_like(value: Any, generator: np.random.Generator) -> Any:
    """Return normally distributed numbers of the shape and dtype of a floating-point or complex value."""
    shape, dtype = shape_of(value), dtype_of(value)
    numbers = generator.standard_normal(shape)
    return np.asarray(numbers + 1j * generator.standard_normal(shape) if dtype.kind == "c" else numbers).astype(dtype)[()]
