"""Arrays on a device, as CuPy's are, as inputs and as constants: nothing is converted, and nothing is looked at in passing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import functad

_spec = importlib.util.spec_from_file_location("device", Path(__file__).with_name("device.py"))
device = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(device)
Device = device.Device

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(6, 3)), RNG.normal(size=3)
Y = (RNG.random(6) > 0.5) * 1.0


def same(found, expected):
    found, expected = functad.tree_leaves(found), functad.tree_leaves(expected)
    assert [type(leaf) for leaf in found] == [Device] * len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a.memory, b, rtol=1e-12, atol=1e-14)


LOSSES = {
    "logistic": lambda w, X, y: np.mean(np.logaddexp(0, t := X @ w) - y * t),
    "product on the left": lambda w, X, y: np.sum((w @ X.T - y) ** 2),
    "safe functions": lambda w, X, y: np.sum(np.sqrt(np.abs(X @ w)) * np.log(y + 1.5)) + np.linalg.norm(w),
    "extremes": lambda w, X, y: np.max(X * w, axis=0).sum() + np.maximum(X @ w, 0).sum() + np.var(w * X),
    "choices": lambda w, X, y: np.sum(np.where(X > 0, w, X * w)) + np.prod(w) + np.cumsum(w)[1],
    "arranging": lambda w, X, y: np.sum(np.concatenate([X * w, X])[2:] ** 3) + np.sum(np.tile(w, 2).reshape(2, 3).T @ y[:2]),
    "einsum": lambda w, X, y: np.sum(np.einsum("ij,j->i", X, w) ** 2) + np.sum(np.outer(w, y)),
    "parameters that were built": lambda w, X, y: np.sum(np.tanh(np.stack([w, 2 * w], 1).T @ X.T)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_stay_on_the_device(name):
    loss = LOSSES[name]
    on_device = tuple(map(Device, (W, X, Y)))
    same(functad.value_and_grad(loss, (0, 1))(*on_device), functad.value_and_grad(loss, (0, 1))(W, X, Y))
    directions = (Device(np.ones(3)), Device(np.ones((6, 3))), Device(np.zeros(6)))
    expected = functad.hvp(loss, (W, X, Y), (np.ones(3), np.ones((6, 3)), np.zeros(6)))
    same(functad.hvp(loss, on_device, directions), expected)


def constants():
    """Return operations of a Tensor on the left, which is asked first, and an array of the device."""
    X_, y_ = Device(X), Device(Y)
    return {
        "operators": lambda w: np.sum((w * X_ - X_ * 2.0) ** 2) + (w @ X_.T - y_).sum(),
        "ufunc": lambda w: np.sum(np.add(w, X_) ** 3),
        "function": lambda w: np.sum(np.where(X_ > 0, w, 0.0)) + np.sum(np.concatenate([X_, w[None]]) ** 2),
        "constant": lambda w: np.sum((functad.constant(X_) @ w - y_) ** 2),
    }


@pytest.mark.parametrize("name", constants())
def test_constants_of_the_device_beside_a_tensor(name):
    def host(w):
        return {
            "operators": lambda: np.sum((w * X - X * 2.0) ** 2) + (w @ X.T - Y).sum(),
            "ufunc": lambda: np.sum(np.add(w, X) ** 3),
            "function": lambda: np.sum(np.where(X > 0, w, 0.0)) + np.sum(np.concatenate([X, w[None]]) ** 2),
            "constant": lambda: np.sum((X @ w - Y) ** 2),
        }[name]()

    same(functad.grad(constants()[name])(Device(W)), functad.grad(host)(W))


def test_arrays_of_numpy_and_of_the_device_do_not_mix():
    with pytest.raises(TypeError, match="Unsupported type"):
        functad.grad(lambda w: np.sum(w * Device(X)))(W)


def test_what_cupy_says_of_a_tensor_is_said_with_the_cure():
    def product(w):
        raise TypeError(f"Unsupported type {type(w)}")  # as its compiled code does

    with pytest.raises(functad.errors.ConversionError, match=r"array of CuPy.*functad\.constant\(X\) @ t"):
        functad.grad(product)(W)


@pytest.mark.parametrize("convert", [np.asarray, np.array, np.float64], ids=lambda convert: convert.__name__)
def test_the_stand_in_refuses(convert):
    with pytest.raises(TypeError):
        convert(Device(np.ones(())))
