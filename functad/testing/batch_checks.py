"""Checks of batching rules: `vmap` of a call and of its derivatives against a loop over the examples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import functad
from functad.errors import AbstractValueError, ConversionError, LoopWarning, UnsupportedError
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.entry import Entry
from functad.testing.numerical import EXACT_TOLERANCE, agree, random_like
from functad.testing.sample_calls import Call, calls, is_constant
from functad.transforms.leaves import replaced

SIZE = 5
"""Number of examples in a batch. No sample has an axis of this length, so mixed-up axes give a wrong shape."""


def check_batches(entry: Entry, dtype: Any, seed: int = 0) -> None:
    """Check every sample call of an entry under `vmap`: all inputs batched and, if they are real, single inputs batched.

    Args:
        entry: a primitive, composite or constant.
        dtype: dtype of the inputs.
        seed: seed of the random inputs.

    Raises:
        AssertionError: a result or a derivative differs from the loop, or the batching rule is itself a loop.
    """
    for examples in zip(*[calls(entry, dtype, seed + i) for i in range(SIZE)], strict=True):
        if examples[0].primals:
            check_batch(examples, np.random.default_rng(seed))


def check_batch(examples: Sequence[Call], generator: np.random.Generator) -> None:
    """Check one sample call; `examples` holds the call once per example, each with its own inputs."""
    call = examples[0]
    real = all(dtype_of(primal).kind == "f" for primal in call.primals)  # batching of single inputs does not depend on dtype
    for chosen in _choices(len(call.primals), alone=real):
        try:
            _compare(call.arrays, examples, chosen, "result")
        except (AbstractValueError, ConversionError, UnsupportedError, ValueError) as refusal:
            if len(chosen) == len(call.primals) and call.entry.value_dependent:
                return
            _check_refusal(call, chosen, refusal)
    if is_constant(call.entry) or not call.smooth(*call.primals):
        return
    seeds = tuple([random_like(value, generator) for value in call.smooth(*call.primals)])
    tangents = tuple([random_like(primal, generator) for primal in call.primals])
    every = set(range(len(call.primals)))
    _compare(lambda *primals: functad.vjp(call.smooth, *primals)[1](seeds), examples, every, "cotangent")
    _compare(lambda *primals: functad.jvp(call.smooth, primals, tangents)[1], examples, every, "tangent")


def _choices(count: int, *, alone: bool) -> Iterator[set[int]]:
    """Yield sets of inputs to batch: all inputs, then each of the first three alone."""
    yield set(range(count))
    if alone and count > 1:
        yield from ({i} for i in range(min(count, 3)))


def _check_refusal(call: Call, chosen: set[int], refusal: Exception) -> None:
    """Raise unless an abstract trace of the same inputs raises too: NumPy does not check every argument for Tensors.

    Raises:
        AssertionError: the abstract trace accepts the inputs, or all inputs were batched.
    """
    indices = sorted(chosen)
    if len(chosen) == len(call.primals):
        raise AssertionError(f"{call} is refused: {refusal}") from refusal

    function = functad.make_expressions(lambda *given: call.arrays(*replaced(call.primals, indices, given)))
    try:
        function(*[call.primals[i] for i in indices])
    except type(refusal):
        return
    raise AssertionError(f"{call} with inputs {indices} batched is refused: {refusal}") from refusal


def _compare(function: Callable[..., Any], examples: Sequence[Call], chosen: set[int], what: str) -> None:
    """Compare `vmap` of a function with calls for the first and the last example only, because the calls dominate the time."""
    call = examples[0]
    rows = [[example.primals[i] if i in chosen else primal for i, primal in enumerate(call.primals)] for example in examples]
    given = [np.stack(column) if i in chosen else column[0] for i, column in enumerate(zip(*rows, strict=True))]
    axes = tuple([0 if i in chosen else None for i in range(len(given))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        try:
            found = functad.vmap(function, in_axes=axes)(*given)
        except LoopWarning as warning:
            raise AssertionError(f"{call}: {warning}") from None
    picked = [0, -1]
    expected = [function(*rows[i]) for i in picked]
    for i, (whole, column) in enumerate(zip(found, zip(*expected, strict=True), strict=True)):
        assert shape_of(whole)[:1] == (SIZE,), f"{call}: result {i} has shape {shape_of(whole)}, and no batch axis in front"
        where = f"{call}: {what} {i} of a batch with inputs {sorted(chosen)} batched"
        agree(whole[picked], np.stack(column), EXACT_TOLERANCE, where)
