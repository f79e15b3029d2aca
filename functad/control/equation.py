"""Primitives for control flow, which hold expression lists as parameters.

If values are known, also in concrete traces, such a primitive runs its lists with Python's control flow, and each operation is
recorded separately. If an abstract trace is below, the call is recorded as one equation. The derivative rules are written with
control flow again (the derivative of a loop is a loop), so derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec, dtype_of, is_inexact, shape_of, strong_spec
from functad.primitives.kinds import SolverPrimitive
from functad.primitives.operands import absent, all_examples
from functad.tracing.traces.base import OPEN, Recorded, record
from functad.tracing.traces.equations import AbstractRecorder
from functad.tracing.views import in_c_order
from functad.transforms.leaves import LeafFunction, pull_leaves, pushed, replaced
from functad.transforms.lists import close, trace
from functad.transforms.vmap import vmap


class Control(SolverPrimitive):
    """A primitive that holds expression lists: `cond`, a loop, or the derivative of one.

    In a reverse trace, the parameter `wrt` holds the positions of the differentiated arrays. No list shows it.
    """

    def __init__(
        self,
        name: str,
        *,
        compute: Callable[..., Sequence[Any]],
        spec: Callable[..., tuple[ArraySpec, ...]],
        pull: Callable[..., list[Any]],
        push: Callable[..., list[Any]],
        batch: Callable[..., Sequence[Any]],
        doc: str,
        lists: str = "",
    ) -> None:
        """Create the primitive.

        Args:
            name: its name in lists.
            compute: `compute(*arrays, **params)` on known values, including Tensors of concrete traces.
            spec: the shape rule.
            pull: `pull(gs, arrays, out, params)` returns the cotangents of the arguments at `params["wrt"]`.
            push: `push(ts, arrays, params)` returns the tangents of the results; `None` in `ts` and in the result means zero.
            batch: `batch(values, batched, size, params)` returns the results for all examples; the values are unknown.
            doc: one line.
            lists: the control flow of the lists among its parameters; empty if there are none.
        """

        def run(*arrays: Any, wrt: Any = None, back: Any = None, **params: Any) -> tuple[Any, ...]:
            return tuple(compute(*arrays, **params))

        def specs(*arrays: Any, wrt: Any = None, back: Any = None, **params: Any) -> tuple[ArraySpec, ...]:
            return spec(*arrays, **params)

        def pull_all(gs: Any, arrays: Any, out: Any, params: Any) -> list[Any]:
            wrt = params.get("wrt") or ()
            zeros = [absent(shape_of(a), dtype_of(a)) for a in arrays]
            return replaced(zeros, wrt, pull(gs, arrays, out, params) if wrt else [])

        def push_all(ts: Any, arrays: Any, out: Any, params: Any) -> tuple[Any, ...]:
            found = push([t if is_inexact(a) else None for t, a in zip(ts, arrays, strict=True)], arrays, params)
            return tuple([absent(shape_of(o), dtype_of(o)) if t is None else t for t, o in zip(found, out, strict=True)])

        def batch_all(primitive: Any, size: int, values: Any, batched: Any, params: Any) -> tuple[Any, ...]:
            return tuple(batch(values, batched, size, params))

        super().__init__(
            compute,
            name=name,
            compute=run,
            pull=pull_all,
            push=push_all,
            spec=specs,
            doc=doc,
            batch=batch_all,
            lists=lists,
        )

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Run the lists if values are known; record one equation if they are unknown."""
        if not any(map(unknown, arrays)):
            return self.compute(*arrays, **params)
        params = {key: value for key, value in params.items() if key not in ("wrt", "back")}
        newest = max((a for a in arrays if isinstance(a, Recorded)), key=lambda a: a.recorder.serial).recorder
        if not newest.pulls:
            return record(self, arrays, params)
        own = [i for i, a in enumerate(arrays) if isinstance(a, Recorded) and a.recorder is newest]
        return self.call_for_reverse(arrays, params, tuple([i for i in own if is_inexact(arrays[i])]))

    def call_for_reverse(self, arrays: tuple[Any, ...], params: dict[str, Any], wrt: tuple[int, ...]) -> Any:
        """Record the call in a reverse trace, for derivatives with respect to the arguments at positions `wrt`."""
        return record(self, arrays, {**params, "wrt": wrt})


class Derivatives(NamedTuple):
    """Derivative rules of a deferred function that need no values.

    Attributes:
        pull, push, batch: as for `Control`.
    """

    pull: Callable[..., list[Any]]
    push: Callable[..., list[Any]]
    batch: Callable[..., Sequence[Any]]


def deferred(
    name: str, run: LeafFunction, specs: Sequence[ArraySpec], shown: dict[str, Any], rules: Derivatives | None = None
) -> Control:
    """Return a primitive that evaluates a flat function once values are known, with derivatives of any order.

    For computations without an expression list, because the number of residuals depends on values.

    Args:
        name: the name in lists.
        run: the function.
        specs: the specs of the results.
        shown: the parameters to show in lists, from which `run` is made.
        rules: the derivative rules. Default: differentiate `run` when it is evaluated.
    """

    def pull(gs: Any, arrays: Sequence[Any], out: Any, params: Any) -> list[Any]:
        return pull_later(name, run, gs, arrays, out, params["wrt"], shown)

    def push(ts: Sequence[Any], arrays: Sequence[Any], params: Any) -> list[Any]:
        moving, count = [i for i, t in enumerate(ts) if t is not None], len(arrays)
        places = [i for i, spec in enumerate(specs) if is_inexact(spec)]

        def along(*values: Any) -> list[Any]:
            found = pushed(run, values[:count], replaced([None] * count, moving, values[count:]))[1]
            return [found[i] for i in places]

        primitive = deferred(f"{name}_jvp", along, [strong_spec(specs[i]) for i in places], shown)
        return replaced([None] * len(specs), places, primitive(*arrays, *[ts[i] for i in moving], **shown))

    def batch(values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Any:
        each = [ArraySpec((size, *spec.shape), spec.dtype) for spec in specs]
        return deferred(f"{name}_vmap", over_examples(run, batched, size), each, shown)(*values, **shown)

    return Control(
        name,
        batch=batch if rules is None else rules.batch,
        compute=lambda *arrays, **params: run(*arrays),
        spec=lambda *arrays, **params: tuple(specs),
        pull=pull if rules is None else rules.pull,
        push=push if rules is None else rules.push,
        doc="computed when values are known",
    )


def pull_later(
    name: str,
    run: LeafFunction,
    gs: Any,
    arrays: Sequence[Any],
    out: Any,
    wrt: Sequence[int],
    shown: dict[str, Any],
    rules: Derivatives | None = None,
) -> list[Any]:
    """Return the cotangents of the arguments at positions `wrt` of a flat function, evaluated again once values are known.

    Args:
        name: the name of the function in lists.
        run: the function.
        gs: the cotangents of its results.
        arrays: its arguments.
        out: its results.
        wrt: positions of floating-point arguments.
        shown: the parameters to show in lists.
        rules: the derivative rules of these cotangents, if known.
    """
    count = len(arrays)

    def back(*values: Any) -> list[Any]:
        return pull_leaves(run, values[:count], values[count:], wrt)

    primitive = deferred(f"{name}_vjp", back, [strong_spec(arrays[i]) for i in wrt], shown, rules)
    return list(primitive(*arrays, *[g for g, o in zip(gs, out, strict=True) if is_inexact(o)], **shown))


def over_examples(f: LeafFunction, batched: Sequence[bool], size: int) -> LeafFunction:
    """Return a flat function for all examples of a batch. `batched` is `True` for arguments with the batch axis in front."""
    return vmap(lambda *leaves: list(f(*leaves)), in_axes=tuple([0 if own else None for own in batched]), axis_size=size)


def selected(condition: Any, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return for each example the leaves of `first` where the condition holds, else the leaves of `second`.

    Values that are not selected get a cotangent of exactly zero, which stays zero even if their derivative is infinite.
    """
    return [a if a is b else np.where(condition, a, b) for a, b in zip(first, second, strict=True)]


def part(values: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Return values in groups of the given sizes, followed by the remaining values."""
    result, start = [], 0
    for count in counts:
        result.append(list(values[start : start + count]))
        start += count
    return [*result, list(values[start:])]


def unknown(value: Any) -> bool:
    """Return `True` if only shape and dtype of a value are known."""
    return isinstance(value, Recorded) and isinstance(all_examples(value), ArraySpec)


def listing(leaves: Sequence[Any]) -> bool:
    """Return `True` if control flow on these values is recorded as an equation of an expression list."""
    return any(map(unknown, leaves)) or type(OPEN.get()) is AbstractRecorder


def close_bodies(
    transform: str, *bodies: tuple[Callable[..., Any], Sequence[Any]], operands: Sequence[Any] = ()
) -> tuple[list[Expressions], list[Any]]:
    """Return closed lists of `bodies`, traced without values, and the captured Tensors.

    Args:
        transform: the name of the transform, for messages.
        bodies: pairs of a function and its arguments or their specs.
        operands: the sources of these arguments. Unless all are in C order, the memory order of the arguments is unknown.
    """
    from functad.transforms.outside import frozen_in_bodies  # noqa: PLC0415 - `import functad` needs no lists

    ordered = all(map(in_c_order, operands))
    with frozen_in_bodies(transform, [f for f, _ in bodies]):
        *lists, captured = close(*[trace(transform, f, args, ordered=ordered) for f, args in bodies])
    return lists, captured


def any_example(predicate: Any) -> bool:
    """Return `True` if a known predicate holds for some example."""
    return bool(np.any(all_examples(predicate)))


def is_batched(predicate: Any) -> bool:
    """Return `True` if a known predicate has several examples."""
    return isinstance(predicate, Recorded) and np.ndim(all_examples(predicate)) > 0
