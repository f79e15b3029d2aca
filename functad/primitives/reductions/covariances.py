"""Covariances and correlations of several variables."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.places import warn
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.reshape import Calls, atleast
from functad.primitives.elementwise.conversion import astype
from functad.primitives.kinds import composite
from functad.primitives.operands import innermost
from functad.primitives.reductions.statistics import CENTRED, average
from functad.primitives.signals.differences import array_of


def _variables(m: Any, name: str) -> Any:
    m = array_of(m)
    if len(shape_of(m)) > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    return m


def _rows(m: Any, dtype: Any, *, turned: bool) -> Any:
    m = astype(atleast(m, 2), dtype, copy=False)
    return m.T if turned else m


def _checked_weights(w: Any, name: str, count: int) -> Any:
    w = array_of(w)
    w = astype(w, np.float64, copy=False)
    if len(shape_of(w)) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if shape_of(w)[0] != count:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    known = innermost(w)
    if issubclass(type(known), np.ndarray):
        if name == "fweights" and np.any(known != np.round(known)):
            raise TypeError("fweights must be integer")
        if np.any(known < 0):
            raise ValueError(f"{name} cannot be negative")
    return w


def _covariance_samples(array: Any) -> Calls:
    frequencies, weights = np.array([1, 2, 1, 3]), np.real(array(4, low=0.5))
    return [
        ((array(4),), {}),
        ((array(2, 4),), {}),
        ((array(4, 2),), {"rowvar": False}),
        ((array(4), array(4)), {}),
        ((array(2, 4), array(4)), {"bias": True}),
        ((array(4, 2), array(4, 1), False), {"ddof": 0}),
        ((array(2, 4),), {"fweights": frequencies}),
        ((array(2, 4),), {"aweights": weights}),
        ((array(2, 4),), {"aweights": weights, "ddof": 0}),
        ((array(2, 4),), {"fweights": frequencies, "aweights": np.real(array(4, low=0.5))}),
        ((array(2, 4),), {"dtype": np.result_type(array().dtype, np.float64)}),
    ]


@composite(np.cov, samples=_covariance_samples, doc="d cov = (dX Y^H + X dY^H) / (n - ddof) of the centred rows")
def cov(
    m: Any,
    y: Any = None,
    rowvar: Any = True,
    bias: Any = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Return the result of `np.cov`."""
    if ddof is not None and ddof != operator.index(int(ddof)):
        raise ValueError("ddof must be integer")
    m = _variables(m, "m")
    if y is not None:
        y = _variables(y, "y")
    if dtype is None:
        dtype = np.result_type(*[dtype_of(a) for a in (m, y) if a is not None], np.float64)
    x = _rows(m, dtype, turned=not rowvar and len(shape_of(m)) != 1)
    if shape_of(x)[0] == 0:
        return np.zeros((0, 0))
    if y is not None:
        y = atleast(y, 2)
        x = concatenate([x, _rows(y, dtype, turned=not rowvar and shape_of(y)[0] != 1)])
    count = shape_of(x)[1]
    if ddof is None:
        ddof = 0 if bias else 1
    f = None if fweights is None else _checked_weights(fweights, "fweights", count)
    a = None if aweights is None else _checked_weights(aweights, "aweights", count)
    if f is None and a is None:
        x, freedom = CENTRED(x, axis=(1,)), count - ddof
        other = x
    else:
        w: Any = a if f is None else f if a is None else f * a
        total = w.sum()
        x = x - average(x, 1, w)[:, None]
        other = x * w
        freedom = total - (0 if ddof == 0 else ddof if a is None else ddof * (w * a).sum() / total)
    freedom = _positive(freedom)
    # As in NumPy, the divisor is weak: it does not change the dtype.
    out = (x @ (other.conj() if dtype_of(other).kind == "c" else other).T) * np.true_divide(1, freedom)
    return np.squeeze(astype(out, dtype, copy=False))


def _positive(freedom: Any) -> Any:
    """Return the degrees of freedom. If they are not positive, warn and return zero, like NumPy."""
    known = innermost(freedom)
    if issubclass(type(known), (int, float, np.number)) and known <= 0:
        warn(RuntimeWarning("Degrees of freedom <= 0 for slice"))
        return 0.0
    return freedom


@composite(
    np.corrcoef,
    samples=lambda array: [
        ((array(2, 4),), {}),
        ((array(4), array(4)), {}),
        ((array(4, 2),), {"rowvar": False}),
        ((array(4),), {}),
        ((array(3, 4),), {"dtype": np.result_type(array().dtype, np.float64)}),
    ],
    doc="that of cov(x, y) / (std(x) std(y))",
)
def _corrcoef(x: Any, y: Any = None, rowvar: Any = True, bias: Any = None, ddof: Any = None, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(c):
        return c / c
    deviation = np.sqrt(np.diagonal(c).real)
    c = c / deviation[:, None] / deviation[None, :]
    if dtype_of(c).kind == "c":
        return np.clip(c.real, -1, 1) + 1j * np.clip(c.imag, -1, 1)
    return np.clip(c, -1, 1)
