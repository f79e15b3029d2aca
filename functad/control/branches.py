"""`cond` and `switch`: calls of one of several functions, selected by a value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.control.equation import (
    BOOLS,
    Agreement,
    Control,
    close_bodies,
    is_batched,
    number,
    over_examples,
    selected,
    unknown,
)
from functad.errors import ControlFlowError
from functad.expressions.expressions import evaluate
from functad.expressions.spec import dtype_of, spec_of
from functad.places import here, name_of
from functad.primitives.indexing.read import handed
from functad.primitives.operands import innermost
from functad.tracing.ownership import lend, own_state
from functad.tracing.trace import noted_by_graph, operand_of
from functad.transforms.leaves import pull_leaves, pushed_tangents
from functad.transforms.lists import Closed
from functad.trees import flatten


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Return `true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`.

    If the value of the predicate is known, for example under `grad`, only the selected function is called. If it is unknown, in
    `make_expressions`, both are traced, and the list has one equation that runs one of them. Under `vmap`, with a predicate for
    each example, both are computed and the results are selected; derivatives of the other results are zero, even where they
    would be NaN.

    Args:
        pred: a bool or a number (true if it is not zero), of shape `()`.
        true_fun: a function of NumPy code.
        false_fun: the other function. Its result has the structure, shapes and dtypes of the result of `true_fun`.
        operands: arrays, numbers or trees of them. The functions may also close over values. In an abstract trace,
            computations that depend only on such values run for every predicate.

    Returns:
        The result of the selected function.

    Raises:
        ControlFlowError: the predicate is not one number, or the results do not agree.

    Example:
        >>> import numpy as np, functad
        >>> f = lambda x: functad.cond(x > 0, np.sqrt, lambda x: 2 * x, x)
        >>> float(functad.grad(f)(4.0)), float(functad.grad(f)(-4.0))
        (0.25, 2.0)
    """
    if type(pred) not in BOOLS:
        pred = number(pred, "biufc", f"cond, called at {here()}: pred must be a bool or a number", _CHOICE)
    if dtype_of(pred).kind != "b":
        pred = pred != 0
    return _among(COND, pred, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Return `branches[index](*operands)`. The index is clipped to the range of the branches.

    Args:
        index: an integer of shape `()`.
        branches: functions of NumPy code, with results of the same structure, shapes and dtypes.
        operands: arrays, numbers or trees of them.

    Returns:
        The result of the selected branch. As for `cond`, other branches are computed only under `vmap`.

    Raises:
        ControlFlowError: the index is not one integer, `branches` is empty, or the results do not agree.

    Example:
        >>> import numpy as np, functad
        >>> float(switch(2, [np.sin, np.cos, np.exp], 0.0))
        1.0
    """
    if not branches:
        raise ControlFlowError(f"switch, called at {here()}, needs at least one branch.")
    index = number(index, "iu", f"switch, called at {here()}: index must be an integer", _CHOICE)
    return _among(SWITCH, index, tuple(branches), operands)


_CHOICE = "For a choice element by element use np.where, or vmap around a function of one element."


def _among(primitive: Control, index: Any, branches: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> Any:
    if unknown(index):
        return _listed(primitive, index, branches, operands)
    if not is_batched(index):
        results, structure = flatten(branches[_within(innermost(index), branches)](*_handed(operands)))
        return structure.unflatten(own_state(results))
    agreement = _agreement(primitive, branches)
    with np.errstate(all="ignore"):  # results that are not selected may be invalid
        results = [agreement.fit(branch(*_handed(operands))) for branch in branches]
    return agreement.build(_select(index, [agreement.cast(leaves) for leaves in results]))


def _handed(operands: tuple[Any, ...]) -> Any:
    """Return the operands to pass to a branch."""
    leaves, structure = flatten(operands)
    return structure.unflatten(handed([lend(noted_by_graph(leaf)) for leaf in leaves]))


def _within(index: Any, branches: Sequence[Any]) -> int:
    return min(max(int(index), 0), len(branches) - 1)


def _select(index: Any, results: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return for each example the leaves of the result that its index selects."""
    if dtype_of(index).kind == "b":
        return selected(index, results[1], results[0])
    chosen = results[-1]
    for i in range(len(results) - 2, -1, -1):
        chosen = selected(index <= i, results[i], chosen)
    return chosen


def _agreement(primitive: Control, branches: Sequence[Callable[..., Any]]) -> Agreement:
    rule = "the results of all branches must have the same structure, shapes and dtypes"
    names = " and ".join(dict.fromkeys(map(name_of, branches)))
    return Agreement(primitive.name, names, "result", rule)


def _listed(primitive: Control, index: Any, branches: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> Any:
    """Record the branches as one equation."""
    leaves, structure = flatten(operands)
    leaves = [operand_of(leaf) for leaf in leaves]
    agreement = _agreement(primitive, branches)

    def fitted(branch: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(branch)
        def run(*given: Any) -> Any:
            return agreement.fit(branch(*given))

        return run

    specs = structure.unflatten([spec_of(leaf) for leaf in leaves])
    bodies = [(fitted(branch), specs) for branch in branches]
    lists, captured = close_bodies(primitive.name, *bodies, operands=leaves)
    if any(body.results != agreement.specs for body in lists):  # a later branch determined the dtypes of Python numbers
        lists, captured = close_bodies(primitive.name, *bodies, operands=leaves)
    return agreement.build(primitive(index, *leaves, *captured, branches=tuple(lists)))


def _compute(index: Any, *values: Any, branches: Any) -> Sequence[Any]:
    if not is_batched(index):
        return evaluate(branches[_within(innermost(index), branches)], values)
    with np.errstate(all="ignore"):
        return _select(index, [evaluate(branch, values) for branch in branches])


def _primitive(name: str) -> Control:
    def choose(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> list[Any]:
        return list(_among(primitive, index, branches, operands))

    def pull(gs: Any, wrt: Sequence[int], arrays: Sequence[Any], out: Any, params: Any) -> list[Any]:
        index, *values = arrays
        each = [functools.partial(pull_leaves, Closed(branch), wrt=[i - 1 for i in wrt]) for branch in params["branches"]]
        return choose(index, each, values, list(gs))

    def push(ts: Sequence[Any], arrays: Sequence[Any], params: Any) -> list[Any]:
        index, *values = arrays
        each = [functools.partial(pushed_tangents, Closed(branch)) for branch in params["branches"]]
        return choose(index, each, values, list(ts[1:]))

    def batch(values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Any:
        index, *rest = values
        branches = [Closed(branch) for branch in params["branches"]]
        if not batched[0]:
            return choose(index, [over_examples(branch, batched[1:], size) for branch in branches], *rest)
        return over_examples(lambda i, *given: _select(i, [branch(*given) for branch in branches]), batched, size)(*values)

    primitive = Control(
        name,
        compute=_compute,
        spec=lambda *arrays, branches: tuple(branches[0].results),
        pull=pull,
        push=push,
        batch=batch,
        doc="the derivative of the branch that is taken",
        lists="branches",
        internal=True,
    )
    return primitive


COND = _primitive("cond")
SWITCH = _primitive("switch")
