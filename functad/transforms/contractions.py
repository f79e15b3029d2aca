"""The primitive `zero_wins`: a contraction in which an exact zero factor wins, as an operation of an expression list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import evaluate
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.entry import Primitive
from functad.transforms.leaves import pull_leaves
from functad.transforms.lists import trace
from functad.transforms.walks.zero_wins import Contraction, without_zero_terms


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
