"""Writes at indices that are Tensors of integers: Tensors of an abstract trace, or batched Tensors.

`t[i] = v` with such an `i` records `place(t, v, i)`, and `np.add.at(t, i, v)` records `place_add(t, v, i)`. The index is an
argument of these primitives, as in `gather`. In `functad.primitives.indexing.write` the index is a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import TRANSPOSE, Calls
from functad.primitives.batching import Params, Values, Which, padded, spread_out
from functad.primitives.elementwise.selection import kept
from functad.primitives.entry import Primitive
from functad.primitives.indexing.index_map import indexed_shape
from functad.primitives.indexing.read import GATHER, BatchedIndex, Template, fill
from functad.primitives.indexing.write import (
    ForAll,
    Path,
    Step,
    as_cotangent,
    part,
    squeezed,
    write_into_copy,
    written_spec,
)
from functad.primitives.kinds import general
from functad.primitives.operands import zeros_for


def _place(a: Any, v: Any, /, *indices: Any, path: Path, template: Template) -> Any:
    """Return a copy of `a` with the elements at an index of a view of `a` replaced by `v`."""
    return write_into_copy(a, v, path=path, index=fill(template, indices))


def _place_add(a: Any, v: Any, /, *indices: Any, path: Path, template: Template) -> Any:
    """Return a copy of `a` with `v` added to the elements at an index of a view of `a`."""
    return write_into_copy(a, v, path=path, index=fill(template, indices), adds=True)


def _spec(a: Any, v: Any, *indices: Any, path: Path, template: Template) -> ArraySpec:
    return written_spec(a, v, path=path, index=fill(template, tuple(map(spec_of, indices))))


def _last(view: ArraySpec, indices: Sequence[Any], template: Template) -> Any:
    """Return the mask of written elements that no later element of the same write overwrites."""
    shape = indexed_shape(view.shape, fill(template, tuple(map(spec_of, indices))))
    turns = np.arange(int(np.prod(shape))).reshape(shape)
    winner = PLACE(np.zeros(view.shape, np.intp), turns, *indices, path=(), template=template)
    return GATHER(winner, *indices, template=template) == turns


def _place_vjp(g: Any, places: Any, path: Path, template: Template, v_shape: Any) -> Any:
    view = part(g, path)
    piece = GATHER(view, *places, template=template)
    if any(map(shape_of, places)):  # a single position cannot repeat
        piece = kept(piece, _last(ArraySpec(shape_of(view), dtype_of(view)), places, template))
    return squeezed(as_cotangent(piece, path), v_shape)


def _samples(array: Any) -> Calls:
    """Return writes at one position and at several, with broadcast values, with slices, and through views."""
    turned = Step(TRANSPOSE, {"axes": (1, 0)})
    one, two = np.array(1), np.array([2, 0])
    return [
        ((array(3), array(), one), {"path": (), "template": ("i",)}),
        ((array(3), array(2), two), {"path": (), "template": ("i",)}),
        ((array(2, 3), array(3), one), {"path": (), "template": ("i", "...")}),
        ((array(2, 3), array(2, 1), two), {"path": (), "template": (":", "i")}),
        ((array(2, 3, 3), array(2, 3), one, two), {"path": (), "template": ("i", "::-1", "i")}),
        ((array(2, 3), array(2), two), {"path": (turned,), "template": ("i", 1)}),
    ]


def _place_samples(array: Any) -> Calls:
    repeated = np.array([1, -1, 1, 2])
    return [
        *_samples(array),
        ((array(3), array(1, 1), np.array([2, 0])), {"path": (), "template": ("i",)}),
        ((array(3), array(4), repeated), {"path": (), "template": ("i",)}),
        ((array(3, 2), array(4, 1), repeated), {"path": (), "template": ("i",)}),
    ]


def _add_samples(array: Any) -> Calls:
    return [*_samples(array), ((array(3), array(3), np.array([1, -1, 1])), {"path": (), "template": ("i",)})]


def _raises(specs: Sequence[ArraySpec], params: Params) -> tuple[range, Any]:
    path, template = params["path"], params["template"]
    return range(2, len(specs)), (specs[0].shape, template, tuple(map(id, path))) if path else (specs[0].shape, template)


def _entry(
    function: Callable[..., Any],
    a_rule: Any,
    v_rule: Any,
    jvps: Any,
    samples: Any,
    doc: str,
    **traits: Any,
) -> Primitive:
    return general(
        function,
        a_rule,
        v_rule,
        *[None] * 62,  # NumPy allows at most 64 axes, and therefore at most 64 index arrays
        spec=_spec,
        samples=samples,
        jvps=jvps,
        internal=True,
        doc=doc,
        broadcasts=True,
        derived={"places": lambda a, v, *indices: tuple([i.copy() if type(i) is np.ndarray else i for i in indices])},
        batch=_batch,
        ordered=True,
        raises=_raises,
        dependence="write",
        curvature="none",
        **traits,
    )


def _batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    (a, v, *arrays), (a_batched, v_batched, *own) = values, batched
    view = ArraySpec(shape_of(a)[a_batched:], dtype_of(a))
    for step in params["path"]:
        view = step.spec(view)
    examples = [ArraySpec(shape_of(array)[b:], dtype_of(array)) for array, b in zip(arrays, own, strict=True)]
    ndim = len(indexed_shape(view.shape, fill(params["template"], tuple(examples))))
    index = BatchedIndex(size, arrays, own, params["template"], view.shape, whole=True)
    v = v if v_batched else v[None] if shape_of(v) else np.reshape(v, (1,))
    shape = shape_of(v)
    if len(shape) > ndim + 1:  # NumPy ignores leading axes of length 1
        v = v.reshape((shape[0], *shape[len(shape) - ndim :]))
    path = tuple([step._replace(primitive=ForAll(step.primitive, size)) for step in params["path"]])
    a = spread_out(a, a_batched, size)
    return primitive(a, index.back(padded(v, ndim)), *index.indices, path=path, template=index.template)


PLACE: Primitive = _entry(
    _place,
    lambda g, places, path, template: PLACE(g, dtype_of(g).type(0), *places, path=path, template=template),
    lambda g, places, path, template, v_shape: _place_vjp(g, places, path, template, v_shape),
    (
        lambda t, places, path, template: PLACE(t, dtype_of(t).type(0), *places, path=path, template=template),
        lambda t, a_shape, out_dtype, places, path, template: PLACE(
            zeros_for(a_shape, out_dtype, t), t, *places, path=path, template=template
        ),
    ),
    _place_samples,
    "linear in both arrays; the cotangent of what was replaced is zero",
)
PLACE_ADD: Primitive = _entry(
    _place_add,
    lambda g: g,
    lambda g, places, path, template, v_shape: squeezed(
        as_cotangent(GATHER(part(g, path), *places, template=template), path), v_shape
    ),
    (
        lambda t: t,
        lambda t, a_shape, out_dtype, places, path, template: PLACE_ADD(
            zeros_for(a_shape, out_dtype, t), t, *places, path=path, template=template
        ),
    ),
    _add_samples,
    "linear in both arrays",
    adds=True,
)
