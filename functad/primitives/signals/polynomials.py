"""Polynomials given by coefficients, the highest power first, and matrices of powers."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.pad import PAD
from functad.primitives.arranging.reshape import Calls, atleast
from functad.primitives.elementwise.conversion import laid_out, laid_out_like
from functad.primitives.entry import Primitive
from functad.primitives.kinds import composite, general
from functad.primitives.operands import as_operand
from functad.primitives.signals.differences import array_of


@composite(
    np.polyval,
    samples=lambda array: [
        ((array(3), array(4)), {}),
        ((array(3), array()), {}),
        ((array(1), array(2, 2)), {}),
        ((array(4), np.arange(3)), {}),
        (([2.0, 0.5, -1.0], array(2, 1)), {}),
        (([], array(2)), {}),
        ((array(2, 3), array(3)), {}),
    ],
    doc="Horner's scheme: in the coefficients the powers of x, in x the derivative of the polynomial",
)
def polyval(p: Any, x: Any) -> Any:
    """`np.polyval`."""
    if isinstance(x, np.poly1d):
        raise TypeError("np.polyval: coefficients under a trace cannot be composed with a poly1d; pass its coefficients")
    p, x = as_operand(p), array_of(x)
    rows = len(p)
    if not rows:
        return np.zeros_like(x)
    y = x * 0 + p[0]  # as in NumPy: the sum has the shape of x, and an infinite x gives NaN
    for i in range(1, rows):
        y = y * x + p[i]
    return laid_out_like(y, x)


def _order(given: Any, name: str) -> int:
    m: int = operator.index(given)
    if m < 0:
        raise ValueError(f"Order of {name} must be positive (see {'polyint' if name == 'derivative' else 'polyder'})")
    return m


def _coefficient_samples(array: Any) -> Calls:
    return [((array(4),), {}), ((array(4), 2), {}), ((array(3), 0), {}), ((array(1),), {})]


@composite(
    np.polyder,
    samples=lambda array: [*_coefficient_samples(array), ((array(2),), {"m": 3})],
    doc="linear in the coefficients",
)
def _polyder(p: Any, m: int = 1) -> Any:
    for _ in range(_order(m, "derivative")):
        p = p[:-1] * np.arange(len(p) - 1, 0, -1)
    return p


@composite(
    np.polyint,
    samples=lambda array: [
        *_coefficient_samples(array),
        ((array(3),), {"k": 1.5}),
        ((array(3), 2, [1.0, 2.0]), {}),
        ((array(2), 3, array(3)), {}),
        ((array(2), 2, array()), {}),
        ((array(0),), {}),
    ],
    doc="linear in the coefficients and in the constants of integration",
)
def _polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    m = _order(m, "integral")
    p = array_of(p)
    if m == 0:
        return p
    constants = np.zeros(m) if k is None else atleast(array_of(k), 1)
    if shape_of(constants) == (1,) and m > 1:
        constants = constants * np.ones(m)
    if len(constants) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        p = concatenate([p / np.arange(len(p), 0, -1), constants[i : i + 1]])
    return p


# Powers


def _powers_vjp(g: Any, x: Any, n: int) -> Any:
    """`sum_k g[k] k x^(k - 1)`, without a division, so also for x = 0."""
    if n < 2:
        return x * 0
    return (g[:, 1:] * (VANDER(x, n=n - 1) * np.arange(1, n))).sum(1)


def _powers_jvp(t: Any, x: Any, n: int) -> Any:
    if n < 2:
        return VANDER(t, n=n) * 0
    return PAD(t[:, None] * (VANDER(x, n=n - 1) * np.arange(1, n)), widths=((0, 0), (1, 0)))


def _powers_spec(x: Any, *, n: int) -> ArraySpec:
    own = spec_of(x)
    return ArraySpec((*own.shape, n), np.promote_types(own.dtype, int))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """`np.vander`."""
    x = as_operand(x)
    if len(shape_of(x)) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    powers = VANDER(x, n=len(x) if N is None else operator.index(N))
    return powers if increasing else laid_out(powers[:, ::-1], "C")


def _powers_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Join the vectors of all examples to one, because NumPy takes only one vector."""
    (x,), n = values, params["n"]
    return primitive(x.reshape(-1), n=n).reshape((*shape_of(x), n))


def _products(x: Any, *, n: int) -> Any:
    x = x.astype(np.promote_types(x.dtype, int))[:, None]
    return np.concatenate((np.ones_like(x[:, :n]), np.cumprod(np.repeat(x, max(n - 1, 0), 1), 1)), 1)


VANDER: Primitive = general(
    np.vander,
    _powers_vjp,
    jvps=(_powers_jvp,),
    compute=lambda x, *, n: np.vander(x, n, increasing=True),
    spec=_powers_spec,
    samples=lambda array: [
        ((array(3),), {}),
        ((array(3), 2), {}),
        ((array(2), 4), {"increasing": True}),
        ((array(3) * np.array([0, 1, 1]), 4), {}),
        ((array(2), 1), {}),
        ((array(2), 0), {}),
        ((array(0), 2), {}),
    ],
    doc="d x^k = k x^(k - 1) dx in each column, at x = 0 too",
    front=vander,
    decomposition=_products,
    batch=_powers_batch,
    dependence="new last axis",
)
