"""Functions of matrices by the block Schur-Parlett method, also where eigenvalues are equal or nearly so.

The method is the algorithm of P. Davies and N. Higham, "A Schur-Parlett algorithm for computing matrix functions" (2003). A
unitary similarity makes the matrix triangular, with nearly equal eigenvalues in one block. A Taylor series gives the function
of each diagonal block. Sylvester equations give the blocks above the diagonal. The Frechet derivative is a block of
`f([[a, e], [0, a]])`, whose eigenvalues are the same, so that the Taylor series are the same too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.batching import on_last_axes
from functad.primitives.kinds import constant, general
from functad.primitives.linalg.solve import internal, regular

_TERMS = 20
"""The number of Taylor terms that bounds the radius of a block: inside the radius, the last terms are below rounding."""

_LEAST_GAP = 1e-6
"""The least distance of eigenvalues in different blocks, relative to the largest eigenvalue: errors grow with the inverse."""

_EPS = float(np.finfo(np.float64).eps)


def terms_for(n: int) -> int:
    """Return the number of Taylor coefficients for matrices with n rows; nilpotent parts need more of them."""
    return _TERMS + 2 * n


@internal(
    constant,
    spec=lambda a: ArraySpec(spec_of(a).shape[:-1], np.result_type(spec_of(a).dtype, np.complex64)),
    samples=lambda array: [((regular(array, 3, 3),), {}), ((regular(array, 2, 2, 2),), {})],
    doc="points of expansion have no derivative: the function does not depend on them",
)
def centres(a: Any) -> Any:
    """Return the points of expansion: the eigenvalues of matrices."""
    return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))


def _radius(series: Any, size: float) -> float:
    """Return the distance from the point of expansion at which the last of the first Taylor terms are below rounding."""
    if not np.isfinite(series).all():
        return 0.0
    sizes, radius = np.abs(series[:_TERMS]), 0.5 * size
    powers = np.arange(len(sizes))
    while radius > _EPS * size:
        terms = sizes * radius**powers
        if terms[-3:].max() <= _EPS * terms.max():
            return radius
        radius /= 2
    return radius


def _grouped(values: Any, series: Any) -> Any:
    """Return for each eigenvalue the index of the eigenvalue at whose Taylor series it is evaluated.

    Raises:
        LinAlgError: two eigenvalues are nearly equal, and the Taylor series at one does not converge at the other.
    """
    size = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    groups = np.full(len(values), -1, np.int64)
    for i in range(len(values)):
        if groups[i] < 0:
            distances, radius = np.abs(values - values[i]), _radius(series[i], size)
            groups[(distances <= radius) & (groups < 0)] = i
            close = distances[(distances > radius) & (distances < _LEAST_GAP * size)]
            if close.size:
                raise np.linalg.LinAlgError(
                    f"scipy.linalg.funm of a Tensor: eigenvalues near {values[i]:.6g} differ by {close.min():.1e}, and "
                    f"func has a singularity at about this distance. Use sqrtm, logm, signm or fractional_matrix_power for "
                    f"these functions, or move the matrix away from the singularity."
                )
    return groups


def _groups_compute(values: Any, series: Any) -> Any:
    out = np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape[:-1]):
        out[place] = _grouped(values[place], series[place])
    return out


groups_of = internal(
    constant,
    spec=lambda values, series: ArraySpec(spec_of(values).shape, np.dtype(np.int64)),
    samples=lambda array: [((array(3), array(3, _TERMS)), {})],
    doc="a grouping has no derivative",
    name="groups_of_eigenvalues",
)(_groups_compute)


def _triangular(a: Any, values: Any, groups: Any) -> tuple[Any, Any, list[tuple[int, int, int]]]:
    """Return a triangular form of a matrix and its vectors, with blocks `(start, stop, centre)` of grouped eigenvalues."""
    t, q = scipy.linalg.schur(a, "complex")
    labels = [int(groups[np.argmin(np.abs(values - value))]) for value in np.diag(t)]
    blocks, start = [], 0
    for centre in dict.fromkeys(labels):
        stop = start
        for place in range(start, len(labels)):
            if labels[place] == centre:
                if place > stop:
                    t, q, _ = scipy.linalg.lapack.ztrexc(t, q, place + 1, stop + 1)
                    labels.insert(stop, labels.pop(place))
                stop += 1
        blocks.append((start, stop, centre))
        start = stop
    return np.triu(t), q, blocks


def _of_block(t: Any, value: complex, series: Any) -> Any:
    """Return the Taylor series about `value` of a triangular block."""
    nilpotent = t - value * np.eye(len(t))
    total, power = series[0] * np.eye(len(t)), np.eye(len(t), dtype=complex)
    for coefficient in series[1:]:
        power = power @ nilpotent
        total = total + coefficient * power
    return total


def _function(a: Any, values: Any, groups: Any, series: Any) -> Any:
    """Return the function of one matrix."""
    t, q, blocks = _triangular(a, values, groups)
    f = np.zeros_like(t)
    for j, (start, stop, centre) in enumerate(blocks):
        f[start:stop, start:stop] = _of_block(t[start:stop, start:stop], values[centre], series[centre])
        for top, bottom, _ in reversed(blocks[:j]):
            # Row block i of `f t = t f` is a Sylvester equation for the block f_ij.
            rows, columns, between = slice(top, bottom), slice(start, stop), slice(bottom, start)
            right = f[rows, rows] @ t[rows, columns] - t[rows, columns] @ f[columns, columns]
            right = right + f[rows, between] @ t[between, columns] - t[rows, between] @ f[between, columns]
            x, scale, _ = scipy.linalg.lapack.ztrsyl(t[rows, rows], t[columns, columns], right, isgn=-1)
            f[rows, columns] = x / scale
    return q @ f @ q.conj().T


def _compute(a: Any, values: Any, groups: Any, series: Any) -> Any:
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], values.shape[:-1], groups.shape[:-1], series.shape[:-2])
    a, values, groups, series = (
        np.broadcast_to(x, (*batch, *x.shape[x.ndim - k :])) for x, k in ((a, 2), (values, 1), (groups, 1), (series, 2))
    )
    out = np.empty((*batch, n, n), complex)
    for place in np.ndindex(batch):
        out[place] = _function(*[x[place].astype(kind) for x, kind in zip((a, values, groups, series), "DDlD", strict=True)])
    return out.astype(_dtype(a, series))


def _dtype(a: Any, series: Any) -> Any:
    return np.result_type(dtype_of(a), dtype_of(series), np.complex64)


def _spec(a: Any, values: Any, groups: Any, series: Any) -> ArraySpec:
    shapes = (shape_of(a)[:-2], shape_of(values)[:-1], shape_of(groups)[:-1], shape_of(series)[:-2])
    return ArraySpec((*np.broadcast_shapes(*shapes), *shape_of(a)[-2:]), _dtype(a, series))


def _frechet(a: Any, e: Any, values: Any, groups: Any, series: Any) -> Any:
    """Return the block above the diagonal of `f([[a, e], [0, a]])` (N. Higham, "Functions of Matrices", 2008, (3.16))."""
    shape = np.broadcast_shapes(shape_of(a), shape_of(e))
    a, e = np.broadcast_to(a, shape), np.broadcast_to(e, shape)
    below = np.concatenate((np.zeros(shape, dtype_of(a)), a), -1)
    whole = np.concatenate((np.concatenate((a, e), -1), below), -2)
    n = shape[-1]
    return SCHUR_PARLETT(whole, values, groups, series)[..., :n, n:]


def _series_vjp(g: Any, a: Any, values: Any, groups: Any, series: Any) -> Any:
    """`sum(g m_jk)` for coefficient jk. `m_jk` is the matrix function with coefficient jk equal to 1 and all others 0."""
    n, terms = shape_of(series)[-2:]
    batch = len(shape_of(g)) - 2
    ones = np.eye(n * terms).reshape(n * terms, *[1] * batch, n, terms)
    each = SCHUR_PARLETT(a, values, groups, ones)
    return np.moveaxis((g * each).sum((-2, -1)), 0, -1).reshape(*shape_of(g)[:-2], n, terms)


def _samples(array: Any) -> Any:
    """Return calls with integers as points of expansion: the function depends on them where the series stay the same."""

    def call(*batch: int) -> Any:
        kind = np.result_type(array().dtype, np.complex64)
        a = (array(*batch, 2, 2, low=-0.2, high=0.2) + np.diag([2, 3])).astype(kind)
        values = np.broadcast_to(np.array([2, 3]), (*batch, 2))
        return ((a, values, np.broadcast_to(np.arange(2), values.shape), array(*batch, 2, 6).astype(kind)), {})

    return [call(), call(2)]


SCHUR_PARLETT: Any = general(
    _compute,
    lambda g, a, values, groups, series: _frechet(a.mT, g, values, groups, series),
    None,
    None,
    _series_vjp,
    jvps=(
        lambda t, a, values, groups, series: _frechet(a, t, values, groups, series),
        None,
        None,
        lambda t, a, values, groups: SCHUR_PARLETT(a, values, groups, t),
    ),
    name="schur_parlett",
    samples=_samples,
    spec=_spec,
    internal=True,
    broadcasts=True,
    doc="df = f([[a, da], [0, a]]), of which it is the block above the diagonal; linear in the Taylor coefficients",
    batch=on_last_axes(2, 1, 1, 2),
)
