"""The table of peephole rewrites. Each row has the pattern on the left and the replacement on the right.

A row without `changes` keeps results bit for bit, including NaN, infinities and signed zeros. The table has no rewrites that
are valid for some numbers only: `exp(log(x))` is NaN for x < 0, `log(exp(x))` is infinite from 710 on, and `0 * x` is NaN for
infinite x.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from functad.backends.blocks import LARGE
from functad.backends.routines import GRAM, HALVED
from functad.compilation.passes.peephole import Index, Row
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE
from functad.primitives.elementwise.conversion import ASTYPE, COPY
from functad.primitives.linalg.contractions import letters_before
from functad.primitives.linalg.decompositions import CHOLESKY
from functad.primitives.linalg.einsum import terms_of
from functad.primitives.safe import MENDED, PRODUCT, QUOTIENT

_ZERO = "the sign of a zero"
_BESIDE = "the sign of a zero in an array with a NaN"
_ULP = "the last digit"
_SCALED = f"{_ULP}; overflow and underflow within a factor of 2^60 of the range's ends"
_RANGE = 2.0**60

product, quotient, mended = PRODUCT, QUOTIENT, MENDED


def _finite_nonzero(c: Any, **others: Any) -> Any:
    return c != 0 and (type(c) is int or np.isfinite(c))  # `np.isfinite` raises for very large Python integers


def _moderate(**given: Any) -> bool:
    """Return `True` if constants, and their products and quotients, are far from overflow and underflow."""
    return all(1 / _RANGE < abs(c) < _RANGE for name, c in given.items() if name.startswith("c"))


def _power_of_two(c: Any, x: ArraySpec) -> bool:
    """Return `True` if a constant is a power of two, and the dtype of `x` has its reciprocal."""
    if x.dtype.kind != "f" or not _moderate(c=c) or abs(np.frexp(c)[0]) != 0.5:
        return False
    with np.errstate(all="ignore"):  # 2^16 is infinite in half precision
        return bool(float(x.dtype.type(c)) == c and float(x.dtype.type(1 / c)) == 1 / c)


def _has_axes(x: ArraySpec) -> bool:
    return x.ndim > 0


SIGNS = (
    Row(lambda x: np.negative(-x), lambda x: x, kinds="fic"),
    Row(lambda x, y: x - (-y), lambda x, y: x + y, kinds="fic"),
    Row(lambda x, y: x + (-y), lambda x, y: x - y, kinds="fic"),
    Row(lambda x, y: (-x) * (-y), lambda x, y: x * y),
    Row(lambda x, c: (-x) * c, lambda x, c: x * (-c), kinds="f"),
    Row(lambda x, c: -(x * c), lambda x, c: x * (-c), kinds="f"),
    Row(lambda x, c: (-x) / c, lambda x, c: x / (-c), kinds="f"),
    Row(lambda x, c: -(x / c), lambda x, c: x / (-c), kinds="f"),
    Row(lambda x, y: (-x) * y, lambda x, y: -(x * y), once=True),  # readers may absorb the minus
    Row(lambda x, y: product(-x, y), lambda x, y: -product(x, y), changes=_BESIDE, kinds="f", once=True),
    Row(lambda x, y: quotient(-x, y), lambda x, y: -quotient(x, y), changes=_BESIDE, kinds="f", once=True),
    Row(lambda x, y: -(x - y), lambda x, y: y - x, changes=_ZERO),
    Row(lambda x, y, z: -((x - y) * z), lambda x, y, z: (y - x) * z, changes=_ZERO, once=True),
    Row(lambda x: np.sum(-x), lambda x, params: -np.sum(x, **params[-1]), changes=_ZERO, once=True, free=True, kinds="f"),
)

NEUTRAL = (
    Row(lambda x: x * 1, lambda x: x),
    Row(lambda x: product(x, 1.0), lambda x: x),
    Row(lambda x: x / 1, lambda x: x, kinds="f"),
    Row(lambda x: quotient(x, 1.0), lambda x: x, kinds="f"),
    Row(lambda x: x - 0.0, lambda x: x),
    Row(lambda x: x + (-0.0), lambda x: x, kinds="f"),
    Row(lambda x: x + 0, lambda x: x, kinds="iu"),
    Row(lambda x: x + 0.0, lambda x: x, changes=_ZERO, kinds="f"),
    Row(lambda x: product(x, 0.0), lambda x, out: np.zeros(out.shape, out.dtype)[()], changes=_ZERO, kinds="f"),
    Row(lambda x: quotient(0.0, x), lambda x, out: np.zeros(out.shape, out.dtype)[()], changes=_ZERO, kinds="f"),
)

GUARDS = (
    Row(lambda x, c: product(x, c), lambda x, c: x * c, changes=_BESIDE, where=_finite_nonzero),
    Row(lambda x, c: quotient(x, c), lambda x, c: x / c, changes=_BESIDE, where=lambda x, c: c != 0 and c == c, kinds="f"),
    Row(lambda x, y: mended(product(x, y), x), lambda x, y: product(x, y)),
    Row(
        lambda x, y: mended(product(x, y), BROADCAST_TO(x, shape=(2, 3))),
        lambda x, y: product(x, y),
        free=True,
        shapes={"x": (3,)},
    ),
    Row(lambda x, y: mended(-product(x, y), x), lambda x, y: -product(x, y)),
    Row(lambda x, y: mended(quotient(x, y), x), lambda x, y: quotient(x, y)),
    Row(lambda x, y: mended(-quotient(x, y), x), lambda x, y: -quotient(x, y)),
    Row(lambda x, c: mended(x, c), lambda x, c: x, where=lambda x, c: c != 0),
    Row(lambda x, y: mended(mended(x, y), y), lambda x, y: mended(x, y)),
    Row(lambda x: mended(-x, x), lambda x: -x),
    Row(lambda x, c: mended(x * c, x), lambda x, c: x * c, where=_finite_nonzero),
    Row(lambda x, c: mended(x / c, x), lambda x, c: x / c, where=lambda x, c: c != 0 and c == c),
)

POWERS = (
    Row(lambda x: x**1, lambda x: x, scalars=True),
    Row(lambda x: x**2, lambda x: x * x, where=_has_axes, scalars=True),
    Row(lambda x: x**2, lambda x: x * x, changes=_ULP, error=1),
    Row(lambda x: x**3, lambda x: x * x * x, changes=_ULP, error=2, more=1, kinds="f"),
    Row(lambda x: x**4, lambda x: (x * x) * (x * x), changes=_ULP, error=3, more=2, kinds="f"),
    Row(lambda x: x**-1, lambda x: 1 / x, changes=_ULP, error=1, kinds="f"),
)

SCALES = (
    Row(lambda x, c: x / c, lambda x, c: x * (1 / c), where=_power_of_two, kinds="f"),
    Row(lambda x, c1, c2: (x * c1) * c2, lambda x, c1, c2: x * (c1 * c2), changes=_SCALED, error=2, where=_moderate, kinds="f"),
    Row(lambda x, c1, c2: (x * c1) / c2, lambda x, c1, c2: x * (c1 / c2), changes=_SCALED, error=2, where=_moderate, kinds="f"),
    Row(
        lambda x, c: (x + x) * c,
        lambda x, c: x * (c + c),
        changes="overflow within a factor of 2 of the range's end, the last digit of numbers below its beginning",
        error=1,
        where=_moderate,
        kinds="f",
        once=True,
    ),
    Row(lambda x, c: x / c, lambda x, c: x * (1 / c), changes=_ULP, error=1.5, where=_moderate, kinds="f"),
)


def _sum_of_products(x: Any, y: Any, out: ArraySpec, params: Any) -> Any:
    axis, keepdims = params[-1]["axis"], params[-1]["keepdims"]
    if x.ndim == 1:
        total = x @ y
    else:
        letters = "abcdefghijklmnopqrstuvwxyz"[: x.ndim]
        axes = range(x.ndim) if axis is None else [i % x.ndim for i in (axis if isinstance(axis, tuple) else (axis,))]
        rest = "".join(letter for i, letter in enumerate(letters) if i not in axes)
        total = np.einsum(f"{letters},{letters}->{rest}", x, y)
    return np.reshape(total, out.shape) if keepdims else total


def _both_full(x: ArraySpec, y: ArraySpec) -> bool:
    return x.shape == y.shape and 0 < x.ndim < 20 and not x.weak and not y.weak


def _is_identity(k: Any, x: ArraySpec) -> bool:
    return k.ndim == 2 and k.shape[0] == k.shape[1] and np.array_equal(k, np.eye(len(k)))


_ROWS = "infinities and NaN of one element do not become NaN of others; the sign of a zero"
_ORDER = "a sum is taken in another order"

SUMS = (
    Row(lambda k, x: k @ x, lambda k, x: x, changes=_ROWS, where=_is_identity, kinds="f", shapes={"k": (2, 2)}),
    Row(lambda k, x: x @ k, lambda k, x: x, changes=_ROWS, where=_is_identity, kinds="f", shapes={"k": (3, 3)}),
    Row(
        lambda x, y: np.sum(x * y),
        _sum_of_products,
        changes=_ORDER,
        error=None,
        where=_both_full,
        kinds="f",
        once=True,
        free=True,
        fused=False,
    ),
    Row(
        lambda x: np.sum(x * x),
        lambda x, out, params: _sum_of_products(x, x, out, params),
        changes=_ORDER,
        error=None,
        where=lambda x: _both_full(x, x),
        kinds="f",
        once=True,
        free=True,
        fused=False,
    ),
    Row(
        lambda x: np.sum(x),
        lambda x, out: np.reshape(x, out.shape) if out.shape or not x.ndim else x[(0,) * x.ndim],  # a scalar, like the sum
        changes=_ZERO,
        where=lambda x, out: x.size == out.size,
        kinds="f",
        free=True,
        shapes={"x": (1, 1)},
    ),
)


def _composed(x: Any, params: Any) -> Any:
    first, second = params[0]["axes"], params[1]["axes"]
    return np.transpose(x, [first[i] for i in second])


def _einsum_of_first(x: Any, y: Any, params: Any) -> Any:
    (first, second), result = terms_of(params[1]["subscripts"])
    return np.einsum(f"{letters_before(params[0]['axes'], first)},{second}->{result}", x, y, optimize=params[1]["optimize"])


def _einsum_of_second(x: Any, y: Any, params: Any) -> Any:
    (first, second), result = terms_of(params[1]["subscripts"])
    return np.einsum(f"{first},{letters_before(params[0]['axes'], second)}->{result}", x, y, optimize=params[1]["optimize"])


def _einsum_turned(x: Any, y: Any, params: Any) -> Any:
    (first, second), result = terms_of(params[0]["subscripts"])
    turned = "".join(result[i] for i in params[1]["axes"])
    return np.einsum(f"{first},{second}->{turned}", x, y, optimize=params[0]["optimize"])


def _of_one_step(x: ArraySpec, y: ArraySpec, out: ArraySpec) -> bool:
    """Return `True` for a matrix product with inner length 1 that is large enough for `*` to be faster."""
    return x.ndim > 1 and y.ndim > 1 and x.shape[-1] == 1 and out.size >= 1000


CONTRACTIONS = (
    Row(
        lambda x, y: np.einsum("ij,jk->ik", TRANSPOSE(x, axes=(1, 0)), y),
        _einsum_of_first,
        changes=_ORDER,
        error=None,
        free=True,
        kinds="f",
        shapes={"x": (3, 2), "y": (3, 4)},
    ),
    Row(
        lambda x, y: np.einsum("ij,jk->ik", x, TRANSPOSE(y, axes=(1, 0))),
        _einsum_of_second,
        changes=_ORDER,
        error=None,
        free=True,
        kinds="f",
        shapes={"x": (2, 3), "y": (4, 3)},
    ),
    Row(
        lambda x, y: TRANSPOSE(np.einsum("ij,jk->ik", x, y), axes=(1, 0)),
        _einsum_turned,
        changes=_ORDER,
        error=None,
        free=True,
        kinds="f",
        once=True,
        shapes={"x": (2, 3), "y": (3, 4)},
    ),
    Row(
        lambda x, y: TRANSPOSE(x, axes=(1, 0)) @ y,
        lambda x, y: y @ x,
        changes=_ORDER,
        error=None,
        where=lambda x, y: x.ndim == 2 and y.ndim == 1,
        kinds="f",
        shapes={"x": (3, 2), "y": (3,)},
    ),
    Row(
        lambda x, y: x @ TRANSPOSE(y, axes=(1, 0)),
        lambda x, y: y @ x,
        changes=_ORDER,
        error=None,
        where=lambda x, y: x.ndim == 1 and y.ndim == 2,
        kinds="f",
        shapes={"x": (3,), "y": (2, 3)},
    ),
    Row(
        lambda x, y: x @ y,
        lambda x, y: x * y,
        changes=_ZERO,
        where=_of_one_step,
        kinds="f",
        shapes={"x": (40, 1), "y": (1, 30)},
    ),
)

_ANY = "biufc"

ARRANGEMENTS = (
    Row(
        lambda x: RESHAPE(RESHAPE(x, shape=(6,)), shape=(3, 2)),
        lambda x, out: x if x.shape == out.shape else np.reshape(x, out.shape),
        free=True,
        kinds=_ANY,
    ),
    Row(lambda x: RESHAPE(x, shape=(2, 3)), lambda x: x, free=True, kinds=_ANY),
    Row(lambda x: TRANSPOSE(TRANSPOSE(x, axes=(1, 0)), axes=(1, 0)), _composed, free=True, kinds=_ANY),
    Row(lambda x: BROADCAST_TO(x, shape=(2, 3)), lambda x: x, free=True, kinds=_ANY),
    Row(
        lambda x: BROADCAST_TO(BROADCAST_TO(x, shape=(2, 3)), shape=(4, 2, 3)),
        lambda x, out: np.broadcast_to(x, out.shape),
        free=True,
        kinds=_ANY,
        shapes={"x": (3,)},
    ),
    Row(lambda x: ASTYPE(x, dtype=np.dtype(np.float64)), lambda x: x, free=True, kinds=_ANY),
    Row(
        lambda x: COPY(x, order="C"),
        lambda x: x,
        changes="how an array lies in memory, and sums over it",
        free=True,
        kinds=_ANY,
    ),
)


def _spread_first(f: Any) -> Row:
    return Row(
        lambda x, y: f(BROADCAST_TO(x, shape=(2, 3)), y), lambda x, y: f(x, y), free=True, kinds="fiuc", shapes={"x": (2, 1)}
    )


def _spread_second(f: Any) -> Row:
    return Row(
        lambda x, y: f(x, BROADCAST_TO(y, shape=(2, 3))), lambda x, y: f(x, y), free=True, kinds="fiuc", shapes={"y": (2, 1)}
    )


_BINARY = (np.add, np.subtract, np.multiply, np.divide, PRODUCT, QUOTIENT)
BROADCASTS = tuple([spread(f) for f in _BINARY for spread in (_spread_first, _spread_second)])

TABLE = (*SIGNS, *NEUTRAL, *GUARDS, *POWERS, *SCALES, *SUMS, *CONTRACTIONS, *ARRANGEMENTS, *BROADCASTS)


def _is_gram(x: ArraySpec, w: ArraySpec, **others: Any) -> bool:
    """Return `True` for a weighted Gram matrix that is large enough for a test of the signs of the weights."""
    return x.ndim == 2 and w.shape == x.shape[:1] and w.dtype == x.dtype and x.size * x.shape[1] >= 1_000_000


def _may_have_ties(g: ArraySpec, ties: ArraySpec, out: ArraySpec) -> bool:
    """Return `True` if a test for ties pays off: not for numbers, and not for arrays that are computed in blocks."""
    return g == out and len(out.shape) > 0 and len(ties.shape) > 0 and out.nbytes < LARGE


ROUTINES = (
    Row(lambda x: np.tril(CHOLESKY(x)), lambda x: CHOLESKY(x), more=1, kinds="f", shapes={"x": (2, 2)}),
    Row(
        lambda x: np.triu(TRANSPOSE(CHOLESKY(x), axes=(1, 0))),
        lambda x: TRANSPOSE(CHOLESKY(x), axes=(1, 0)),
        more=1,
        kinds="f",
        shapes={"x": (2, 2)},
    ),
    Row(
        lambda x, w: (TRANSPOSE(x, axes=(1, 0)) * w) @ x,
        lambda x, w: GRAM(x, w),
        changes=_ORDER,
        error=None,
        where=_is_gram,
        kinds="f",
        shapes={"w": (2,)},
    ),
    Row(
        lambda x, w, c: ((TRANSPOSE(x, axes=(1, 0)) * w) * c) @ x,
        lambda x, w, c: GRAM(x, w * c),
        changes=_ORDER,
        error=None,
        where=_is_gram,
        kinds="f",
        shapes={"w": (2,)},
    ),
    Row(
        lambda g, ties: np.where(ties, g * 0.5, g),
        lambda g, ties: HALVED(g, ties),
        where=_may_have_ties,
        kinds="f",
        mixed=True,
        fused=False,
    ),
)
"""Rows for programs, whose lists are not differentiated any more: the routines have no derivative rules."""


@functools.cache
def routines_index(fused: bool) -> Index:
    """Return the index of the rows for programs. `fused`: use only rows that help a backend that fuses operations."""
    return Index([row for row in ROUTINES if row.fused or not fused])


@functools.cache
def index(exact: bool, fused: bool) -> Index:
    """Return the index of the rows to use.

    Args:
        exact: use only rows that keep results bit for bit.
        fused: use only rows that help a backend that fuses operations.
    """
    return Index([row for row in TABLE if not (exact and row.changes) and (row.fused or not fused)])
