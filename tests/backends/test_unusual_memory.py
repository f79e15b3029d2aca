"""Boolean arrays whose bytes are not 0 or 1, and byte-swapped arrays: every backend gives the results of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad import fori_loop, grad, jit, scan, vmap, while_loop
from tests.compilation.test_backends import BACKENDS


def booleans(*values: int) -> Any:
    """Return a boolean array with the given bytes."""
    return np.array(values, np.uint8).view(np.bool_)


MASK = booleans(0, 2, 4, 0, 255, 1, 128, 6)
OTHER = booleans(2, 2, 0, 0, 1, 1, 3, 0)
TABLE = np.tile(MASK.view(np.uint8), (60, 1)).view(np.bool_)
X = np.arange(1.0, 9.0)

LOGICAL = [u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None and {"?->?", "??->?"} & set(u.types)]

READS = {
    "where": lambda m: np.where(m, X, 0.0),
    "where_of_the_negation": lambda m: np.where(~m, X, -X),
    "captured": lambda m: (np.where(MASK, X, 0.0) * m, np.sum(np.where(TABLE, X, m)), MASK & m),
    "sum": lambda m: (np.sum(m), np.sum(m, dtype=float), np.mean(m), np.count_nonzero(m)),
    "sum_of_columns": lambda m: (np.sum(TABLE & m, axis=0), np.count_nonzero(TABLE | m, axis=1)),
    "extremes": lambda m: (np.max(m), np.min(m), np.any(m), np.all(m), np.argmax(m)),
    "product": lambda m: (m * X, m * 3, m * X.astype(np.float32), m @ X, np.prod(m)),
    "conversion": lambda m: (m.astype(float), m.astype(np.int32), np.cumsum(m)),
    "movement": lambda m: (np.copy(m), m[1:4], m.reshape(2, 4), m[::-1], np.roll(m, 1), np.pad(m, 1), np.repeat(m, 2)),
    "combination": lambda m: (np.concatenate([m, OTHER]), np.stack([m, OTHER]), m[np.arange(8)[::-1]], np.sort(m)),
    "sum_where": lambda m: np.sum(X, where=m),
    "loop": lambda m: fori_loop(0, 3, lambda i, c: (c[0] & c[0], np.where(c[0], c[1] * 2, c[1])), (m, X)),
    "rows": lambda m: scan(lambda c, r: (np.where(r[0], c + r[1], c), r[0]), 0.0, (m, X)),
    "branch": lambda m: functad.cond(m[1], lambda x: x * 2.0, lambda x: x, X),
}


def truth(result: Any) -> list[Any]:
    """Return the leaves of a result, of booleans whether they are true."""
    leaves = [np.asarray(leaf) for leaf in functad.tree_leaves(result)]
    return [leaf.view(np.uint8) != 0 if leaf.dtype == np.bool_ else leaf for leaf in leaves]


def check(f: Any, *args: Any, backend: str) -> None:
    expected, found = truth(f(*args)), truth(jit(f, backend=backend)(*args))
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")
        np.testing.assert_allclose(b, a, rtol=1e-6 if a.dtype.itemsize == 4 else 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", READS)
def test_every_byte_of_a_boolean_but_zero_is_true(name: str, backend: str) -> None:
    check(READS[name], MASK, backend=backend)
    assert np.array_equal(MASK.view(np.uint8), [0, 2, 4, 0, 255, 1, 128, 6])


@pytest.mark.parametrize("backend", BACKENDS)
def test_ufuncs_of_booleans(backend: str) -> None:
    check(lambda m, n: [u(*(m, n)[: u.nin]) for u in LOGICAL], MASK, OTHER, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("condition", [booleans(2)[0], booleans(2).reshape(())], ids=["number", "array"])
def test_conditions_without_axes(condition: Any, backend: str) -> None:
    check(lambda c: (np.where(c, X, 0.0), functad.cond(c, lambda x: x * 2.0, lambda x: x, X)), condition, backend=backend)


CONTROL = {
    "fori_loop": lambda x: fori_loop(0, 3, lambda i, c: c * 2.0, x),
    "while_loop": lambda x: while_loop(lambda c: np.sum(c) < 1e3, lambda c: c * 2.0, x),
    "scan": lambda x: scan(lambda c, r: (c + r, c * r), x[0], x),
    "map": lambda x: functad.map(lambda r: r * r, x),
    "cond": lambda x: functad.cond(x[0] > 0, lambda x: x, lambda x: 2.0 * x, x),
}
BYTE_SWAPPED = {
    "elementwise": lambda x: np.sin(x) * 2.0,
    "sum": lambda x: np.sum(x * x),
    "movement": lambda x: (np.concatenate([x, x[::-1]]) * 2.0, x.reshape(1, -1) + 1.0),
    "linear_algebra": lambda x: np.linalg.solve(np.diag(x) + 1.0, x),
    **CONTROL,
}


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BYTE_SWAPPED)
def test_byte_swapped_arguments(name: str, backend: str, dtype: str) -> None:
    x, f = np.arange(1.0, 4.0).astype(dtype), BYTE_SWAPPED[name]
    check(f, x, backend=backend)
    check(grad(lambda x: sum(np.sum(leaf) for leaf in functad.tree_leaves(f(x)))), x, backend=backend)
    check(vmap(f), np.stack([x, x + 1.0]).astype(dtype), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_byte_swapped_constants_and_later_arguments(backend: str) -> None:
    x = np.arange(1.0, 4.0)
    swapped = x.astype(">f8")
    check(lambda y: np.sin(y * swapped), x, backend=backend)
    compiled = jit(functad.make_expressions(np.sin)(x), backend=backend)
    np.testing.assert_allclose(compiled(swapped), np.sin(x), rtol=1e-15)


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow_of_byte_swapped_arrays(name: str) -> None:
    x = np.arange(1.0, 4.0)
    expected, found = functad.tree_leaves(CONTROL[name](x)), functad.tree_leaves(CONTROL[name](x.astype(">f8")))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_false_times_nan_is_nan(backend: str) -> None:
    x = np.array([1.0, -2.0, np.nan, np.inf, -np.inf, -0.0])
    with np.errstate(invalid="ignore"):
        check(lambda x: ((x > 0) * x, (x > 0).astype(float) * x, np.sum((x > 0) * x), np.dot(x > 0, x)), x, backend=backend)
