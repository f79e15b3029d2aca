"""Loops and branches with XLA's control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.xla.engine import cast, jnp, lax
from functad.backends.xla.replay import replay
from functad.backends.xla.table import Call, row
from functad.control.branches import COND, SWITCH
from functad.control.loops import WHILE
from functad.control.scan import SCAN
from functad.expressions.expressions import Expressions


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
