"""Loops and branches with XLA's control flow.

**The backward pass of `while_loop`** uses checkpoints, because arrays in XLA cannot grow with the number of steps. A first loop
counts the steps and divides them into blocks of a fixed size. A second loop saves the carry before each block as a checkpoint;
if there are more blocks than places, one checkpoint serves several blocks. The third loop runs over the blocks in reverse: it
recomputes the steps from the checkpoint, saves the residuals of the block, and runs the backward pass of its steps. Each step
runs three times, or more often with sparse checkpoints. The memory does not depend on the number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.xla.engine import cast, jnp, lax
from functad.backends.xla.replay import Call, replay, row
from functad.control.branches import COND, SWITCH
from functad.control.equation import part
from functad.control.loops import WHILE, LoopDerivative, loop_derivative
from functad.control.scan import SCAN
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec


def given_to(body: Expressions, values: Sequence[Any]) -> list[Any]:
    """Return values in the dtypes of the inputs of a body."""
    return [cast(value, spec.dtype) for value, spec in zip(values, body.specs, strict=False)]


@row(SCAN)
def _scan(
    call: Call, *arrays: Any, carries: int, rows: int, length: int, reverse: bool, body: Expressions, **kept: Any
) -> Sequence[Any]:
    given = given_to(body, arrays)
    leaves, xs, outer = given[:carries], given[carries : carries + rows], given[carries + rows :]

    def step(state: Any, row: Any) -> Any:
        outs = replay(body, [*state, *row, *outer])
        return given_to(body, outs[:carries]), outs[carries:]

    last, ys = lax.scan(step, leaves, xs, length, reverse=reverse)
    return [*last, *ys]


@row(WHILE)
def _while(call: Call, *arrays: Any, carries: int, cond: Expressions, body: Expressions, **kept: Any) -> Sequence[Any]:
    given = given_to(body, arrays)
    leaves, outer = given[:carries], given[carries:]
    found: Sequence[Any] = lax.while_loop(
        lambda state: cast(replay(cond, [*state, *outer])[0], np.bool_),
        lambda state: given_to(body, replay(body, [*state, *outer])),
        leaves,
    )
    return found


@row(COND, SWITCH)
def _branch(call: Call, index: Any, *values: Any, branches: Sequence[Expressions], **kept: Any) -> Sequence[Any]:
    """Run the branch at `index`. As in `functad.switch`, an index out of bounds selects the first or last branch."""
    dtypes = [spec.dtype for spec in call.results]

    def run(branch: Expressions) -> Any:
        def of_values(*own: Any) -> Any:
            return [cast(out, dtype) for out, dtype in zip(replay(branch, own), dtypes, strict=True)]

        return of_values

    given = [cast(value, spec.dtype) for value, spec in zip(values, call.given[1:], strict=True)]
    number = jnp.clip(cast(index, np.int32), 0, len(branches) - 1)
    found: Sequence[Any] = lax.switch(number, [run(branch) for branch in branches], *given)
    return found


# The backward pass of a loop

ROOM = 2**20
"""Bytes for all checkpoints, and for the residuals of a block, unless `FEWEST` of them take more."""

FEWEST, MOST = 32, 1024
"""Bounds of the number of checkpoints and of the number of steps in a block."""


@row("while_loop_vjp")
def _while_backward(
    call: Call, *arrays: Any, carries: int, cond: Expressions, body: Expressions, by: Sequence[int], **kept: Any
) -> Any:
    found = loop_derivative(body, carries, by)
    if found is None:
        return NotImplemented
    return _Pass(cond, found, carries, arrays).cotangents()


class _Pass:
    """The loops of one backward pass.

    Args:
        cond: the condition.
        derivative: the forward and backward pass of a step.
        carries: the number of leaves of the carry.
        arrays: the operands: the initial carry, outer values, cotangents of the final carry.
    """

    def __init__(self, cond: Expressions, derivative: LoopDerivative, carries: int, arrays: Sequence[Any]) -> None:
        self.cond, self.derivative, self.carries = cond, derivative, carries
        self.forward, self.backward = derivative.forward, derivative.backward
        inputs = len(self.forward.inputs)
        self.first, self.outer = part(given_to(self.forward, arrays[:inputs]), carries)
        self.kept = self.forward.results[carries:]
        sums = self.backward.specs[len(arrays) - inputs : len(self.backward.results)]
        self.last = given_to(self.backward, [*arrays[inputs:], *[jnp.zeros(spec.shape, spec.dtype) for spec in sums]])

    def more(self, leaves: Sequence[Any]) -> Any:
        """Return whether the loop has another step."""
        return cast(replay(self.cond, [*leaves, *self.outer])[0], np.bool_)

    def noted(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the next carry and the residuals of the step."""
        leaves, kept = part(replay(self.forward, [*leaves, *self.outer]), self.carries)
        return given_to(self.forward, leaves), kept

    def step(self, _: Any, leaves: Sequence[Any]) -> list[Any]:
        """Return the next carry."""
        return self.noted(leaves)[0]

    def back(self, cts: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
        """Return the cotangents before a step from the cotangents after it and its residuals."""
        return given_to(self.backward, replay(self.backward, [*cts, *kept, *self.outer]))

    def cotangents(self) -> list[Any]:
        """Return the requested cotangents."""
        steps = lax.while_loop(
            lambda state: self.more(state[1]), lambda state: (state[0] + 1, self.step(0, state[1])), (0, self.first)
        )[0]
        cts = self._by_blocks(steps) if self.kept else lax.fori_loop(0, steps, lambda _, cts: self.back(cts, ()), self.last)
        return [cts[i] for i in self.derivative.order]

    def _by_blocks(self, steps: Any) -> list[Any]:
        leaf_specs = self.forward.specs[: self.carries]
        size, places = _number(self.kept), _number(leaf_specs)
        blocks = -(-steps // size)
        each = jnp.maximum(1, -(-blocks // places))  # blocks per checkpoint

        def note(i: Any, state: Any) -> Any:
            leaves, notes = state
            notes = _put(notes, i, leaves)
            return lax.fori_loop(0, jnp.where((i + 1) * each < blocks, each * size, 0), self.step, leaves), notes

        notes = lax.fori_loop(0, -(-blocks // each), note, (self.first, _rows(leaf_specs, places)))[1]

        def block(i: Any, state: Any) -> Any:
            cts, kept = state
            number = blocks - 1 - i
            here = jnp.minimum(size, steps - number * size)
            leaves = lax.fori_loop(0, number % each * size, self.step, [each_note[number // each] for each_note in notes])

            def keep(j: Any, state: Any) -> Any:
                leaves, found = self.noted(state[0])
                return leaves, _put(state[1], j, found)

            kept = lax.fori_loop(0, here, keep, (leaves, kept))[1]
            cts = lax.fori_loop(0, here, lambda j, cts: self.back(cts, [rows[here - 1 - j] for rows in kept]), cts)
            return cts, kept

        found: list[Any] = lax.fori_loop(0, blocks, block, (self.last, _rows(self.kept, size)))[0]
        return found


def _number(specs: Sequence[ArraySpec]) -> int:
    """Return the number of rows to save for values of these specs."""
    size = sum(spec.size * spec.dtype.itemsize for spec in specs)
    return int(np.clip(ROOM // max(size, 1), FEWEST, MOST))


def _rows(specs: Sequence[ArraySpec], count: int) -> list[Any]:
    return [jnp.zeros((count, *spec.shape), spec.dtype) for spec in specs]


def _put(rows: Sequence[Any], i: Any, values: Sequence[Any]) -> list[Any]:
    return [lax.dynamic_update_index_in_dim(own, value, i, 0) for own, value in zip(rows, values, strict=True)]
