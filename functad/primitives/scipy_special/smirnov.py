"""The one-sided Kolmogorov-Smirnov statistic for n samples: its distribution and the inverse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.entry import Primitive
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import special_function, unknown
from functad.primitives.scipy_special.inverses import Partials

_COUNTS = [np.int64(3), np.int64(5), np.int64(2)]
_spec = ufunc_spec(special.smirnov, keeps_weak=False)


def _falling(n: Any, k: int) -> Any:
    """Return `n (n-1) ... (n-k+1)`."""
    out = np.ones_like(n)
    for i in range(k):
        out = out * (n - i)
    return out


def _slope(n: Any, d: Any, order: int) -> Any:
    """Return a derivative of `smirnov(n, d)` with respect to d.

    `smirnov(n, d) = d sum_j C(n, j) (d + j/n)^(j-1) (1 - d - j/n)^(n-j)`, `j <= n (1-d)` (Birnbaum, Tingey 1951). Leibniz' rule
    gives the derivatives of `u^p v^q`.
    """
    dtype = _spec(n, d).dtype
    n, d = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(d, np.float64))
    total = np.zeros(d.shape)
    for j in range(int(n.max(initial=0)) + 1):
        u, v = d + j / n, 1 - d - j / n
        inside = (v > 0) & (j <= n)
        u, v, p, q = np.where(inside, u, 1), np.where(inside, v, 1), np.full_like(n, j - 1), np.where(inside, n - j, 0)

        def power(k: int, u: Any = u, v: Any = v, p: Any = p, q: Any = q) -> Any:
            """The k-th derivative of `u^p v^q`."""
            parts = [
                math.comb(k, i) * (-1) ** (k - i) * _falling(p, i) * _falling(q, k - i) * u ** (p - i) * v ** (q - k + i)
                for i in range(k + 1)
            ]
            return sum(parts)

        term = special.binom(n, j) * (d * power(order) + order * power(order - 1))
        total += np.where(inside, term, 0)
    return total.astype(dtype)[()]


SMIRNOV_SLOPE: Primitive = elementwise(
    _slope,
    unknown("smirnov", "n", "It is a count"),
    lambda g, n, d, order: product(g, SMIRNOV_SLOPE(n, d, order=order + 1)),
    names=("n", "d"),
    spec=lambda n, d, *, order: _spec(n, d),
    doc="the next derivative of smirnov(n, d) by d",
    samples=lambda array: [
        ((np.int64(4), array(low=0.1, high=0.9)), {"order": 1}),
        ((np.array([3, 5, 2]), array(3, low=0.1, high=0.9)), {"order": 2}),
        ((np.array([3, 5]), array(3, 1, low=0.1, high=0.9)), {"order": 1}),
        ((np.int64(4), array(0, low=0.1, high=0.9)), {"order": 1}),
    ],
    name="smirnov_slope",
    complex=False,
    internal=True,
)

SMIRNOV = Partials("smirnov(n, d)", "It is a count", lambda n, d: SMIRNOV_SLOPE(np.trunc(n), d, order=1))
SMIRNOV.enter([_COUNTS, (0.15, 0.85)], "the sum of Birnbaum and Tingey, term by term dd", "_smirnovc")
SMIRNOV.invert("smirnovi", "d", [_COUNTS, (0.15, 0.85)])
SMIRNOV.invert("_smirnovci", "d", [_COUNTS, (0.15, 0.85)], complement=True)
special_function(
    "_smirnovp",
    unknown("_smirnovp", "n", "It is a count"),
    lambda g, n, d: product(g, SMIRNOV_SLOPE(np.trunc(n), d, order=2)),
    names=("n", "d"),
    arguments=[_COUNTS, (0.15, 0.85)],
    doc="the second derivative of smirnov(n, d) by d",
)
