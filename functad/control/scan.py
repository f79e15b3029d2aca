"""`scan`: a loop over the rows of arrays, with a carry; `map`, without a carry; and `associative_scan`.

The derivative of a step is a forward list with residuals, and a backward list that pulls cotangents back. The step and its
backward pass are traced together once. Backward work that does not depend on a cotangent moves to the forward list, and the
residuals are stacked with one row per step. Rows of the inputs are read again instead of being stacked. Values that depend only
on shared inputs, such as the transpose of a matrix, are recomputed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.control.equation import Agreement, Control, carry_of, close_bodies, in_forms, listing, over_examples, part, unknown
from functad.errors import AbstractValueError, ControlFlowError, ConversionError, FunctadError, UnsupportedError
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of, mark_needed, mark_reached, marks_at
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, is_inexact, shape_of, spec_of, strong_spec
from functad.places import here, name_of
from functad.primitives.batching import spread_out
from functad.primitives.indexing.read import handed
from functad.primitives.operands import foreign_rules, is_absent
from functad.tracing.ownership import give_state, lend, own_results, own_state
from functad.tracing.trace import Recorded, dispatch, value_of
from functad.transforms.forward import with_zeros
from functad.transforms.leaves import pulled_with_results, pushed
from functad.transforms.lists import Closed, extract, trace
from functad.transforms.outside import trial
from functad.transforms.reverse import zero_tangent
from functad.trees import Structure, flatten


def scan(
    f: Callable[[Any, Any], Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Carry a value over the rows of `xs`, and stack the results of the steps: `carry, y = f(carry, x)`.

    If values are known, the loop runs as a Python `for`; an abstract trace records one equation. The backward pass takes time
    linear in the length, and keeps the residuals of each step. Without rows, `f` is traced for the shapes and dtypes of its
    results, or called with a row of ones if it needs values.

    Args:
        f: maps a carry and a row of `xs` to a pair: the next carry, of the same structure, shapes and dtypes, and a result.
        init: the first carry: an array, a number or a tree of them. A Python number takes the dtype of the carry from `f`.
        xs: an array or a tree of arrays with the same number of rows; `None` for no rows.
        length: the number of steps; required if there are no rows.
        reverse: `True` to begin with the last row. `ys[i]` still belongs to `xs[i]`.

    Returns:
        `(carry, ys)`: the last carry, and the results of all steps stacked along a new first axis.

    Raises:
        ControlFlowError: `f` does not return a pair, its carry does not agree with `init`, its results do not agree between
            steps, or the numbers of rows differ. Or there are no rows, and `f` raises for a row of ones.

    Example:
        >>> import numpy as np
        >>> carry, ys = scan(lambda total, x: (total + x, total * x), 0.0, np.array([1.0, 2.0, 3.0]))
        >>> float(carry), ys
        (6.0, array([0., 2., 9.]))
    """
    return over_rows("scan", f, init, xs, length, reverse)


def map(f: Callable[[Any], Any], xs: Any) -> Any:  # noqa: A001 - users write functad.map
    """Apply `f` to the rows of `xs`, one after the other, and stack the results: `np.stack([f(x) for x in xs])`.

    `vmap(f)(xs)` gives the same result. It is faster but needs more memory, for the intermediate values of all rows at once.
    Without rows, `f` is traced for the shape and dtype of its result, or called with a row of ones if it needs values.

    Args:
        f: maps a row to a result.
        xs: an array or a tree of arrays with the same number of rows.

    Returns:
        The results stacked along a new first axis.

    Raises:
        ControlFlowError: the numbers of rows differ, or the results do not agree.

    Example:
        >>> import numpy as np, functad
        >>> functad.map(lambda x: x @ x, np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([ 5., 25.])
    """

    def step(_: Any, x: Any) -> Any:
        return None, f(x)

    step.__qualname__ = name_of(f)  # messages show the name of the user's function
    return over_rows("map", step, None, xs, None, False)[1]


def over_rows(
    transform: str,
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any,
    length: Any,
    reverse: bool,
    *,
    lists: bool = False,
) -> tuple[Any, Any]:
    """Scan over the rows of `xs`, for `scan` and `map`.

    With `lists=True` one equation is recorded even if values are known. Rules use this, because they are traced abstractly.
    """
    given, structure = flatten(xs)
    rows = [value_of(leaf) for leaf in given]

    def error(text: str) -> ControlFlowError:
        return ControlFlowError(f"{transform} of {name_of(f)}, called at {here()}: {text}")

    length = _length_of(error, rows, structure.paths("xs"), length)
    carry = carry_of(transform, f)
    result = Agreement(transform, name_of(f), "y", "the results must have the same structure, shapes and dtypes in all steps")
    leaves: Sequence[Any] = carry.start(init)
    ys: Sequence[Any]

    @functools.wraps(f)
    def step(state: Any, row: Any) -> Any:
        pair = f(state, row)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise error(
                f"the function must return a pair (carry, y), not a {type(pair).__name__}: (carry, None) if there is no y."
            )
        return carry.fit(pair[0]), result.fit(pair[1])

    def known(own: list[Any], row: Any) -> Any:
        after, ys = step(carry.hand(give_state(own)), structure.unflatten(handed(row)))
        ys = [lend(leaf) for leaf in ys]
        return own_state(after), ys

    if length and not lists and not listing([*leaves, *rows]):
        leaves, results = _run(known, leaves, rows, length, reverse)
        ys = _stacked([result.cast(ys) for ys in results] if result.yielded else results)
        if len(results) < length:
            rest = [row[:-1] if reverse else row[1:] for row in rows]
            leaves, more = part(_listed(step, carry, leaves, structure, rest, length - 1, reverse), len(leaves))
            ys = [np.concatenate((b, a) if reverse else (a, b)) for a, b in zip(ys, more, strict=True)]
    else:
        leaves = [lend(leaf) for leaf in leaves]
        try:
            leaves, ys = part(_listed(step, carry, leaves, structure, rows, length, reverse), len(leaves))
        except (AbstractValueError, ConversionError, UnsupportedError):  # the steps need values, such as a Python `if`
            if length or lists or listing([*leaves, *rows]):
                raise
            ys = _no_rows(_of_ones(known, leaves, rows, error))
            leaves = carry.cast(leaves)
    return carry.build(leaves), result.build(ys)


def _length_of(error: Callable[[str], ControlFlowError], rows: Sequence[Any], paths: Sequence[str], length: Any) -> int:
    lengths: dict[int, str] = {}
    if length is not None:
        try:
            lengths[operator.index(length)] = "length"
        except TypeError as unknown:
            if isinstance(unknown, FunctadError):
                raise
            raise error(f"length is {length!r}. Pass an integer.") from None
        if length < 0:
            raise error(f"length is {length}.")
    for leaf, path in zip(rows, paths, strict=True):
        if not hasattr(leaf, "shape") or not shape_of(leaf):
            what = repr(spec_of(leaf)) if hasattr(leaf, "shape") else f"a {type(leaf).__name__}"
            raise error(f"{path} is {what}, which has no rows. Pass an array.")
        if type(leaf) not in PLAIN and (reason := foreign_rules(leaf)) is not None:
            raise error(f"{path} is a {type(leaf).__name__}. {reason}")
        lengths.setdefault(shape_of(leaf)[0], path)
    if len(lengths) > 1:
        (a, first), (b, second) = list(lengths.items())[:2]
        counts = f"{first} is {a}" if first == "length" else f"{first} has {a} rows"
        raise error(f"{counts}, but {second} has {b} rows.")
    if not lengths:
        raise error("without rows the number of steps must be given: length=.")
    return next(iter(lengths))


def _run(
    step: Callable[[Any, Any], tuple[list[Any], list[Any]]],
    leaves: Sequence[Any],
    rows: Sequence[Any],
    length: int,
    reverse: bool,
) -> tuple[Sequence[Any], list[list[Any]]]:
    """Run the steps on known leaves, the first step only if its results are unknown; return the last carry and all results."""
    results = []
    leaves = [lend(leaf) for leaf in leaves]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        leaves, result = step(leaves, [lend(row[i]) for row in rows])
        results.append(result)
        if len(results) == 1 and any(unknown(leaf) for leaf in (*leaves, *result)):
            break  # the function closes over values of an abstract trace
    if reverse:
        results.reverse()
    return leaves, results


def _stacked(results: Sequence[Sequence[Any]]) -> list[Any]:
    """Return for each leaf of the results an array with one row per step."""
    columns = zip(*results, strict=True)
    return [np.array(column) if all(type(v) in PLAIN for v in column) else np.stack(column) for column in columns]


def _listed(
    step: Callable[[Any, Any], Any],
    carry: Agreement,
    leaves: Sequence[Any],
    structure: Structure,
    rows: Sequence[Any],
    length: int,
    reverse: bool,
) -> Any:
    """Record the steps as one equation. Its list maps a carry and a row to the next carry and a result."""
    row = structure.unflatten([ArraySpec(shape_of(row)[1:], dtype_of(row)) for row in rows])
    (body,), captured = carry.settled(
        lambda state: close_bodies(carry.transform, (step, (state, row)), operands=[*leaves, *rows])
    )
    if not length:  # the list is needed for the shapes of the results only
        return [*[lend(leaf) for leaf in carry.cast(leaves)], *_no_rows(body.results[len(leaves) :])]
    return SCAN(
        *carry.cast(leaves), *rows, *captured, carries=len(leaves), rows=len(rows), length=length, reverse=reverse, body=body
    )


def _of_ones(
    step: Callable[[list[Any], Any], Any], leaves: Sequence[Any], rows: Sequence[Any], error: Callable[[str], ControlFlowError]
) -> list[ArraySpec]:
    """Return the specs of the results of a step, by a call with a row of ones."""
    ones = [np.ones(shape_of(row)[1:], dtype_of(row))[()] for row in rows]
    try:
        with trial(), np.errstate(all="ignore"):
            return [spec_of(leaf) for leaf in step([lend(leaf) for leaf in leaves], ones)[1]]
    except ControlFlowError:
        raise
    except Exception as problem:
        raise error(
            f"there are no rows, so the function was called with ones, for the shapes and dtypes of its results. It raised "
            f"{type(problem).__name__}: {problem} Return the empty results before the call."
        ) from problem


def _no_rows(specs: Sequence[ArraySpec]) -> list[Any]:
    """Return the stacked results of zero steps."""
    return [np.zeros((0, *spec.shape), spec.dtype) for spec in specs]


def _record(step: Callable[[Any, Any], Any], init: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    return over_rows("scan", step, init, xs, length, reverse, lists=True)


def _compute(*arrays: Any, carries: int, rows: int, length: int, reverse: bool, body: Any) -> Sequence[Any]:
    leaves, xs, outer = part(arrays, carries, rows)
    if not length:
        return [*leaves, *_no_rows(body.results[carries:])]
    run = Closed(body)

    def step(leaves: Sequence[Any], row: Sequence[Any]) -> Any:
        return part(run(*leaves, *row, *outer), carries)

    last, results = _run(step, leaves, xs, length, reverse)
    return [*in_forms(last, leaves), *_stacked(results)]


def _spec(*arrays: Any, carries: int, rows: int, length: int, reverse: bool, body: Any) -> tuple[ArraySpec, ...]:
    specs = body.results
    return (*specs[:carries], *[ArraySpec((length, *spec.shape), spec.dtype) for spec in specs[carries:]])


def _push(ts: Sequence[Any], arrays: Sequence[Any], params: Any) -> list[Any]:
    """Push tangents as a part of the carry."""
    counts = params["carries"], params["rows"]
    (leaves, xs, outer), (t_leaves, t_xs, t_outer) = part(arrays, *counts), part(ts, *counts)
    body = Closed(params["body"])

    def step(state: Any, row: Any) -> Any:
        (leaves, tangents), (x, t_x) = state, row
        (outs, t_outs) = pushed(body, [*leaves, *x, *outer], [*tangents, *t_x, *t_outer])
        after, t_after = outs[: counts[0]], t_outs[: counts[0]]
        return (after, t_after), t_outs[counts[0] :]

    state = leaves, [zero_tangent(v) if t is None and is_inexact(v) else t for v, t in zip(leaves, t_leaves, strict=True)]
    (_, t_leaves), t_ys = _record(step, state, (xs, t_xs), params["length"], params["reverse"])
    return [*t_leaves, *t_ys]


def _batch(values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Sequence[Any]:
    counts = params["carries"], params["rows"]
    (leaves, xs, outer), (own_leaves, own_xs, own_outer) = part(values, *counts), part(batched, *counts)
    leaves = [spread_out(v, own, size) for v, own in zip(leaves, own_leaves, strict=True)]
    xs = [np.moveaxis(x, 1, 0) if own else x for x, own in zip(xs, own_xs, strict=True)]
    each = over_examples(Closed(params["body"]), [True] * counts[0] + own_xs + own_outer, size)

    def step(leaves: Any, row: Any) -> Any:
        return part(each(*leaves, *row, *outer), counts[0])

    leaves, ys = _record(step, leaves, xs, params["length"], params["reverse"])
    return [*leaves, *[np.moveaxis(y, 0, 1) for y in ys]]


def _pull(gs: Any, wrt: Sequence[int], arrays: Sequence[Any], out: Any, params: Any) -> list[Any]:
    """Pull cotangents back over the rows in reverse order, with the residuals of the steps.

    Tapes share records. If the gradient of an inner tape has read the residuals, they have cotangents in the outer tape. Then
    the scan runs once more with a step that also keeps the residuals of the residuals.
    """
    split: StepDerivative = params["back"]
    if not all(g is None or is_absent(g) for g in gs[len(gs) - split.stacked :]):
        split = StepDerivative(params["body"], params["carries"], params["rows"], wrt)
        params = {**params, "body": split.forward, "back": split}
        out = SCAN(*arrays, **params)
    carries, rows, length = params["carries"], params["rows"], params["length"]
    xs, outer = arrays[carries : carries + rows], arrays[carries + rows :]
    count = len(out) - split.stacked
    kept = [*[xs[i] for i in split.rows], *out[count:]]
    moving = [i for i in range(count) if is_inexact(out[i])]
    g_leaves = [scalar(gs[i]) for i in moving if i < carries]
    g_ys = [gs[i] for i in moving if i >= carries]
    sums = [np.zeros(shape_of(arrays[i]), dtype_of(arrays[i]))[()] for i in split.outer]
    back = Closed(split.backward)

    def step(state: Any, row: Any) -> Any:
        (g, sums), (gy, kept) = state, row
        found = back(*kept, *outer, *g, *gy)
        before, of_rows, of_outer = part(found, len(g), len(split.by_rows))
        return (before, [a + b for a, b in zip(sums, of_outer, strict=True)]), of_rows

    (g_leaves, sums), g_xs = _record(step, (g_leaves, sums), (g_ys, kept), length, not params["reverse"])
    found = dict(zip([*split.leaves, *split.by_rows, *split.outer], [*g_leaves, *g_xs, *sums], strict=True))
    return [found[i] for i in wrt]


def scalar(g: Any) -> Any:
    """Return a plain cotangent of shape `()` as a scalar, like the results of derivative steps."""
    return g[()] if type(g) is np.ndarray and not g.shape else g


class _Scan(Control):
    """The primitive. In a reverse trace, its steps also return the residuals of their derivatives, which `back` holds."""

    def __call__(self, *arrays: Any, back: StepDerivative | None = None, **params: Any) -> Any:
        """Run the list if values are known; record one equation if they are unknown."""
        newest = max(
            [a.recorder for a in arrays if isinstance(a, Recorded)], key=lambda recorder: recorder.serial, default=None
        )
        wrt = [i for i, a in enumerate(arrays) if isinstance(a, Recorded) and a.recorder is newest and is_inexact(a)]
        if newest is None or not newest.pulls or not wrt or not any(unknown(a) for a in arrays):
            return super().__call__(*arrays, **params)
        split = StepDerivative(params["body"], params["carries"], params["rows"], wrt)
        found = dispatch(self, arrays, {**params, "body": split.forward, "back": split})
        return found[: len(found) - split.stacked]


SCAN = _Scan(
    "scan",
    compute=_compute,
    spec=_spec,
    pull=_pull,
    push=_push,
    batch=_batch,
    doc="the derivatives of the steps, one after the other",
    lists="scan",
    internal=True,
)


# The derivative of a step

SHARED, FORWARD, BACKWARD = range(3)


class StepDerivative:
    """The forward and backward lists of a step.

    Attributes:
        forward: the step, with the residuals to stack as additional results.
        backward: maps residuals, outer values and cotangents of the results to cotangents of carry, rows and outer values.
        rows: the numbers of the inputs with rows that `backward` reads first.
        stacked: the number of residuals of `forward` that `backward` reads next.
        leaves, by_rows, outer: positions, among the arguments of the scan, of the cotangents that `backward` returns.
    """

    def __init__(self, body: Expressions, carries: int, rows: int, wrt: Sequence[int]) -> None:
        specs = body.specs[: len(body.inputs)]
        self.leaves = [i for i in range(carries) if is_inexact(specs[i])]
        self.by_rows = [i for i in wrt if carries <= i < carries + rows]
        self.outer = [i for i in wrt if i >= carries + rows]
        moving = [*self.leaves, *self.by_rows, *self.outer]
        results = body.results
        gs = [strong_spec(spec) for spec in results if is_inexact(spec)]

        def both(primals: Any, gs: Any) -> Any:
            outs, found = pulled_with_results(Closed(body), primals, moving, gs)
            return outs, with_zeros(found, [primals[i] for i in moving])

        whole = trace("scan", both, (list(specs), gs))
        count = len(specs)
        levels = _levels(whole, range(carries + rows), range(count, len(whole.inputs)))
        cotangents = whole.outputs[len(results) :]
        kept = _read_backward(whole, levels, cotangents)
        self.rows = [slot - carries for slot in kept if carries <= slot < carries + rows]
        stacked = [slot for slot in kept if not carries <= slot < carries + rows]
        self.stacked = len(stacked)
        self.forward = extract(whole, range(count), [*whole.outputs[: len(results)], *stacked], body.inputs)
        given = [*[carries + i for i in self.rows], *stacked, *range(carries + rows, len(whole.inputs))]
        names = [f"kept[{i}]" for i in range(len(kept))] + [
            *body.inputs[carries + rows :],
            *[f"g[{i}]" for i in range(len(gs))],
        ]
        self.backward = extract(whole, given, cotangents, names)


def _levels(whole: Expressions, moving: range, cotangents: range) -> list[int]:
    """Return for each slot `BACKWARD` if it depends on a cotangent, else `FORWARD` for a carry or row, else `SHARED`."""
    back, forward = (mark_reached(marks_at(slots, len(whole.specs)), whole.equations) for slots in (cotangents, moving))
    return [BACKWARD if b else FORWARD if f else SHARED for b, f in zip(back, forward, strict=True)]


def _read_backward(whole: Expressions, levels: Sequence[int], cotangents: Sequence[Any]) -> list[int]:
    """Return the `FORWARD` slots that the backward pass reads.

    The backward pass are the `BACKWARD` and `SHARED` equations that lead to `cotangents`.
    """

    def reads(equation: Equation, index: int) -> Sequence[int]:
        return () if levels[equation.outputs[0]] == FORWARD else inputs_of(equation)

    needed = mark_needed(marks_at(cotangents, len(whole.specs)), whole.equations, reads)
    return [slot for slot, level in enumerate(levels) if needed[slot] and level == FORWARD]


# All prefixes of an associative operation


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return all partial results `fn(...fn(fn(e[0], e[1]), e[2])..., e[i])` of an associative function.

    It calls `fn` about `2 log2(n)` times, each time on many elements at once: it combines pairs, scans the combined pairs
    recursively, and then computes the partial results between them (Blelloch, 1990).

    Args:
        fn: combines two trees of the structure of `elems`, element by element along `axis`. It must be associative, and
            broadcast over `axis` as NumPy's functions do.
        elems: an array or a tree of arrays, all of the same length along `axis`.
        reverse: `True` to begin at the end.
        axis: the axis to scan.

    Returns:
        A tree like `elems`.

    Raises:
        ControlFlowError: the lengths differ, `axis` does not exist, or `fn` changes the structure, a shape or a dtype.

    Example:
        >>> import numpy as np
        >>> associative_scan(np.maximum, np.array([1.0, 3.0, 2.0, 5.0]))
        array([1., 3., 3., 5.])
        >>> affine = lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1])  # x -> a x + b, first f and then g
        >>> associative_scan(affine, (np.array([2.0, 0.5, 3.0]), np.array([1.0, 0.0, 1.0])))[1]
        array([1. , 0.5, 2.5])
    """
    given, structure = flatten(elems)
    leaves = [value_of(leaf) for leaf in given]
    axes = [_axis_of(fn, leaf, axis, path) for leaf, path in zip(leaves, structure.paths("elems"), strict=True)]
    lengths = {shape_of(leaf)[a] for leaf, a in zip(leaves, axes, strict=True)}
    if len(lengths) > 1:
        raise _error(fn, f"the arrays have different lengths along axis {axis}: {sorted(lengths)}.")

    def combine(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        rule = "the function must return what it is given"
        agreement = Agreement("associative_scan", name_of(fn), "result", rule)
        agreement.start(structure.unflatten(second))
        both = [structure.unflatten([lend(leaf) for leaf in each]) for each in (first, second)]
        return agreement.fit(fn(*both))

    if reverse:
        leaves = [_flipped(leaf, a) for leaf, a in zip(leaves, axes, strict=True)]
    found = _partial_results(combine, leaves, axes) if leaves else leaves
    if reverse:
        found = [_flipped(leaf, a) for leaf, a in zip(found, axes, strict=True)]
    return structure.unflatten(own_results(found, given))


def _flipped(leaf: Any, axis: int) -> Any:
    return leaf[(slice(None),) * axis + (slice(None, None, -1),)]


def _axis_of(fn: Callable[..., Any], leaf: Any, axis: int, path: str) -> int:
    try:
        return int(normalize_axis_index(axis, len(shape_of(leaf))))
    except (AttributeError, ValueError):
        what = repr(spec_of(leaf)) if hasattr(leaf, "shape") else f"a {type(leaf).__name__}"
        raise _error(fn, f"{path} is {what}, which has no axis {axis}.") from None


def _error(fn: Callable[..., Any], text: str) -> ControlFlowError:
    return ControlFlowError(f"associative_scan of {name_of(fn)}, called at {here()}: {text}")


def _partial_results(combine: Callable[[Any, Any], list[Any]], leaves: list[Any], axes: list[int]) -> list[Any]:
    length = shape_of(leaves[0])[axes[0]]
    if length < 2:
        return leaves

    def cut(given: list[Any], *bounds: int | None) -> list[Any]:
        return [leaf[(slice(None),) * axis + (slice(*bounds),)] for leaf, axis in zip(given, axes, strict=True)]

    pairs = combine(cut(leaves, 0, -1, 2), cut(leaves, 1, None, 2))
    odd = _partial_results(combine, pairs, axes)
    even = combine(cut(odd, 0, (length - 1) // 2), cut(leaves, 2, None, 2)) if length > 2 else cut(leaves, 0, 0)
    even = [np.concatenate(two, axis) for *two, axis in zip(cut(leaves, 0, 1), even, axes, strict=True)]
    return [_interleaved(a, b, axis) for a, b, axis in zip(even, odd, axes, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """Return the interleaved elements of two arrays; `even` may have one more."""
    count = shape_of(odd)[axis]
    before = (slice(None),) * axis
    both = np.stack([even[(*before, slice(0, count))], odd], axis + 1)
    shape = shape_of(odd)
    both = both.reshape((*shape[:axis], 2 * count, *shape[axis + 1 :]))
    return both if shape_of(even)[axis] == count else np.concatenate([both, even[(*before, slice(count, None))]], axis)
