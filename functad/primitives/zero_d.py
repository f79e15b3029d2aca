"""Arrays of shape `()` versus scalars, as results of operations in batches and traces without values.

NumPy's ufuncs and reductions return scalars. Views, copies and `np.where` return arrays of shape `()`. Other functions depend
on their arguments. An array of shape `()` can be written to, and a view of it shares its memory; a scalar is immutable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, spec_of, stand_in
from functad.primitives.entry import ENTRIES, INTERNAL, Primitive

Form = bool | None
"""`True` for an array of shape `()`, `False` for a scalar, `None` if unknown."""


def is_zero_d(value: Any) -> bool:
    """Return `True` if a plain value is an array, not a scalar."""
    return type(value) is np.ndarray


def tried(primitive: Any, samples: Sequence[Any], params: Any) -> list[Form]:
    """Return the forms of the results of a primitive, computed from samples; `[None]` if unknown. No user code is called."""
    if primitive.owner is None and (ENTRIES.get(primitive.function) is primitive or primitive in INTERNAL):
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
