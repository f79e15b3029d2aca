"""Equal eigenvalues and singular values: their detection, and the derivatives that exist in spite of them.

The vectors of a k-fold eigenvalue are an arbitrary basis of a space of dimension k, here called a *block*. The derivative of
the vectors contains `1 / (w_i - w_j)`. Within a block this term is dropped, which is right for functions of the whole block
such as a projection. The rules detect functions without a derivative, and functions with derivatives that do not follow from
the cotangents of eigenvalues and vectors:

- A function that depends on single eigenvalues of a block has no derivative. Their cotangents are not equal.
- A function of single vectors of a block has no derivative. The antihermitian part of `v^T g_v` is not zero there. (It is
  zero if the function is stationary at these vectors; then it cannot be distinguished from a function of the block.)
- A function of eigenvalues and vectors together, like `v diag(f(w)) v^T`, and every second derivative contain divided
  differences `(f_i - f_j) / (w_i - w_j)`. Where both differences are zero the limit is `f'`, which no cotangent contains.

Reverse mode raises `DegenerateError` in all cases. In forward mode the tangents of the vectors of a block have no components
along the block. The tangent of a function of values and vectors together is then right only in directions that do not mix the
vectors of a block. Whether the results depend on such tangents, or on tangents of separating eigenvalues, is known only after
the forward pass. `functad.transforms.forward` then calls the VJP rule for each array of the result separately, and
raises where reverse mode would. The exception is a function of values and vectors together in a direction that does not mix.
The check costs one backward pass, and runs only if there are equal values; the expression list of a forward derivative always
runs it.

First derivatives of symmetric functions of the eigenvalues alone (`eigvalsh`, `svdvals`) are right. Their second derivatives
are right in forward-over-reverse and forward-over-forward mode. The rules use a basis adapted to the direction: the
perturbation is diagonal within each block, so no term is lost. Reverse over reverse has no direction, and raises. Reverse over
forward has a direction only in the inner pass, and raises if that direction requires another basis.

Sums and extremes of singular values (norms, condition numbers) have rules of their own. Their second derivatives are right in
every mode.

Values count as equal if they differ by at most `16 n eps` times the largest, the error of LAPACK with a margin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.errors import DegenerateError
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.places import here
from functad.primitives.batching import stacked
from functad.primitives.entry import Branches, Primitive, Rule, positional_names
from functad.primitives.kinds import constant, general
from functad.primitives.linalg.solve import internal
from functad.primitives.operands import is_traced

_BOOL = np.dtype(np.bool_)
_ROUNDINGS = 16  # times n eps: the distance of equal eigenvalues as LAPACK computes them, with a margin


@internal(
    constant,
    spec=lambda w: ArraySpec((*spec_of(w).shape, spec_of(w).shape[-1]), _BOOL),
    samples=lambda array: [((array(3),), {}), ((array(2, 2),), {}), ((array(0),), {})],
    doc="the result is boolean",
    decomposition=True,
)
def tied(w: Any) -> Any:
    """Return a mask of the pairs of eigenvalues that are equal within rounding: shape `(..., n, n)`, true on the diagonal."""
    n = w.shape[-1]
    size = np.abs(w).max(-1, initial=0)[..., None, None]
    return np.abs(w[..., :, None] - w[..., None, :]) <= _ROUNDINGS * n * np.finfo(w.dtype).eps * size


def gaps(w: Any, same: Any) -> Any:
    """Return `1 / (w_j - w_i)`, and 0 where `same` is true."""
    return ~same / (w[..., None, :] - w[..., :, None] + same)


@internal(constant, samples=lambda array: [((array(3),), {})], doc="the value; the derivative is cut")
def frozen(a: Any) -> Any:
    """Return `a` as a constant."""
    return a


@internal(
    constant,
    spec=lambda s: ArraySpec(spec_of(s).shape, _BOOL),
    samples=lambda array: [((array(3).real,), {}), ((array(2, 2).real,), {})],
    doc="the result is boolean",
    decomposition=True,
)
def zero(s: Any) -> Any:
    """Return a mask of the singular values that are zero within rounding."""
    return s <= _ROUNDINGS * s.shape[-1] * np.finfo(s.dtype).eps * s.max(-1, keepdims=True, initial=0)


# Detection of derivatives that do not exist or cannot be found


def _negligible(part: Any, whole: Any) -> Any:
    """Return a boolean: `True` if `part` is zero within rounding, relative to `whole`."""
    eps = float(np.finfo(whole.dtype).eps)
    size = np.abs(whole).max((-2, -1), keepdims=True, initial=0)
    return (np.abs(part) <= eps ** (2 / 3) * size + 64 * eps).all()


def others(same: Any) -> Any:
    """Return a mask of the pairs of equal values, without the diagonal."""
    return same & ~np.eye(shape_of(same)[-1], dtype=bool)


def are_tied(same: Any) -> bool:
    """Return `True` if `same` is true outside the diagonal."""
    return bool(np.count_nonzero(same) * same.shape[-1] > same.size)


def mixes(x: Any, places: Any, whole: Any) -> bool:
    """Return `True` if `x`, a direction in the basis of the vectors, has nonzero elements at `places`, which tangents drop."""
    return not _negligible(np.where(places, x, 0), whole)


def parts(x: Any, same: Any) -> bool:
    """Return `True` if equal values separate in direction `x`, given in the basis of the vectors."""
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


def _identity(
    samples: Any, vjp: Rule = lambda g: g, jvp: Rule = lambda t: t, raises_if: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Primitive]:
    """Return a decorator for functions that return their first argument, or raise if `raises_if` of all arguments is true."""

    def enter(function: Callable[..., Any]) -> Primitive:
        rest = (None,) * (len(positional_names(function)) - 1)
        return internal(
            general,
            vjp,
            *rest,
            jvps=(jvp, *rest),
            spec=lambda first, *rest: spec_of(first),
            samples=samples,
            doc="the identity of the first argument",
            exact=True,
            decomposition=Branches(raises_if, None, lambda first, *rest: first) if raises_if else None,
        )(function)

    return enter


def _differences(of_w: Any, same: Any) -> Any:
    return np.where(same, of_w[..., :, None] - of_w[..., None, :], 0)


def _differ(of_w: Any, same: Any) -> Any:
    return others(same).any() & ~_negligible(_differences(of_w, same), of_w[..., None])


@_identity(lambda array: [((array(3), np.eye(3, dtype=bool)), {})], raises_if=_differ)
def alike(of_w: Any, same: Any) -> Any:
    """Return the cotangents of eigenvalues; raise if they differ for equal eigenvalues."""
    if are_tied(same) and _differ(of_w, same):
        _raise(_SOLE)
    return of_w


def _turns(k: Any, m: Any, same: Any) -> Any:
    return others(same).any() & ~_negligible(np.where(others(same), k, 0), m)


@internal(
    general,
    lambda g, same: g * ~same,
    None,
    None,
    jvps=(lambda t, same: t * ~same, None, None),
    spec=lambda k, m, same: spec_of(k),
    samples=lambda array: [((array(3, 3), array(3, 3), np.eye(3, dtype=bool)), {})],
    doc="linear in k",
    decomposition=Branches(_turns, None, lambda k, m, same: np.where(same, 0, k)),
)
def turning(k: Any, m: Any, same: Any) -> Any:
    """Return `k` with zeros within blocks; raise if an element there is not negligible relative to `m`."""
    if are_tied(same) and _turns(k, m, same):
        _raise(_SINGLE)
    return np.where(same, 0, k)


def _joins(of_w: Any, m: Any, same: Any, null: Any) -> Any:
    beyond = np.any(null) & ~_negligible(np.where(null, of_w, 0)[..., None], of_w[..., None])
    size = np.abs(m).max((-2, -1), keepdims=True, initial=0)
    alike = np.abs(_differences(np.diagonal(m, 0, -2, -1).real, same)) <= 1e-6 * size
    mixed = np.where(alike.all((-2, -1), keepdims=True), np.where(others(same), m, 0), 0)
    return beyond | (_differ(of_w, same) | (others(same).any() & ~_negligible(mixed, m)))


@_identity(
    lambda array: [((array(3), array(3, 3), np.eye(3, dtype=bool), np.zeros(3, bool)), {})],
    raises_if=_joins,
)
def unjoined(of_w: Any, m: Any, same: Any, null: Any) -> Any:
    """Return the cotangents of eigenvalues; raise if, with `m = v^T g_v`, the derivative cannot be found from them.

    The derivative can be found for functions that depend on the values of a block symmetrically, and not on their vectors.
    Cotangents of zero singular values (`null`) must be zero: their vectors are not separate from the null space.
    """
    if (np.any(null) or are_tied(same)) and _joins(of_w, m, same, null):
        _raise(_JOINT)
    return of_w


def _loses(g: Any, x: Any, lost: Any) -> Any:
    return lost.any() & ~_negligible(np.where(lost, x, 0), x)


@_identity(lambda array: [((array(2, 3), array(3, 3), np.zeros((3, 3), bool)), {})], raises_if=_loses)
def guarded(g: Any, x: Any, lost: Any) -> Any:
    """Return `g`; raise if `x` is not zero at the places `lost`, which a second derivative would miss."""
    if lost.any() and _loses(g, x, lost):
        _raise(_SECOND)
    return g


def fixed(v: Any, x: Any, same: Any, *, rows: bool = False) -> Any:
    """Return vectors for a rule; differentiating them raises where rotations within a block matter.

    Args:
        v: the vectors.
        x: the matrix in the basis of the vectors, `v^-1 a v`. The vectors in it are constants; only `a` has a tangent.
        same: the mask of pairs of equal eigenvalues.
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
    exact=True,
    batch=stacked,
)


# The basis adapted to a direction


def _identities(x: Any, same: Any) -> Any:
    return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)


def _of_blocks(x: Any, same: Any) -> Any:
    blocks = np.where(same, x + np.conjugate(x.mT), 0) / 2
    number = np.cumsum(np.insert(~np.diagonal(same, 1, -2, -1), 0, False, axis=-1), axis=-1)
    apart = 4 * np.abs(blocks).sum((-2, -1), keepdims=True) * np.eye(x.shape[-1], dtype=x.dtype)
    return np.linalg.eigh(blocks + apart * number[..., None, :].astype(x.dtype)).eigenvectors


@internal(
    constant,
    spec=lambda x, same: spec_of(x),
    samples=lambda array: [((array(3, 3), np.eye(3, dtype=bool)), {})],
    doc="a constant: that of the direction counts",
    decomposition=Branches(lambda x, same: others(same).any(), _of_blocks, _identities),
)
def aligned(x: Any, same: Any) -> Any:
    """Return the unitary matrix that makes the blocks of a Hermitian `x` diagonal, in ascending order, as a constant.

    For `x = v^H t v` and ascending eigenvalues, `v @ aligned(x, same)` is the limit of the vectors of `a + h t` as h > 0
    tends to 0.
    """
    return _of_blocks(x, same) if are_tied(same) else _identities(x, same)


@internal(
    constant,
    spec=lambda x, turn, same: spec_of(same),
    samples=lambda array: [((array(3, 3), np.eye(3), np.eye(3, dtype=bool)), {})],
    doc="the result is boolean",
    decomposition=True,
)
def misfit(x: Any, turn: Any, same: Any) -> Any:
    """Return a mask of the pairs of equal values at which `x` differs from the diagonal matrix of `diag(turn^H x turn)`."""
    values = np.diagonal(np.conjugate(turn.mT) @ x @ turn, 0, -2, -1)
    size = np.abs(x).max((-2, -1), keepdims=True, initial=0)
    change = x - values[..., None] * np.eye(x.shape[-1])
    return same & (np.abs(change) > float(np.finfo(x.dtype).eps) ** (2 / 3) * size)


@_identity(lambda array: [((array(3, 3), np.zeros((3, 3), bool)), {})], vjp=lambda g, misfit: guarded(g, 1.0 * misfit, misfit))
def forwards(v: Any, misfit: Any) -> Any:
    """Return the vectors `v`, rotated to the basis of a direction; a backward pass through them raises if `misfit` is true.

    The cotangents would also reach the eigenvalues, and there they belong to the vectors before the rotation.
    """
    return v


# Zero singular values


def _unless_bent(g: Any, bent: Any) -> Any:
    return guarded(g, 1.0 * bent[..., None], bent[..., None])  # for every g: the cotangent of `s ** 2` is also zero at zero


@_identity(lambda array: [((array(3), np.zeros(3, bool)), {})], _unless_bent, _unless_bent)
def straight(values: Any, bent: Any) -> Any:
    """Return tangents of singular values; differentiating them raises where `bent` is true.

    There a value is zero and the direction leaves the space of its vectors: the second derivative has a term `1 / s`.
    """
    return values
