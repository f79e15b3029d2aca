"""Elementwise selection: `where`, `select` and `choose`; products with masks; `nan_to_num`.

The mask is the only residual of a selection. The rule selects between the cotangent and zero with the same mask.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives import batching
from functad.primitives.arranging.reshape import Calls
from functad.primitives.elementwise.conversion import laid_out, laid_out_like, of_parts
from functad.primitives.entry import Primitive
from functad.primitives.indexing.positions import nonzero
from functad.primitives.indexing.read import as_number
from functad.primitives.kinds import composite, elementwise, general, refuse_large
from functad.primitives.operands import as_operand, is_traced, refuse_out
from functad.primitives.safe import has_nan

_ndarray = np.ndarray
_BOOL = np.dtype(np.bool_)

# where


def _promoted(specs: Sequence[ArraySpec]) -> np.dtype[Any]:
    """Return the common dtype of the specs. As in NumPy, a Python scalar takes the dtype of the arrays."""
    return np.result_type(*[s.dtype.type(0).item() if s.weak else s.dtype for s in specs])


def _where_spec(choice: Any, *values: Any, **params: Any) -> ArraySpec:
    specs = [spec_of(value) for value in (choice, *values)]
    dtype = _promoted(specs[1:])
    if int in map(type, values):
        refuse_large(np.where, dtype, (choice, *values))
    return ArraySpec(np.broadcast_shapes(*[s.shape for s in specs]), dtype)


# Masks


def kept(g: Any, mask: Any) -> Any:
    """Return `g` where `mask` is true, zero elsewhere."""
    if type(g) is _ndarray and type(mask) is _ndarray:
        return _kept(g, mask)
    return KEPT(g, mask)


def dropped(g: Any, mask: Any) -> Any:
    """Return `g` where `mask` is false, zero elsewhere."""
    if type(g) is _ndarray and type(mask) is _ndarray:
        return _dropped(g, mask)
    return DROPPED(g, mask)


def _kept(g: Any, mask: Any) -> Any:
    """Return `np.where(mask, g, 0.0)`, computed as `g * mask` if the product contains no NaN.

    The product is 13 times faster for 65,536 float32, because it has no mispredicted branches. Zero times infinity or NaN is
    NaN, so the function falls back to `np.where`.
    """
    if type(g) is _ndarray and type(mask) is _ndarray and mask.dtype is _BOOL and g.dtype.kind in "fc":
        out = g * mask
        # If g is much smaller than the mask, the check uses g - g, which is NaN where g is infinite or NaN.
        if not has_nan(out if 4 * g.size > mask.size else g - g):
            return out
    out = np.where(mask, g, 0.0)
    return out[()] if type(out) is _ndarray else out  # a scalar for shape (), like the product


def _dropped(g: Any, mask: Any) -> Any:
    return _kept(g, np.logical_not(mask))


def _kept_samples(array: Any) -> Calls:
    mask = np.array([True, False, True])
    return [
        ((array(3), mask), {}),
        ((array(2, 3), mask), {}),
        ((array(3), mask[:2, None]), {}),
        ((array(), np.True_), {}),
        ((array(0), mask[:0]), {}),
    ]


def _enter_mask(function: Any, compute: Any, plain: Any, doc: str) -> Primitive:
    return elementwise(
        function,
        lambda g, mask: function(g, mask),
        None,
        names=("g", "mask"),
        operator=compute,
        spec=lambda g, mask: _where_spec(mask, g, 0.0),
        samples=_kept_samples,
        internal=True,
        doc=doc,
        curvature="none",
        passes_nan=(0,),
        reads_all=False,
        exact=True,
        plain=plain,
    )


KEPT = _enter_mask(kept, _kept, lambda g, mask: g * mask, "linear: the cotangent where the mask is true")
DROPPED = _enter_mask(
    dropped, _dropped, lambda g, mask: g * np.logical_not(mask), "linear: the cotangent where the mask is false"
)


def _where_samples(array: Any) -> Calls:
    mask = np.array([True, False, True])
    return [
        ((mask, array(3), array(3)), {}),
        ((mask, array(2, 3), array()), {}),
        ((mask[:2, None], array(3), 0.5), {}),
        ((np.True_, array(), array()), {}),
        ((mask, 1, array(1)), {}),
        (([1, 0, 2], [0.0, 1.0, 2.0], array(2, 1)), {}),
        ((np.zeros((0, 1), np.bool_), array(2), array()), {}),
    ]


def where(condition: Any, *values: Any) -> Any:
    """Return the result of `np.where`, with one argument or three."""
    if not values:
        return nonzero(condition)
    x, y = values
    return WHERE(as_operand(condition), as_operand(x), as_operand(y))


WHERE = elementwise(
    np.where,
    None,
    lambda g, condition: kept(g, condition),
    lambda g, condition: dropped(g, condition),
    names=("condition", "x", "y"),
    spec=_where_spec,
    samples=_where_samples,
    doc="d where(c, x, y) = where(c, dx, dy); what is not chosen gets zero",
    front=where,
    curvature="none",
    passes_nan=(1, 2),
    reads_all=False,
    exact=True,
)


# Selection from several arrays


def _select_samples(array: Any) -> Calls:
    first, second = np.array([True, False, False]), np.array([True, True, False])
    return [
        (([first, second], [array(3), array(3)]), {}),
        (([first, second], [array(2, 1), array()], array(3)), {}),
        (([first], [array(3)]), {"default": 1.5}),
        (([first[:2, None] & second], [array(2, 3)], array(3)), {}),
    ]


@composite(np.select, samples=_select_samples, doc="derivative of the chosen elements", sequences=("condlist", "choicelist"))
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    conditions = [as_operand(condition) for condition in condlist]
    for i, condition in enumerate(conditions):
        if dtype_of(condition) != np.bool_:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    choices = [as_operand(choice) for choice in [*choicelist, default]]
    out = choices.pop()
    dtype = _promoted([spec_of(value) for value in [*choices, out]])
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = np.where(condition, choice, out)
    return laid_out(out if dtype_of(out) == dtype else out.astype(dtype), "C")


def _choose_vjp(gs: Any, a: Any, shapes: tuple[tuple[int, ...], ...], mode: str) -> list[Any]:
    """Return the cotangent of each choice: `gs` where it was chosen, zero elsewhere. `a` has no derivative."""
    count = len(shapes) - 1
    if mode == "wrap":
        a = a % count
    elif mode == "clip":
        a = np.clip(a, 0, count - 1)
    return [None, *[np.where(a == i, gs, 0.0) for i in range(count)]]


def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    refuse_out(out, "choose")
    return CHOOSE(as_operand(a), *[as_operand(choice) for choice in choices], mode=mode)


CHOOSE = general(
    np.choose,
    _choose_vjp,
    compute=lambda a, /, *choices, mode: np.choose(a, choices, mode=mode),
    spec=_where_spec,
    samples=lambda array: [
        ((np.array([0, 1, 1]), (array(3), array(3))), {}),
        ((np.array([[0], [3]]), [array(3), array()]), {"mode": "wrap"}),
        ((np.array([-1, 3]), array(2, 2)), {"mode": "clip"}),
    ],
    joint=True,
    doc="derivative of the chosen elements",
    batch=batching.elementwise,
    linear_by=lambda params: range(1, sys.maxsize),
    front=_choose,
    raises=lambda specs, params: ((0,), len(specs) - 1) if params["mode"] == "raise" else None,
    sequences=("choices",),
    broadcasts=True,
    curvature="none",
    dependence="chosen",
)


# Replacement of infinities and NaN


def _nan_to_num_samples(array: Any) -> Calls:
    return [((array(3),), {}), ((array(2, 2), True, 1.0, 2.0, 3.0), {}), ((array(),), {}), ((array(0),), {})]


@composite(np.nan_to_num, samples=_nan_to_num_samples, doc="the derivative passes where the value is finite")
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    x = as_operand(x)
    if not copy and is_traced(x) and shape_of(x):
        type(x).__functad_write__(x, Ellipsis, _nan_to_num(x, True, nan, posinf, neginf))
        return x
    if dtype_of(x).kind not in "fc":
        return as_number(np.copy(x))
    if dtype_of(x).kind == "c":
        real, imaginary = (_nan_to_num(part, copy, nan, posinf, neginf) for part in (np.real(x), np.imag(x)))
        return of_parts(real, imaginary)
    limits = np.finfo(dtype_of(x))
    out = np.where(np.isnan(x), nan, x)
    out = np.where(x == np.inf, float(limits.max) if posinf is None else posinf, out)
    return as_number(laid_out_like(np.where(x == -np.inf, float(limits.min) if neginf is None else neginf, out), x))
