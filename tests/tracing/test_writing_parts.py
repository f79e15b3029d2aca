"""Writing into the real or the imaginary part of a complex Tensor: the other part, and the derivative of either."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as fnp
from functad.testing import check_grads

X = np.array([[0.7, -1.2, 1.9], [0.4, 2.1, -0.3]])


def _rows(x: Any) -> Any:
    z = x * (2.0 - 1j)
    z.imag[1] = x[0] * 2
    z.real[0, ::-1] += x[1]
    return z


def _functions(x: Any) -> Any:
    z = x * (1.0 + 0.5j)
    imaginary = np.imag(z)
    imaginary[:, 2] += 1.0
    np.add.at(imaginary, ([0, 0], [1, 1]), x[0, :2])
    np.multiply(imaginary[1], x[0], out=imaginary[1])
    return z


def _attributes(x: Any) -> Any:
    z = x + 1j * x[::-1]
    z.real = z.imag * 2
    z.imag *= z.real
    z.imag[x > 1.0] = 0.0
    return z


def _through_views(x: Any) -> Any:
    z = x * (1.0 + 1j)
    z.T[1].imag[:] = x[:, 0] ** 2
    flat = z.reshape(-1).imag
    flat[[0, 4]] = x[0, 1]
    flat[::2] *= 3.0
    return z


def _as_lies_in_memory(x: Any) -> Any:
    """Cotangents have another layout than what was written to, where `reshape` makes no view."""
    z = x * (1.0 + 1j)
    z.reshape(-1).imag[1:5] = np.sin(x[1, 1])
    z.reshape(-1).real[3] += np.cos(x[0, 0])
    return np.matmul(np.conj(z), z.T).T


def _buffers(x: Any) -> Any:
    """The array itself has no derivative before its parts are written, by real numbers."""
    z = fnp.zeros(x.shape, complex)
    z.imag[:] = x**2
    z.imag[0][1:][:] = x[1, :1] * 2
    z[:, ::2].real[...] += np.sin(x[:, 1:])
    return z * x


def _numbers_and_buffers(x: Any) -> Any:
    z = fnp.full(x.shape, 2j)
    z.imag[1, 0] = x[0, 0]
    view = z.T[1:].imag
    view[0] *= x[:, 1]
    z.real = x
    return z


PROGRAMS = [_rows, _functions, _attributes, _through_views, _as_lies_in_memory, _buffers, _numbers_and_buffers]


def parts(program: Any) -> Any:
    """Return both parts of the result, which then has real derivatives only."""
    return lambda x: (np.real(program(x)), np.imag(program(x)))


def number(program: Any) -> Any:
    weights = np.arange(1.0, 10.0)

    def f(x: Any) -> Any:
        z = program(x).ravel()
        return np.sum(weights[: z.size] * (z.real - 2 * z.imag**2))

    return f


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_derivatives(program):
    np.testing.assert_array_equal(functad.vjp(program, X)[0], program(X.copy()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no part is lost in a cast
        check_grads(parts(program), (X,), order=2)


@pytest.mark.parametrize("program", PROGRAMS)
def test_batches_and_expression_lists(program):
    batch = np.stack([X, X[::-1] * 1.3])
    if program is not _attributes:  # its mask has other places in each example
        np.testing.assert_allclose(functad.vmap(program)(batch), np.stack([program(x) for x in batch]), rtol=1e-13)
        slopes = np.stack([functad.grad(number(program))(x) for x in batch])
        np.testing.assert_allclose(functad.vmap(functad.grad(number(program)))(batch), slopes, rtol=1e-12)
        by_batch = functad.grad(lambda xs: np.sum(functad.vmap(number(program))(xs)))(batch)
        np.testing.assert_allclose(by_batch, slopes, rtol=1e-12)
        listed = functad.make_expressions(functad.grad(number(program)))(X).check()
        np.testing.assert_allclose(listed(X), functad.grad(number(program))(X), rtol=1e-12)


def test_complex_arguments():
    """`Im` written with a real number: by Cauchy and Riemann nothing is left of the derivative by the old imaginary part."""

    def f(z: Any) -> Any:
        y = z.copy()
        y.imag = y.real * 3
        return np.abs(y) ** 2

    z = np.array([0.5 + 0.25j])
    np.testing.assert_allclose(functad.grad(lambda z: f(z).sum())(z), [2 * 0.5 * 10])


def test_real_arrays_have_no_imaginary_part_to_set():
    def f(x: Any) -> Any:
        y = x.copy()
        y.real = x**2
        with pytest.raises(TypeError, match="does not have imaginary part to set"):
            y.imag = 0.0
        return np.sum(y)

    np.testing.assert_allclose(functad.grad(f)(X), 2 * X)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_explained(part):
    """What is written into one part reaches what is read from it, and not what is read from the other."""

    def f(x: Any, read: str) -> Any:
        z = np.zeros(X.shape, complex, like=x)
        getattr(z, part)[0] = x[1]
        return np.sum(getattr(z, read))

    other = "imag" if part == "real" else "real"
    assert "connected" in str(functad.explain(f, X, part))
    assert "connected" not in str(functad.explain(f, X, other))


def test_nans_are_followed_into_a_part():
    def f(x: Any) -> Any:
        z = x * (1.0 + 1j)
        z.imag[0] = np.log(x[1])
        return np.sum(z.imag[0])

    with functad.debug_nans(), np.errstate(all="ignore"), pytest.raises(functad.errors.NotFiniteError, match="born in log"):
        functad.grad(f)(X)
