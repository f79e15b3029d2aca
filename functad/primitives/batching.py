"""Batching rules: the computation of a primitive for all examples of a batch at once.

A batching rule is called as `rule(primitive, size, values, batched, params)`. Where `batched` is `True`, the value has the
batch axis in front; other values are shared by all examples. Values may be Tensors of outer traces. The rule returns the
result, or the tuple of results, with the batch axis in front of each. Rules call primitives, so they can be recorded,
differentiated and batched again. `functad.primitive` makes such a rule from the rule of a user, which is called as
`rule(size, batched, *arrays, **params)`.

`with_forms` determines which results of shape `()` are arrays in NumPy, and which are scalars. NumPy's ufuncs and reductions
return scalars. Views, copies and `np.where` return arrays. Other functions depend on their arguments. An array of shape `()`
can be written to, and a view of it shares its memory; a scalar is immutable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from functad.errors import LoopWarning
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of, stand_in
from functad.places import here, warn
from functad.primitives.entry import ENTRIES, INTERNAL, Primitive

Values = Sequence[Any]
Which = Sequence[bool]
Params = Mapping[str, Any]
Batch = Callable[[Primitive, int, Values, Which, Params], Any]

_ndarray = np.ndarray

_WARNED: WeakSet[Primitive] = WeakSet()


def batch_call(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Call a primitive for all examples of a batch. The arguments are described in the module docstring.

    Raises:
        AbstractValueError: the shape of the result depends on values, and may differ between examples.
    """
    if primitive.value_dependent:  # its shape rule raises
        primitive.spec(*[_example(v) if b else v for v, b in zip(values, batched, strict=True)], **params)
    return (primitive.batch or rule_of(primitive))(primitive, size, values, batched, params)


def rule_of(primitive: Primitive) -> Batch:
    """Return the batching rule of a primitive: its own rule, the rule of broadcasting functions, or the loop."""
    if primitive.batch is not None:
        return primitive.batch
    ufunc = isinstance(primitive.function, np.ufunc) and primitive.function.signature is None
    return elementwise if primitive.kind == "elementwise" or ufunc else loop


def _example(value: Any) -> ArraySpec:
    return ArraySpec(shape_of(value)[1:], dtype_of(value))


def example_ndim(value: Any, batched: bool) -> int:
    """Return the number of axes of one example."""
    return len(shape_of(value)) - batched


def aligned(values: Values, batched: Which) -> list[Any]:
    """Return values that broadcast like one example: axes of length 1 are inserted after the batch axis where needed."""
    ndim = max(map(example_ndim, values, batched))
    return [padded(v, ndim) if b else v for v, b in zip(values, batched, strict=True)]


def padded(value: Any, ndim: int) -> Any:
    """Return a batched value with at least `ndim` axes in each example."""
    shape = shape_of(value)
    return value if len(shape) > ndim else value.reshape((shape[0], *(1,) * (ndim + 1 - len(shape)), *shape[1:]))


def flat(value: Any) -> Any:
    """Return a batched value with the examples flattened to one axis."""
    shape = shape_of(value)
    return value.reshape((shape[0], math.prod(shape[1:])))


def spread_out(value: Any, batched: bool, size: int) -> Any:
    """Return a value with a batch axis in front. A shared value is broadcast."""
    if batched:
        return value
    return np.broadcast_to(value, (size, *shape_of(value)))


def everywhere(values: Values, batched: Which, size: int) -> list[Any]:
    """Return all values with a batch axis in front."""
    return [spread_out(v, b, size) for v, b in zip(values, batched, strict=True)]


def elementwise(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Batch a broadcasting function: align the axes."""
    x, y = values[0], values[-1]
    if len(values) == 1:
        return primitive.compute(x, **params) if type(x) is _ndarray else primitive(x, **params)
    if len(values) == 2 and type(x) is _ndarray and type(y) is _ndarray:  # the common case, in a third of the time
        least = x.ndim - batched[0], y.ndim - batched[1]
        if (not batched[0] or least[0] >= least[1]) and (not batched[1] or least[1] >= least[0]):
            return primitive.compute(x, y, **params)  # the axes are aligned already
    return primitive(*aligned(values, batched), **params)


def along_axes(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Batch a function of one array over the axes in the parameter `axis` (`None`: all axes)."""
    (a,) = values
    axis = params["axis"]
    axes = tuple(range(1, len(shape_of(a)))) if axis is None else tuple([i + 1 for i in axis])
    return primitive(a, **{**params, "axis": axes})


def along_axis(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Batch a function along the one axis in the parameter `axis`. All array arguments have the same axes.

    `axis=None` means the flattened array.
    """
    axis = params["axis"]
    arrays = everywhere(values, batched, size)
    if axis is None:
        return primitive(*map(flat, arrays), **{**params, "axis": 1})
    return primitive(*arrays, **{**params, "axis": axis + 1 if axis >= 0 else axis})


def stacked(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Batch a function of the last axes that repeats over the other axes, which are equal for all arguments.

    A number that is shared by all examples stays a number.
    """
    return primitive(
        *[v if not b and not shape_of(v) else spread_out(v, b, size) for v, b in zip(values, batched, strict=True)], **params
    )


def on_last_axes(*core: int) -> Batch:
    """Return the rule of a function of the last `core` axes of each argument that broadcasts over the other axes."""

    def rule(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
        outer = max([example_ndim(v, b) - n for v, b, n in zip(values, batched, core, strict=True)])
        given = [padded(v, outer + n) if b else v for v, b, n in zip(values, batched, core, strict=True)]
        return primitive(*given, **params)

    return rule


def by_parameter(name: str, of_batch: Callable[[int, Any], Any]) -> Batch:
    """Return the rule of a function of one array that needs only one changed parameter, `of_batch(size, parameter)`."""

    def rule(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
        return primitive(values[0], **{**params, name: of_batch(size, params[name])})

    return rule


def loop(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Call a primitive without a batching rule for one example after the other, with one warning per primitive."""
    if primitive not in _WARNED:
        _WARNED.add(primitive)
        warn(
            LoopWarning(
                f"{primitive.name} has no batching rule, so vmap calls it for one example after the other, {size} here, at "
                f"{here()}. Give it one: functad.primitive(..., batch=rule) with rule(size, batched, *arrays, **params)."
            )
        )
    return one_by_one(primitive, size, values, batched, params)


def one_by_one(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Call a primitive for one example after the other, and stack the results."""
    rows = [primitive(*[v[i] if b else v for v, b in zip(values, batched, strict=True)], **params) for i in range(size)]
    if not rows:
        spec = primitive.spec(*[_example(v) if b else v for v, b in zip(values, batched, strict=True)], **params)
        empty = [np.zeros((0, *s.shape), s.dtype) for s in (spec if primitive.multiple else (spec,))]
        if not primitive.multiple:
            return empty[0]
        return type(spec)(*empty) if hasattr(spec, "_fields") else tuple(empty)
    if primitive.multiple:
        columns = [np.stack(column) for column in zip(*rows, strict=True)]
        return type(rows[0])(*columns) if hasattr(rows[0], "_fields") else tuple(columns)
    return np.stack(rows)


# Results of shape `()`

Form = bool | None
"""`True` for an array of shape `()`, `False` for a scalar, `None` if unknown."""


def is_zero_d(value: Any) -> bool:
    """Return `True` if a plain value is an array, not a scalar."""
    return type(value) is np.ndarray


def tried(primitive: Any, samples: Sequence[Any], params: Any) -> list[Form]:
    """Return the forms of the results of a primitive, computed from samples; `[None]` if unknown. No user code is called."""
    if (
        primitive.owner is None
        and not primitive.lists
        and (ENTRIES.get(primitive.function) is primitive or primitive in INTERNAL)
    ):
        for values in (samples, [_zeros(sample) for sample in samples]):
            try:
                with np.errstate(all="ignore"):
                    out = primitive.compute(*values, **params)
            except Exception:  # noqa: BLE001, S112 - samples may be invalid values, such as a position out of range
                continue
            return list(map(is_zero_d, out if primitive.multiple else (out,)))
    return [None]


def _zeros(sample: Any) -> Any:
    """Return an integer sample with zeros in place of ones; anything else unchanged."""
    if type(sample) is np.ndarray and sample.dtype.kind in "iu" and 0 in sample.strides:
        return np.broadcast_to(np.zeros((), sample.dtype), sample.shape)
    return sample.dtype.type(0) if issubclass(type(sample), np.integer) else sample


def with_forms(primitive: Primitive, out: Any, given: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the specs of the results of a call, with `zero_d` set for arrays of shape `()`.

    Args:
        primitive: the primitive.
        out: the spec of the result, or a tuple of specs, from the shape rule.
        given: the specs of the arguments, or the values of arguments with known values.
        params: the parameters.
    """
    if primitive.zero_d is False or (not primitive.multiple and out.shape):
        return out  # the common case
    results = out if primitive.multiple else (out,)
    if all(spec.shape or spec.weak for spec in results):
        return out
    forms: Sequence[Form]
    if primitive.inner is not None:
        forms = [spec.zero_d for spec in primitive.inner.results]
    elif primitive.zero_d is not None:
        forms = [primitive.zero_d(params) if callable(primitive.zero_d) else primitive.zero_d]
    elif primitive.lists == "branches":
        each = zip(*[branch.results for branch in params["branches"]], strict=True)
        forms = [specs[0].zero_d if len({spec.zero_d for spec in specs}) == 1 else None for specs in each]
    elif primitive.lists:  # in a loop, the forms of the first carries hold for all steps
        forms = [spec_of(value).zero_d for value in given[: params.get("carries", 0)]]
    else:
        forms = tried(primitive, [stand_in(value) for value in given], params)
    made = [marked(spec, form) for spec, form in zip(results, forms, strict=False)]
    return (*made, *results[len(made) :]) if primitive.multiple else made[0]


def marked(spec: ArraySpec, form: Form) -> ArraySpec:
    """Return a spec with `zero_d` set to a form; unchanged if the form is unknown."""
    if form is None or spec.shape or spec.weak or spec.zero_d is form:
        return spec
    return ArraySpec(spec.shape, spec.dtype, False, form)
