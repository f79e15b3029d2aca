"""Functions from leaves to leaves, and their derivatives, for the rules of primitives that hold a function.

Such a rule runs the function, or its expression list, again on values one level lower. An outer trace records this run, so
first-order rules give derivatives of every order.

`ZERO_WINS` is the simplest primitive of this type: a contraction in which an exact zero factor wins, as an operation of an
expression list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import evaluate
from functad.expressions.spec import ArraySpec, dtype_of, is_inexact, shape_of, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.operands import is_absent
from functad.tracing.concrete import ForwardRecorder, ReverseRecorder
from functad.tracing.trace import Recorded, unwrap
from functad.transforms.boundary import as_dtype, traced
from functad.transforms.forward import push_through, with_zeros
from functad.transforms.linear import jvp
from functad.transforms.lists import trace
from functad.transforms.reverse import pull_through
from functad.transforms.zero_wins import Contraction, without_zero_terms

LeafFunction = Callable[..., Sequence[Any]]
"""A function from leaves to leaves."""


def replaced(values: Sequence[Any], places: Sequence[int], given: Sequence[Any]) -> list[Any]:
    """Return a list of values with `given` at `places`."""
    result = list(values)
    for i, value in zip(places, given, strict=True):
        result[i] = value
    return result


def pulled(
    f: LeafFunction,
    primals: Sequence[Any],
    gs: Sequence[Any],
    wrt: Sequence[int] | None = None,
    *,
    transform: str = "vjp",
    function: object = None,
) -> list[Any]:
    """Return the cotangents of arguments of `f`; the backward pass frees the records of `f`.

    Args:
        f: the function.
        primals: the arguments.
        gs: the cotangents of the results, or of the floating-point and complex results only.
        wrt: positions of the arguments; by default all.
        transform: the name of the transform, for messages.
        function: the function of the user, for messages.

    Returns:
        The cotangents. `None` means zero, or an argument without a derivative.
    """
    wanted = range(len(primals)) if wrt is None else wrt
    active = [i for i in wanted if is_inexact(primals[i])]
    found = pulled_with_results(f, primals, active, gs, transform=transform, function=function, results=False)[1]
    every = replaced([None] * len(primals), active, found)
    return [every[i] for i in wanted]


def pulled_with_results(
    f: LeafFunction,
    primals: Sequence[Any],
    wrt: Sequence[int],
    gs: Sequence[Any],
    *,
    transform: str = "vjp",
    function: object = None,
    results: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Return the results of `f` (empty unless `results` is set), and the cotangents of the arguments `wrt`."""
    recorder = ReverseRecorder(transform, function or f)
    tensors = replaced(primals, wrt, [recorder.enter(primals[i]) for i in wrt])
    outs = list(traced(recorder, f, tensors, {}))
    del tensors
    values = [unwrap(out, recorder) for out in outs] if results else []
    floats = outs if len(gs) == len(outs) else [out for out in outs if is_inexact(out)]
    slots, seeds = [], []
    for out, g in zip(floats, gs, strict=True):
        if isinstance(out, Recorded) and out.recorder is recorder and not _is_zero(g):
            slots.append(out.slot)
            seeds.append(as_dtype(g, dtype_of(out)))
    del outs, floats  # so that the backward pass frees their arrays
    return values, pull_through(recorder, slots, seeds, consume=True)


def _is_zero(g: Any) -> bool:
    """Return `True` if a cotangent is zero by construction (`absent`); one element is checked."""
    return is_absent(g) and not g.reshape(-1)[:1].any()


def pull_leaves(f: LeafFunction, leaves: Sequence[Any], gs: Sequence[Any], wrt: Sequence[int] | None = None) -> list[Any]:
    """Return the cotangents of leaves like `pulled`, with zeros in place of `None`."""
    return with_zeros(pulled(f, leaves, gs, wrt), leaves if wrt is None else [leaves[i] for i in wrt])


def pushed(f: LeafFunction, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results of a function and their tangents, `None` for results that are not inexact; `None` means zero."""
    moving = [i for i, t in enumerate(tangents) if t is not None and is_inexact(primals[i])]

    def along(*given: Any) -> Any:
        return list(f(*replaced(primals, moving, given)))

    values, found = jvp(along, [primals[i] for i in moving], [tangents[i] for i in moving])
    return values, [t if is_inexact(value) else None for value, t in zip(values, found, strict=True)]


def pushed_tangents(f: LeafFunction, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of the results of a function, as in `pushed`."""
    return pushed(f, primals, tangents)[1]


def push_leaves(f: LeafFunction, leaves: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
    """Return the tangents of the results of `f` for tangents `ts` of its leaves, with zeros in place of `None`."""
    values, found = pushed(f, leaves, ts)
    return with_zeros(found, values)


class Linearized:
    """The pushforward `t -> J t` of a function of leaves at a point; `f` runs once.

    Args:
        f: the function.
        leaves: the point.
        transform: the name of the transform, for messages.
        function: the function of the user, for messages.

    Attributes:
        values: the results at the point.
        recorder: the trace.
    """

    def __init__(self, f: LeafFunction, leaves: Sequence[Any], transform: str = "linearize", function: object = None) -> None:
        self.recorder = recorder = ForwardRecorder(transform, function or f)
        recorder.lasting = True  # copies residuals, which the user may overwrite between two calls
        self._outs = list(traced(recorder, f, [recorder.enter(leaf) for leaf in leaves], {}))
        self.values = unwrap(self._outs, recorder)

    def __call__(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        return with_zeros(push_through(self.recorder, tangents, self._outs), self.values)


# The primitive `zero_wins`


def _listed(contraction: Contraction, arrays: Sequence[Any]) -> Any:
    """Return a contraction as an expression list."""
    specs = [ArraySpec(shape_of(a), dtype_of(a)) for a in arrays]
    return trace("zero_wins", contraction, specs)


def _evaluated(body: Any) -> Contraction:
    """Return an expression list with one result as a function."""
    return lambda *arrays: evaluate(body, arrays)[0]


def _compute(*arrays: Any, body: Any) -> Any:
    """Return the contraction `body` of the arrays, where an exact zero wins in each term."""
    return without_zero_terms(_evaluated(body), arrays)


def _vjp(g: Any, arrays: tuple[Any, ...], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the cotangents of all operands: contractions of `g` and the other operands, where an exact zero wins."""
    body = params["body"]
    found = []
    for i, a in enumerate(arrays):
        zero = np.zeros(shape_of(a), dtype_of(a))

        def contraction(g: Any, *rest: Any, i: int = i, zero: Any = zero) -> Any:
            leaves = (*rest[:i], zero, *rest[i:])
            return pull_leaves(lambda *own: [_evaluated(body)(*own)], leaves, [g], [i])[0]

        operands = (g, *arrays[:i], *arrays[i + 1 :])
        found.append(ZERO_WINS(*operands, body=_listed(contraction, operands)))
    return tuple(found)


def _batch(primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]) -> Any:
    """Return the contractions of all examples as one contraction with a batch axis."""
    from functad.transforms.vmap import vmap  # noqa: PLC0415 - few programs batch a careful pass

    axes = tuple([0 if flag else None for flag in batched])
    body = _listed(vmap(_evaluated(params["body"]), in_axes=axes, axis_size=size), values)
    return primitive(*values, body=body)


def _samples(array: Any) -> Sequence[tuple[tuple[Any, ...], dict[str, Any]]]:
    product_of_matrices = _listed(lambda a, b: a @ b, (array(2, 3), array(3, 2)))
    three = _listed(lambda a, b, c: np.einsum("i,ij,j->", a, b, c), (array(2), array(2, 3), array(3)))
    return [
        ((array(2, 3), array(3, 2)), {"body": product_of_matrices}),
        ((array(2), array(2, 3), array(3)), {"body": three}),
    ]


ZERO_WINS: Primitive = Primitive(
    _compute,
    kind="multilinear",
    names=(),
    compute=_compute,
    vjps=(_vjp,),
    joint=True,
    name="zero_wins",
    spec=lambda *specs, body: spec_of(body.results[0]),
    samples=_samples,
    internal=True,
    doc="linear in each operand; a term with an exactly zero factor is zero",
    batch=_batch,
)


def recorded(contraction: Contraction, arrays: Sequence[Any]) -> Any:
    """Return the contraction of Tensors, recorded as one operation, where an exact zero wins in each term."""
    return ZERO_WINS(*arrays, body=_listed(contraction, arrays))
