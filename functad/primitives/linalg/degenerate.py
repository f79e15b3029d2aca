"""Equal eigenvalues and singular values: which there are, and the derivatives that exist in spite of them.

The vectors of an eigenvalue that occurs k times are any basis of a space of dimension k. The derivative of the vectors
contains `1 / (w_i - w_j)`, which is dropped within such a *block*: right if the block enters as a whole, as in a projection.
What has no derivative, or none that can be known from the cotangents of eigenvalues and vectors, is looked for:

- a function that does not treat the eigenvalues of a block alike has none: their cotangents are not equal;
- a function of single vectors of a block has none: the antihermitian part of `v^T g_v` is not zero there, unless the function
  happens to be stationary at these vectors, which nothing tells from a function of the block;
- a function that joins eigenvalues and vectors, like `v diag(f(w)) v^T`, and every second derivative, contain divided
  differences `(f_i - f_j) / (w_i - w_j)`. Where both differences are zero the limit is `f'`, of which no cotangent tells.

Reverse mode raises `DegenerateError` in all cases. In forward mode the vectors of a block do not turn into each other, and the
tangent of a function that joins values and vectors is right only in directions that do not mix the vectors of a block. What is
made of the tangents, also of those of eigenvalues that part, is not known until the walk has passed:
`functad.transforms.walks.degenerate` then asks the VJP rule, for each array of the result by itself, and so raises where
reverse mode would, but for functions that join in a direction that does not mix.
It costs a walk, and only where there are equal values; but the expression list of a forward derivative always asks.

First derivatives of functions of the eigenvalues alone (`eigvalsh`, `svdvals`) that treat equal ones alike are right. Their
second derivatives are, too, forward over reverse or forward over forward: they are taken in a basis that fits the direction,
in which the matrix of the perturbation is diagonal within the block, so that nothing is lost. Reverse over reverse knows no
direction, and raises; reverse over forward knows one only in the inner walk, and raises if it asks for another basis.

Sums and extremes of singular values (norms, condition numbers) have rules of their own, and lose nothing in second order in any
mode.

Values are equal if they differ by what LAPACK makes of equal ones: 16 n roundings of the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.errors import DegenerateError
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.places import here
from functad.primitives.batching import stacked
from functad.primitives.entry import Primitive, Rule
from functad.primitives.kinds import array_names, constant, general
from functad.primitives.linalg.solve import internal
from functad.primitives.operands import is_traced

_BOOL = np.dtype(np.bool_)
_ROUNDINGS = 16  # times n eps: how far apart LAPACK computes eigenvalues that are equal, and a reserve


@internal(
    constant,
    spec=lambda w: ArraySpec((*spec_of(w).shape, spec_of(w).shape[-1]), _BOOL),
    samples=lambda array: [((array(3),), {}), ((array(2, 2),), {}), ((array(0),), {})],
    doc="the result is boolean",
)
def tied(w: Any) -> Any:
    """Return which pairs of eigenvalues are equal, but for rounding: booleans of shape `(..., n, n)`, true on the diagonal."""
    n = w.shape[-1]
    size = np.abs(w).max(-1, initial=0)[..., None, None]
    return np.abs(w[..., :, None] - w[..., None, :]) <= _ROUNDINGS * n * np.finfo(w.dtype).eps * size


def gaps(w: Any, same: Any) -> Any:
    """Return `1 / (w_j - w_i)`, and 0 where they are the same."""
    return ~same / (w[..., None, :] - w[..., :, None] + same)


@internal(constant, samples=lambda array: [((array(3),), {})], doc="the value; the derivative is cut")
def held(a: Any) -> Any:
    """Return a value as a constant."""
    return a


@internal(
    constant,
    spec=lambda s: ArraySpec(spec_of(s).shape, _BOOL),
    samples=lambda array: [((array(3).real,), {}), ((array(2, 2).real,), {})],
    doc="the result is boolean",
)
def zero(s: Any) -> Any:
    """Return which singular values are zero, but for rounding."""
    return s <= _ROUNDINGS * s.shape[-1] * np.finfo(s.dtype).eps * s.max(-1, keepdims=True, initial=0)


# What cannot be known


def _negligible(part: Any, whole: Any) -> bool:
    """Say whether a part of a matrix is nothing but rounding."""
    eps = float(np.finfo(whole.dtype).eps)
    size = np.abs(whole).max((-2, -1), keepdims=True, initial=0)
    return bool((np.abs(part) <= eps ** (2 / 3) * size + 64 * eps).all())


def others(same: Any) -> Any:
    """Return which pairs are of different members of a block."""
    return same & ~np.eye(shape_of(same)[-1], dtype=bool)


def are_tied(same: Any) -> bool:
    """Say whether there are equal values: other pairs than those of each value with itself."""
    return bool(np.count_nonzero(same) * same.shape[-1] > same.size)


def mixes(x: Any, places: Any, whole: Any) -> bool:
    """Say whether a direction, in the basis of the vectors, has elements at places of which a tangent tells nothing."""
    return not _negligible(np.where(places, x, 0), whole)


def parts(x: Any, same: Any) -> bool:
    """Say whether equal values part in the direction `x`, in the basis of the vectors: it is no multiple of one there."""
    values = np.diagonal(x, 0, -2, -1)
    across = np.where(others(same), x, 0) + np.where(same, values[..., :, None] - values[..., None, :], 0)
    return not _negligible(across, x)


def _raise(what: str) -> None:
    raise DegenerateError(
        f"Two eigenvalues or singular values are equal, and {what}, at {here()}. "
        f"Use functions of the eigenvalues alone (np.linalg.eigvalsh, svdvals; second derivatives forward over reverse, "
        f"functad.jvp(functad.grad(f), ...)), or of the matrix itself (inv, pinv, slogdet, matrix_power, norm(a, 'nuc')), or "
        f"tell the eigenvalues apart by adding a small diagonal matrix with different elements."
    )


_SINGLE = "the derivative of a single vector of several that belong to one value does not exist"
_SOLE = "the derivative of a single one of them does not exist"
_JOINT = "the derivative of a function of values and vectors together cannot be found from theirs"
_SECOND = "the second derivative cannot be found from eigenvalues and vectors"


def _identity(samples: Any, vjp: Rule = lambda g: g, jvp: Rule = lambda t: t) -> Callable[[Callable[..., Any]], Primitive]:
    """Return a decorator for functions that return their first argument, if nothing is lost; the others only tell that."""

    def enter(function: Callable[..., Any]) -> Primitive:
        rest = (None,) * (len(array_names(function)) - 1)
        return internal(
            general,
            vjp,
            *rest,
            jvps=(jvp, *rest),
            spec=lambda first, *rest: spec_of(first),
            samples=samples,
            doc="the identity of the first argument",
        )(function)

    return enter


@_identity(lambda array: [((array(3), np.eye(3, dtype=bool)), {})])
def alike(of_w: Any, same: Any) -> Any:
    """Return cotangents of eigenvalues, if those of equal ones are equal: single ones of several have no derivative."""
    if are_tied(same):
        difference = np.where(same, of_w[..., :, None] - of_w[..., None, :], 0)
        if not _negligible(difference, of_w[..., None]):
            _raise(_SOLE)
    return of_w


@internal(
    general,
    lambda g, same: g * ~same,
    None,
    None,
    jvps=(lambda t, same: t * ~same, None, None),
    spec=lambda k, m, same: spec_of(k),
    samples=lambda array: [((array(3, 3), array(3, 3), np.eye(3, dtype=bool)), {})],
    doc="linear in k",
)
def turning(k: Any, m: Any, same: Any) -> Any:
    """Return `k` without the elements within blocks, where it must be zero beside `m`."""
    if are_tied(same) and not _negligible(np.where(others(same), k, 0), m):
        _raise(_SINGLE)
    return np.where(same, 0, k)


@_identity(lambda array: [((array(3), array(3, 3), np.eye(3, dtype=bool), np.zeros(3, bool)), {})])
def unjoined(of_w: Any, m: Any, same: Any, null: Any) -> Any:
    """Return cotangents of eigenvalues, if with `m = v^T g_v` they can be those of a function of which nothing is lost.

    Those are functions that treat the values of a block alike, without regard to their vectors. Of singular values that are
    zero, marked by `null`, none may enter: their vectors are determined together with the space beyond them.
    """
    if np.any(null) and not _negligible(np.where(null, of_w, 0)[..., None], of_w[..., None]):
        _raise(_JOINT)
    if not are_tied(same):
        return of_w
    difference = np.where(same, of_w[..., :, None] - of_w[..., None, :], 0)
    diagonal = np.diagonal(m, 0, -2, -1).real
    size = np.abs(m).max((-2, -1), keepdims=True, initial=0)
    alike = np.abs(np.where(same, diagonal[..., :, None] - diagonal[..., None, :], 0)) <= 1e-6 * size
    mixed = np.where(alike.all((-2, -1), keepdims=True), np.where(others(same), m, 0), 0)
    if not _negligible(difference, of_w[..., None]) or not _negligible(mixed, m):
        _raise(_JOINT)
    return of_w


@_identity(lambda array: [((array(2, 3), array(3, 3), np.zeros((3, 3), bool)), {})])
def guarded(g: Any, x: Any, lost: Any) -> Any:
    """Return `g`, if `x` is zero at the places `lost`: what is there would be missing in a second derivative."""
    if lost.any() and not _negligible(np.where(lost, x, 0), x):
        _raise(_SECOND)
    return g


def fixed(v: Any, x: Any, same: Any, *, rows: bool = False) -> Any:
    """Return vectors for a rule: they may not be differentiated where the turning within a block matters.

    Args:
        v: the vectors.
        x: the matrix in the basis of the vectors, `v^-1 a v` with constant vectors, so that its tangent is that of `a` there.
        same: which pairs of eigenvalues are equal.
        rows: the vectors are the rows.
    """
    return FIXED(v, x, same, rows=rows) if is_traced(x) or is_traced(v) else v


def _fixed_vjp(g: Any, v: Any, x: Any, same: Any, rows: bool) -> tuple[Any, Any, None]:
    return guarded(g, g @ v.mT if rows else v.mT @ g, others(same)), np.zeros_like(x), None


FIXED = general(
    fixed,
    _fixed_vjp,
    jvps=(lambda t: t, lambda t, v, same: guarded(np.zeros_like(v), t, others(same)), None),
    joint=True,
    compute=lambda v, x, same, *, rows: v,
    samples=lambda array: [((array(3, 3), array(3, 3), np.eye(3, dtype=bool)), {"rows": rows}) for rows in (False, True)],
    internal=True,
    doc="the identity of v",
    batch=stacked,
)


# The basis that fits a direction


@internal(
    constant,
    spec=lambda x, same: spec_of(x),
    samples=lambda array: [((array(3, 3), np.eye(3, dtype=bool)), {})],
    doc="a constant: that of the direction counts",
)
def aligned(x: Any, same: Any) -> Any:
    """Return the unitary matrix that makes the blocks of a Hermitian `x` diagonal, in ascending order, as a constant.

    Applied to the vectors of ascending eigenvalues it gives the basis that `a + h t` has for a small h > 0; x is `v^H t v`.
    """
    n = x.shape[-1]
    if not are_tied(same):
        return np.broadcast_to(np.eye(n, dtype=x.dtype), x.shape)
    blocks = np.where(same, x + np.conjugate(x.mT), 0) / 2
    number = np.cumsum(np.insert(~np.diagonal(same, 1, -2, -1), 0, False, axis=-1), axis=-1)
    apart = 4 * np.abs(blocks).sum((-2, -1), keepdims=True) * np.eye(n, dtype=x.dtype)
    return np.linalg.eigh(blocks + apart * number[..., None, :].astype(x.dtype)).eigenvectors


@internal(
    constant,
    spec=lambda x, turn, same: spec_of(same),
    samples=lambda array: [((array(3, 3), np.eye(3), np.eye(3, dtype=bool)), {})],
    doc="the result is boolean",
)
def misfit(x: Any, turn: Any, same: Any) -> Any:
    """Return where a direction has other elements between equal values than the turn gives it, in its order."""
    values = np.diagonal(np.conjugate(turn.mT) @ x @ turn, 0, -2, -1)
    size = np.abs(x).max((-2, -1), keepdims=True, initial=0)
    change = x - values[..., None] * np.eye(x.shape[-1])
    return same & (np.abs(change) > float(np.finfo(x.dtype).eps) ** (2 / 3) * size)


@_identity(lambda array: [((array(3, 3), np.zeros((3, 3), bool)), {})], vjp=lambda g, misfit: guarded(g, 1.0 * misfit, misfit))
def forwards(v: Any, misfit: Any) -> Any:
    """Return the vectors `v`, turned to fit a direction: they may not be pulled back through, if the turn matters (`misfit`).

    What is pulled back reaches the eigenvalues too, whose cotangents then are those of the vectors before the turn.
    """
    return v


# Values that are zero


def _unless_bent(g: Any, bent: Any) -> Any:
    return guarded(g, 1.0 * bent[..., None], bent[..., None])  # whatever g is: that of `s ** 2` is zero at zero, too


@_identity(lambda array: [((array(3), np.zeros(3, bool)), {})], _unless_bent, _unless_bent)
def straight(values: Any, bent: Any) -> Any:
    """Return tangents of singular values: they may not be differentiated again where `bent` says that a value is zero and
    the direction leads out of its vectors, for the second derivative has a term `1 / s`.
    """
    return values
