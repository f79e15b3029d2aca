"""Forward mode through decompositions with equal eigenvalues, where the eigenvectors are any basis of the eigenspace.

Tangents alone do not show whether a result depends on the choice of the basis. Cotangents do: the VJP rules of decompositions
raise `DegenerateError` in that case (see `functad.primitives.linalg.degenerate`). After a forward pass through equal
eigenvalues, the linear map from the tangents of the decomposition to the tangents of a result is therefore transposed. A sum
of the elements of each result with random weights is pulled back to the decomposition, where its VJP rule raises or not.
Random weights make cancellation unlikely.

Outer traces do not record this check. Only an abstract trace does, because it has no values: its expression list performs the
check when it is evaluated.
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
    """Return `Primitive.lost` of a record with one input: one flag per result, all `True` if values are unknown."""
    plan, _, saved, fits = equation
    t, read = lowered(ts[0]), lowered(plan.arguments(saved)[0])
    if any(map(is_traced, flatten((t, read))[0])):
        return (True,) * (len(fits[1]) if plan.primitive.multiple else 1)
    found: tuple[bool, ...] = plan.primitive.lost(t, *read)
    return found


def lowered(saved: Any) -> Any:
    """Return residuals with the innermost values in place of Tensors; Tensors without values stay."""
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
    """Check that no result depends on the lost tangents of degenerate decompositions.

    Args:
        equations: the records of a forward trace.
        losses: pairs of the index of a degenerate record and one flag per result: check the cotangent of this result.
        outputs: the slots of the results.
        push: pushes tangents through all records.

    Raises:
        DegenerateError: a result depends on a lost tangent.
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
    """Yield, for each output, the cotangents of the results of one record for a weighted sum of the output's elements."""
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
    """Return normally distributed numbers with the shape and dtype of a floating-point or complex value."""
    shape, dtype = shape_of(value), dtype_of(value)
    numbers = generator.standard_normal(shape)
    return np.asarray(numbers + 1j * generator.standard_normal(shape) if dtype.kind == "c" else numbers).astype(dtype)[()]
