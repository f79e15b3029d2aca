"""`functad.scipy.fft`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft

import functad
from functad.scipy import fft
from functad.testing import check_grads, check_primitive

A = np.random.default_rng(0).normal(size=(3, 4))
BY_PARTS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn", "irfft2"]
BY_PARTS += ["irfftn", "hfft2", "hfftn", "ihfft2", "ihfftn"]
REAL = ["dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn"]


def check_values(name: str, a: Any = A, *args: Any, **kwargs: Any) -> None:
    expected = getattr(scipy.fft, name)(a, *args, **kwargs)
    found, _ = functad.vjp(lambda x: getattr(fft, name)(x, *args, **kwargs), a)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(getattr(fft, name)(a, *args, **kwargs), expected)


@pytest.mark.parametrize("name", [*BY_PARTS, *REAL])
def test_transforms(name: str) -> None:
    for norm in (None, "ortho", "forward"):
        check_values(name, norm=norm)
    if name not in ("rfft", "ihfft", "rfft2", "rfftn", "ihfft2", "ihfftn"):
        check_values(name, A * (1 + 0.5j), workers=1)
    check_grads(lambda a: getattr(fft, name)(a), [A])


def test_lengths_and_axes() -> None:
    for name in ("fft", "rfft", "hfft", "dct"):
        check_values(name, n=5, axis=0, overwrite_x=True)
    for name in ("fftn", "irfftn", "ihfftn", "dstn"):
        check_values(name, s=(4, 3), axes=(1, 0))
    check_grads(lambda a: fft.irfftn(a, s=(5, 6), axes=(1, 0)), [A * (1 - 2j)])


@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst", "dctn", "idstn"])
def test_types_of_real_transforms(name: str) -> None:
    for kind in (1, 2, 3, 4):
        for norm in (None, "ortho", "forward"):
            for orthogonalize in (None, True, False):
                check_values(name, A, kind, norm=norm, orthogonalize=orthogonalize)
        check_grads(lambda a, kind=kind: getattr(fft, name)(a, kind, norm="ortho"), [A], order=1)


def test_rule_of_real_transforms() -> None:
    from functad.scipy.fft import REAL_TRANSFORM

    check_primitive(REAL_TRANSFORM)


def test_hankel_transforms() -> None:
    for transform in (fft.fht, fft.ifht):
        check_grads(lambda a, transform=transform: transform(a, 0.1, 0.5, offset=0.2, bias=0.1), [A[0]], order=1)


def test_lengths_and_shifts_are_those_of_scipy() -> None:
    assert fft.next_fast_len(97) == scipy.fft.next_fast_len(97)
    np.testing.assert_array_equal(fft.fftfreq(5, 0.1), scipy.fft.fftfreq(5, 0.1))
    check_grads(fft.fftshift, [A], order=1)


def test_errors_are_those_of_scipy() -> None:
    with pytest.raises(ValueError, match="invalid number of data points"):
        functad.grad(lambda a: np.sum(fft.dct(a[:0])))(A[0])
    with pytest.raises(NotImplementedError, match="plan"):
        functad.grad(lambda a: np.sum(abs(fft.fft(a, plan=1))))(A[0])
