"""Compiled functions give arrays where eager ones give arrays of shape `()`, and numbers where these give numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from tests.compilation.test_backends import BACKENDS as INSTALLED

BACKENDS = [name for name in INSTALLED if name != "xla"]  # the backend `xla` returns arrays of JAX

ARGUMENTS: list[Any] = [1.5, np.float64(1.5), np.array(1.5), np.float32(1.5), np.array(1.5, np.float32)]

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda x: (np.sin(x), x * 2, np.sum(x), np.stack([x, x])[0], np.nan_to_num(x), np.mean(np.stack([x, x]))),
    "arrays": lambda x: {"views": (np.reshape(x, ()), np.stack([x, x])[..., 0]), "chosen": np.where(x > 0, x, -x)},
    "as given": lambda x: [np.squeeze(np.transpose(x)), x],
    "loops": lambda x: (
        functad.cond(x > 0, lambda v: np.reshape(v, ()), lambda v: np.where(v > 0, v, 1.0), np.sin(x)),
        functad.fori_loop(0, 3, lambda i, c: c * 2, np.sin(x)),
        functad.while_loop(lambda c: c < 10, lambda c: c * 2 + 1, np.sin(x)),
    ),
    "compiled within": lambda x: functad.jit(lambda v: (np.sum(v), np.reshape(v, ())))(x),
    "gradients": lambda x: (
        functad.value_and_grad(np.sum)(x),
        functad.grad(lambda v: np.where(v > 0, v, 0.0) * 2)(x),
        functad.grad(functad.grad(lambda v: np.prod(np.reshape(v, ()) ** 3)))(x),
        functad.jvp(lambda v: np.maximum(np.reshape(v, ()), 0), (x,), (x,)),
    ),
}


def types(tree: Any) -> Any:
    """Return a tree with type, dtype and shape in the places of the leaves."""
    return functad.tree_map(lambda leaf: str((type(leaf), getattr(leaf, "dtype", None), np.shape(leaf))), tree)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_types_of_eager_results(name: str, backend: str) -> None:
    f = FUNCTIONS[name]
    compiled = functad.jit(f, backend=backend)
    for x in ARGUMENTS:
        for _ in range(2):  # the second call takes a shorter way
            assert types(compiled(x)) == types(f(x)), (name, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_of_compiled_functions_have_the_types_of_eager_ones(backend: str) -> None:
    for f in (np.sum, lambda x: np.reshape(x, ()) * 2, lambda x: np.where(x > 0, x, 0.0)):
        for x in ARGUMENTS:
            compiled = functad.jit(f, backend=backend)
            for transform in (functad.grad, functad.value_and_grad, functad.hessian):
                assert types(transform(compiled)(x)) == types(transform(f)(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_tangents_of_integers_are_floats(backend: str) -> None:
    def steps(x: Any) -> Any:
        counted = functad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))
        return counted, functad.scan(lambda c, _: ((c[0] + 1, c[1] * x), c[0]), (np.arange(2), x), None, length=2)

    def tangents(x: Any) -> Any:
        return functad.jvp(steps, (x,), (x,))

    for x in (1.5, np.float32(1.5)):
        assert types(functad.jit(tangents, backend=backend)(x)) == types(tangents(x))


def test_gradients_look_into_transformed_functions() -> None:
    assert float(functad.grad(functad.jit(functad.grad(lambda x: x**3)))(2.0)) == 12.0


@pytest.mark.parametrize("backend", INSTALLED)
def test_variables_as_arguments(backend: str) -> None:
    @functad.jit(backend=backend)
    def add(v: Any, x: Any) -> Any:
        v.assign_add(x)
        return np.sum(v * v)

    first, second, ones = functad.Variable(np.arange(3.0)), functad.Variable(np.zeros(3)), np.ones(3)
    assert [float(add(first, ones)), float(add(first, ones)), float(add(second, ones))] == [14.0, 29.0, 3.0]
    assert (first.numpy().tolist(), second.numpy().tolist()) == ([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    assert add.cache_info() == (1, 2, 2)
    with functad.GradientTape() as tape:
        out = functad.jit(lambda v: np.sum(v**3), backend=backend)(first)
    np.testing.assert_allclose(tape.gradient(out, first).numpy(), [12.0, 27.0, 48.0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("f", "x"),
    [
        (np.logaddexp.reduce, np.zeros(0)),
        (np.hypot.reduce, np.zeros(0, np.float32)),
        (np.angle, np.array([1, -2], np.int16)),
        (np.angle, np.array([1, -2], np.int8)),
        (lambda m: m**2, np.array([True, False])),
        (lambda m: np.power(m, 2), np.array([True, False])),
        (lambda m: m**3, np.array([True, False])),
        (lambda m: m**2, np.array(True)),
        (lambda m: m**2, np.bool_(True)),
        (lambda x: np.sum(x, dtype=np.int64), np.inf),
        (lambda x: np.sum(x, dtype=np.int64), np.nan),
    ],
    ids=["logaddexp", "hypot", "int16", "int8", "m**2", "power", "m**3", "array()**2", "bool_**2", "infinity", "NaN"],
)
def test_results_have_the_type_and_dtype_of_numpy(f, x, backend):
    with np.errstate(invalid="ignore"):
        found, expected = functad.jit(f, backend=backend)(x), f(x)
    assert type(found) is (np.int64 if type(expected) is int else type(expected))
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


SUMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, out: np.sum(x, axis=0, out=out),
    "prod": lambda x, out: np.prod(x, axis=0, out=out),
    "nansum": lambda x, out: np.nansum(x, axis=0, out=out),
    "add.reduce": lambda x, out: np.add.reduce(x, axis=0, out=out),
    "multiply.reduce": lambda x, out: np.multiply.reduce(x, axis=0, out=out),
    "by place": lambda x, out: np.sum(x, 0, None, out),
    "method": lambda x, out: x.prod(0, out=out),
    "max": lambda x, out: np.max(x, axis=0, out=out),
    "trace": lambda x, out: np.trace(np.stack([x, x, x]), out=out),
    "subtract.reduce": lambda x, out: np.subtract.reduce(x, axis=0, out=out),
}


OUTS = [
    (bool, bool),
    (bool, np.int8),
    (np.int8, np.int8),
    (np.uint8, np.int64),
    (np.int64, np.uint8),
    (float, np.float32),
    (np.float32, float),
]
"""Dtypes of an array and of `out=`."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(("dtype", "other"), OUTS)
def test_out_takes_part_in_the_dtype_of_a_reduction(name: str, dtype: Any, other: Any, backend: str) -> None:
    def f(x: Any) -> Any:
        out = x[:1].reshape(()).astype(other)
        SUMS[name](x, out)
        return out

    x = np.array([0.6, 0.7, 100.9]).astype(dtype)
    if name == "subtract.reduce" and dtype is bool and other is bool:
        with pytest.raises(TypeError, match="boolean subtract"):
            functad.jit(f, backend=backend)(x)
        return
    found, expected = functad.jit(f, backend=backend)(x), f(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("name", SUMS)
def test_out_of_integers_for_a_reduction_of_floats(name: str) -> None:
    """The cast would lose the derivative."""

    def f(x: Any) -> Any:
        out = x[:1].reshape(()).astype(int)
        SUMS[name](x, out)
        return np.sum(x) + out

    with pytest.raises(functad.errors.ConversionError, match="lose its derivative"):
        functad.jit(f)(np.array([0.6, 0.7, 100.9]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ufunc", [np.add, np.multiply])
@pytest.mark.parametrize(("dtype", "other"), [(bool, np.int8), (np.int8, np.int64), (np.float32, float)])
def test_out_takes_no_part_in_the_dtype_of_an_outer_product(ufunc: Any, dtype: Any, other: Any, backend: str) -> None:
    def f(x: Any) -> Any:
        out = np.stack([x, x]).astype(other)
        ufunc.outer(x, x, out=out)
        return out

    x = np.array([100, 1.1]).astype(dtype)
    found, expected = functad.jit(f, backend=backend)(x), f(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
