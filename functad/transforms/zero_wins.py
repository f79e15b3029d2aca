"""Careful derivatives: an exact zero factor wins over an infinite or NaN factor, in the rule of every primitive.

The rules of functions with an infinite derivative use `product` and `quotient` of `functad.primitives.safe`, in which an exact
zero wins in every pass. All other rules multiply in IEEE arithmetic in the quick backward or forward pass: zero times infinity
is NaN. If the result has a NaN, the careful pass runs. It applies the rule of each record according to the kind of the
primitive:

- elementwise: the Jacobian is diagonal. The rule returns the diagonal for the cotangent 1, and `product` multiplies.
- multilinear: each term of the contraction is a product of elements of the operands. A term with an exactly zero factor is
  zero, whatever the other factors are; `without_zero_terms` computes the sum of the other terms.
- general: `of_linear` calls the rule, and computes rows of the Jacobian for infinite or NaN elements.
- all others: the rule itself multiplies by `careful_product`.

A list that is printed, or compiled for an engine that cannot check for NaN, is traced once, in a pass that treats the
elementwise primitives only (see `functad.primitives.safe.PASS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, dtype_of, shape_of
from functad.primitives.elementwise.elementary import MULTIPLY
from functad.primitives.entry import Plan
from functad.primitives.safe import CAREFUL, PRODUCT, QUOTIENT, SINGULAR, current_pass, mended, product
from functad.tracing.equations import may_be_infinite
from functad.tracing.trace import Recorded

_ndarray = np.ndarray
_float64 = np.float64

Contraction = Callable[..., Any]
"""A function that is linear in each of its arguments."""


def pull_carefully(plan: Plan, g: Any, residuals: Any) -> Any:
    """Return the cotangents `plan.pull(g, residuals)`, where an exact zero wins."""
    every = zip(plan.rules, plan.arguments(residuals), plan.active, strict=True)
    found = [apply_carefully(plan, rule, g, args, position) for rule, args, position in every]
    return found[0] if len(found) == 1 else found


def push_carefully(plan: Plan, ts: Sequence[Any], residuals: Any) -> Any:
    """Return the tangent `plan.push(ts, residuals)`, where an exact zero wins; `None` means zero."""
    total: Any = None
    for t, rule, args, position in zip(ts, plan.pushes or (), plan.arguments(residuals), plan.active, strict=True):
        if t is not None:
            part = apply_carefully(plan, rule, t, args, position)
            if total is not None:
                several = plan.primitive.multiple
                part = tuple([a + b for a, b in zip(total, part, strict=True)]) if several else total + part
            total = part
    return total


def apply_carefully(plan: Plan, rule: Callable[..., Any], g: Any, args: tuple[Any, ...], position: int) -> Any:
    """Return `rule(g, *args)`, where an exact zero wins.

    Args:
        plan: the plan of the record.
        rule: a VJP or JVP rule of the primitive.
        g: the cotangent or the tangent.
        args: the residuals that the rule reads.
        position: the position of the differentiated array argument.
    """
    kind = plan.primitive.kind
    now = current_pass()
    if now != CAREFUL and (kind != "elementwise" or (now == SINGULAR and _is_finite_and_nonzero(g))):
        return rule(g, *args)
    if plan.primitive is MULTIPLY:  # one equation instead of two in a printed list
        return product(g, *args) if now != SINGULAR or any(map(may_be_infinite, (g, *args))) else rule(g, *args)
    if now == SINGULAR:
        found = rule(g, *args)
        return mended(found, g) if any(map(may_be_infinite, args)) and not _has_zeros_of(found, g) else found
    if kind == "elementwise" and args:
        if dtype_of(g).kind == "c":  # the derivative may be only real-linear
            return mended(rule(g, *args), g)
        return _times(g, rule(dtype_of(g).type(1), *args))
    if kind == "multilinear":
        return _contracted(rule, g, args, position)
    if kind == "general":
        return of_linear(lambda g: rule(g, *args), g)
    return rule(g, *args)


def _is_finite_and_nonzero(g: Any) -> bool:
    """Return `True` if a cotangent or tangent is a constant without zeros, infinities or NaN."""
    return type(g) in PLAIN and bool(np.all(np.isfinite(g) & (g != 0)))


def _has_zeros_of(found: Any, g: Any) -> bool:
    """Return `True` if the equation of `found` is a product in which an exact zero of `g` wins."""
    if not isinstance(found, Recorded) or not isinstance(g, Recorded) or g.recorder is not found.recorder:
        return False
    if getattr(g.recorder, "singular", None) is None:  # a batch, for example, keeps no equations
        return False
    maker: Any = found.recorder.records[found.slot]
    return maker is not None and maker.primitive in (PRODUCT, QUOTIENT) and maker.inputs[0] == g.slot


def _times(g: Any, derivative: Any) -> Any:
    """Return the product of `g` with one derivative or a tuple of derivatives, where an exact zero wins."""
    return tuple([product(g, d) for d in derivative]) if type(derivative) is tuple else product(g, derivative)


MOST_ROWS = 1_000
"""Maximal number of rows of a Jacobian that the careful pass computes for one record."""


def of_linear(f: Callable[[Any], Any], g: Any) -> Any:
    """Return `f(g)` for an opaque linear function, where an exact zero wins.

    A `g` that is zero everywhere gives zero. Each infinite or NaN element of `g` is multiplied by its row of the Jacobian.
    """
    if shape_of(g) == () and dtype_of(g).kind == "f":
        return _times(g, f(np.ones((), dtype_of(g))[()]))
    ct = f(g)
    if type(g) is not np.ndarray or type(ct) is not np.ndarray or not np.any(ct != ct):
        return ct
    if not np.any(g):
        return np.zeros_like(ct)
    infinite = np.argwhere(~np.isfinite(g))
    if not 0 < len(infinite) <= MOST_ROWS:
        return ct
    total = f(np.where(np.isfinite(g), g, g.dtype.type(0)))
    for place in map(tuple, infinite):
        row = np.zeros_like(g)
        row[place] = 1
        total = total + product(g[place], f(row))
    return total


def _contracted(rule: Callable[..., Any], g: Any, args: tuple[Any, ...], position: int) -> Any:
    """Return the contraction `rule(g, *args)`, where an exact zero wins in each term."""
    places, operands = _operands(args, position)

    def contraction(g: Any, *arrays: Any) -> Any:
        return rule(g, *_with_operands(args, places, arrays))

    arrays = (g, *operands)
    if all(type(a) in PLAIN for a in arrays):
        return without_zero_terms(contraction, arrays)
    recorded: Any = import_module("functad.transforms.leaves").recorded  # late: few careful passes meet Tensors
    return recorded(contraction, arrays)


def _operands(args: tuple[Any, ...], position: int) -> tuple[list[Any], list[Any]]:
    """Return the places of the arrays among the arguments of a rule, and the arrays.

    A tuple holds all array arguments of the call; the rule does not depend on the array at `position`.
    """
    places: list[Any] = []
    found: list[Any] = []
    for i, arg in enumerate(args):
        for j, value in enumerate(arg) if type(arg) is tuple else [(None, arg)]:
            if (
                j != position
                and hasattr(type(value), "dtype")
                and hasattr(type(value), "ndim")
                and dtype_of(value).kind in "iufc"
            ):
                places.append((i, j))
                found.append(value)
    return places, found


def _with_operands(args: tuple[Any, ...], places: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Return the arguments of a rule with `arrays` at `places`."""
    result = list(args)
    for (i, j), value in zip(places, arrays, strict=True):
        if j is None:
            result[i] = value
        else:
            result[i] = (*result[i][:j], value, *result[i][j + 1 :])
    return result


def without_zero_terms(contraction: Contraction, arrays: Sequence[Any]) -> Any:
    """Return a contraction of plain arrays without the terms that have an exactly zero factor.

    The contraction of the finite elements is correct where every term with an infinite or NaN factor also has a zero factor.
    Contractions of signs count the other terms with an infinite or NaN factor: `met` counts all, and `signed` counts the
    positive minus the negative terms.
    """
    out = contraction(*arrays)
    if not np.any(unknown := out != out):
        return out
    finite = [np.isfinite(a) for a in arrays]
    whole = [np.where(f, a, a.dtype.type(0)) for a, f in zip(map(np.asarray, arrays), finite, strict=True)]
    signs = [_sign(np.asarray(a)) for a in arrays]
    met: Any = 0
    signed: Any = 0
    undefined: Any = 0
    for i, (a, f) in enumerate(zip(arrays, finite, strict=True)):
        if np.all(f):
            continue
        own = np.where(f, 0, signs[i])
        rest = [s * k for s, k in zip(signs[i + 1 :], finite[i + 1 :], strict=True)]
        sizes = [np.abs(s) for s in (*signs[:i], own, *rest)]
        met = met + contraction(*sizes)
        undefined = undefined + contraction(*[*sizes[:i], sizes[i] * (a != a), *sizes[i + 1 :]])
        signed = signed + contraction(*signs[:i], own, *rest)
    with np.errstate(all="ignore"):
        if out.dtype.kind == "c":
            infinite: Any = out
        else:
            infinite = np.where((undefined == 0) & (np.abs(signed) == met), np.sign(signed) * np.inf, np.nan)
        finite_terms = contraction(*whole)
        result = np.where(unknown, np.where(met == 0, finite_terms, infinite), out).astype(out.dtype, copy=False)
    return result if type(out) is np.ndarray else result[()]


def _sign(a: Any) -> Any:
    """Return the signs of the elements in their dtype: 1 for NaN and for nonzero complex elements."""
    if a.dtype.kind == "c":
        return (a != 0).astype(a.dtype)
    return np.where(a != a, 1, np.sign(a)).astype(a.dtype, copy=False)
