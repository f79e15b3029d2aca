"""Complex numbers: `grad` of a real function of `z = x + iy` is `du/dx - i du/dy`; of a holomorphic one, its derivative.

The derivatives expected are finite differences along the real and along the imaginary axis.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors
from functad.primitives.entry import ENTRIES
from functad.testing import Call, calls, central_difference, every_entry
from tests.differences import random_like
from tests.entries import is_constant, is_public, label

TOLERANCE = 1e-7


def slope(f: Callable[..., Any], primals: list[Any], direction: list[Any]) -> Any:
    """Return the derivative of a scalar function in a direction, by central differences."""
    return central_difference(lambda *primals: [np.asarray(f(*primals))[()]], primals, direction)[0]


def along(gradient: Any, direction: list[Any]) -> Any:
    return sum(np.sum(g * v) for g, v in zip(gradient, direction, strict=True))


def assert_near(found: Any, expected: Any, size: float = 1.0) -> None:
    assert abs(found - expected) <= TOLERANCE * max(1.0, abs(expected), size), (found, expected)


def real_directions(primals: list[Any], generator: np.random.Generator) -> list[Any]:
    return [random_like(np.real(x), generator) for x in primals]


DIFFERENTIABLE = [e for e in every_entry() if e.status != "refused" and not is_constant(e)]
COMPLEX = [e for e in DIFFERENTIABLE if getattr(e, "complex", True)]


def _smooth_calls(entry: Any) -> list[Call]:
    found = [call for call in calls(entry, np.complex128) if call.primals]
    return [call for call in found if call.smooth(*call.primals) and any(x.size for x in call.primals)]


def _weighted(call: Call, generator: np.random.Generator) -> Callable[..., Any]:
    """Return the results of a call added up with complex weights."""
    weights = [random_like(value.astype(complex), generator) for value in call.smooth(*call.primals)]
    return lambda *primals: sum(np.sum(w * y) for w, y in zip(weights, call.smooth(*primals), strict=True))


@pytest.mark.parametrize("entry", COMPLEX, ids=label)
def test_gradient_of_a_real_function_of_complex_arguments(entry: Any) -> None:
    """`Re(sum(w f(z)))` and `|sum(w f(z))|^2` for every function that takes complex numbers."""
    for call in _smooth_calls(entry):
        generator = np.random.default_rng(0)
        total = _weighted(call, generator)
        for real in (lambda *z, f=total: f(*z).real, lambda *z, f=total: abs(f(*z)) ** 2):
            everything = tuple(range(len(call.primals)))
            gradient = functad.grad(real, argnums=everything)(*call.primals)
            for g, z in zip(gradient, call.primals, strict=True):
                assert g.dtype == z.dtype
                assert g.shape == z.shape
            v = real_directions(call.primals, generator)
            by_x = slope(real, call.primals, v)
            moved = [i for i, z in enumerate(call.primals) if z.dtype.kind == "c"]
            by_y = slope(real, call.primals, [1j * d if i in moved else 0 * d for i, d in enumerate(v)])
            size = float(sum(np.sum(abs(g)) for g in gradient))
            assert_near(along(gradient, v).real, by_x, size)
            assert_near(-along([gradient[i] for i in moved], [v[i] for i in moved]).imag, by_y, size)


def is_holomorphic(f: Callable[..., Any], primals: list[Any], v: list[Any]) -> bool:
    """Say whether the Cauchy-Riemann equations hold in a direction: `D f [i v] = i D f [v]`."""
    by_x, by_y = slope(f, primals, v), slope(f, primals, [1j * d for d in v])
    return bool(abs(by_y - 1j * by_x) <= 1e-6 * max(1.0, abs(by_x)))


@pytest.mark.parametrize("entry", COMPLEX, ids=label)
def test_holomorphic_derivative(entry: Any) -> None:
    for call in _smooth_calls(entry):
        generator = np.random.default_rng(1)
        total = _weighted(call, generator)
        primals = call.primals
        v = real_directions(primals, generator)
        if any(z.dtype.kind != "c" for z in primals) or not is_holomorphic(total, primals, v):
            continue
        gradient = functad.grad(total, argnums=tuple(range(len(primals))), holomorphic=True)(*primals)
        size = float(sum(np.sum(abs(g)) for g in gradient))
        assert_near(along(gradient, v), slope(total, primals, v), size)


@pytest.mark.parametrize(
    "function",
    [np.exp, np.log, np.sqrt, np.sin, np.tanh, np.arctan, np.add, np.multiply, np.divide, np.power, np.matmul, np.sum, np.prod,
     np.cumsum, np.einsum, np.reshape, np.where, np.linalg.inv, np.linalg.det, np.linalg.solve, np.fft.fft, np.fft.ifft],
)  # fmt: skip
def test_holomorphic_functions_are_seen_as_such(function: Any) -> None:
    """Otherwise the test above would compare nothing."""
    seen = []
    for call in _smooth_calls(ENTRIES[function]):
        generator = np.random.default_rng(1)
        total = _weighted(call, generator)
        if all(z.dtype.kind == "c" for z in call.primals):
            seen.append(is_holomorphic(total, call.primals, real_directions(call.primals, generator)))
    assert any(seen)


@pytest.mark.parametrize("function", [np.real, np.imag, np.conjugate, np.absolute, np.angle, np.sign, np.linalg.norm, np.var])
def test_others_are_not(function: Any) -> None:
    call = _smooth_calls(ENTRIES[function])[0]
    generator = np.random.default_rng(1)
    assert not is_holomorphic(_weighted(call, generator), call.primals, real_directions(call.primals, generator))


# From complex to real and back

z0 = np.array([1.0 + 2.0j, -0.5 + 0.3j, 0.7 - 1.1j])
REAL_FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("real", lambda z: np.sum(z.real)),
    ("imag", lambda z: np.sum(z.imag)),
    ("np.real of a product", lambda z: np.sum(np.real(z * z[::-1]))),
    ("np.imag of a product", lambda z: np.sum(np.imag(z * z[::-1]))),
    ("abs", lambda z: np.sum(abs(z))),
    ("abs squared", lambda z: np.sum(abs(z) ** 2)),
    ("z conj(z)", lambda z: np.sum((z * np.conj(z)).real)),
    ("z conj(z)^2", lambda z: np.sum((z * z.conj() ** 2).imag)),
    ("angle", lambda z: np.sum(np.angle(z))),
    ("angle in degrees", lambda z: np.sum(np.angle(z, deg=True))),
    ("sign", lambda z: np.sum(np.sign(z).real)),
    ("norm", np.linalg.norm),
    ("real times imag", lambda z: np.sum(z.real**2 * z.imag)),
    ("to real and back", lambda z: np.sum(abs(np.exp(1j * z.real) + z))),
    ("polar and back", lambda z: np.sum((abs(z) * np.exp(1j * np.angle(z)) * z).real)),
    ("fft and back", lambda z: np.sum(abs(np.fft.ifft(np.fft.fft(z) * z)) ** 2)),
    ("astype", lambda z: np.sum(z.real.astype(complex).real * z.imag)),
    ("where", lambda z: np.sum(abs(np.where(z.real > 0, z, z * z)))),
    ("quadratic form", lambda z: (z.conj() @ np.array([[2, 1j, 0], [-1j, 3, 1], [0, 1, 1]]) @ z).real),
    ("vdot", lambda z: np.vdot(z, z * z).real),
    ("std", np.std),
]


@pytest.mark.parametrize("row", REAL_FUNCTIONS, ids=lambda row: row[0])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_real_functions(row: tuple[str, Callable[[Any], Any]], shape: Any) -> None:
    _, f = row
    if shape == ():
        if row[0] in ("np.real of a product", "np.imag of a product", "fft and back", "quadratic form", "std"):
            return  # functions of several numbers
        points = list(z0)
    else:
        points = [z0]
    for z in points:
        gradient = functad.grad(f)(z)
        assert gradient.dtype == z.dtype
        flat = np.atleast_1d(gradient)
        for i, unit in enumerate(np.eye(z.size)):
            v = unit.reshape(z.shape)[()]
            expected = slope(f, [z], [v]) - 1j * slope(f, [z], [1j * v])
            assert abs(flat[i] - expected) < 1e-7
        t = (np.arange(1.0, z.size + 1) * (1 - 2j)).reshape(z.shape)[()]
        value, tangent = functad.jvp(f, (z,), (t,))
        assert tangent.dtype == value.dtype == np.float64
        assert tangent == pytest.approx(float(slope(f, [z], [t])), abs=1e-7)
        assert tangent == pytest.approx(float(np.sum(gradient * t).real), abs=1e-10)


@pytest.mark.parametrize("row", REAL_FUNCTIONS, ids=lambda row: row[0])
def test_second_order_of_real_functions(row: tuple[str, Callable[[Any], Any]]) -> None:
    """The gradient is differentiated again: along a direction, forward over reverse, and as a real function."""
    _, f = row
    t, w = z0[::-1] * 1j, z0 * (0.5 - 1j)
    expected = central_difference(lambda z: [functad.grad(f)(z)], [z0], [t])[0]
    found = functad.jvp(functad.grad(f), (z0,), (t,))[1]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    twice = functad.grad(lambda z: np.sum(functad.grad(f)(z) * w).real)(z0)
    assert np.sum(twice * t).real == pytest.approx(np.sum(expected * w).real, abs=1e-7)


@pytest.mark.parametrize("f", [
    lambda x: (x * 1j * x * 1j).real, lambda x: abs(np.exp(1j * x) - 1), lambda x: np.angle(x + 2j),
    lambda x: np.sqrt(x + 0j).real, lambda x: (np.cos(x) + 1j * np.sin(x)).imag, lambda x: np.conj(x * (1 + 1j)).imag,
])  # fmt: skip
def test_real_to_complex_to_real(f: Callable[[Any], Any]) -> None:
    for x in (0.7, np.float32(0.7), np.array([0.7, 1.3])):
        total = lambda x: np.sum(f(x))  # noqa: E731
        gradient = functad.grad(total)(x)
        assert np.asarray(gradient).dtype == np.asarray(x).dtype
        wide = np.asarray(x, float)
        expected = [slope(total, [wide], [unit.reshape(wide.shape)]) for unit in np.eye(wide.size)]
        np.testing.assert_allclose(np.ravel(gradient), expected, rtol=1e-6)


def test_real_and_complex_arguments_together() -> None:
    def f(x: Any, z: Any) -> Any:
        return np.sum(abs(x * z + 1j) ** 2)

    x, z = np.array([0.5, 2.0]), np.array([1.0 - 1j, 0.5j])
    by_x, by_z = functad.grad(f, argnums=(0, 1))(x, z)
    assert (by_x.dtype, by_z.dtype) == (np.float64, np.complex128)
    for i, unit in enumerate(np.eye(2)):
        assert by_x[i] == pytest.approx(float(slope(f, [x, z], [unit, 0 * unit])))
        expected = slope(f, [x, z], [0 * unit, unit]) - 1j * slope(f, [x, z], [0 * unit, 1j * unit])
        assert by_z[i] == pytest.approx(expected)


def test_single_precision() -> None:
    gradient = functad.grad(lambda z: np.sum(abs(z * z) + z.real))(z0.astype(np.complex64))
    assert gradient.dtype == np.complex64
    np.testing.assert_allclose(gradient, functad.grad(lambda z: np.sum(abs(z * z) + z.real))(z0), rtol=1e-5)


def test_descent_goes_along_the_conjugate() -> None:
    """`du = Re(grad dz)`, so the steepest way down is `-conj(grad)`."""

    def f(z: Any) -> Any:
        return np.sum(abs(z * z - (3 + 4j)) ** 2)

    z = z0
    for _ in range(500):
        z = z - 0.005 * functad.grad(f)(z).conj()
    np.testing.assert_allclose(z * z, 3 + 4j, rtol=1e-6)


class TestHolomorphic:
    def test_higher_orders(self) -> None:
        f = functad.grad(functad.grad(np.sin, holomorphic=True), holomorphic=True)
        z = 0.3 + 0.7j
        assert f(z) == pytest.approx(complex(central_difference(slope_of_sine, [np.complex128(z)], [np.complex128(1)])[0]))

    def test_jacobian(self) -> None:
        a = np.array([[1.0, 2j, 0], [1j, 0, 1], [0, 0, 2]])
        found = functad.jacobian(lambda z: a @ (z * z), holomorphic=True)(z0)
        columns = [central_difference(lambda z: [a @ (z * z)], [z0], [unit])[0] for unit in np.eye(3)]
        np.testing.assert_allclose(found, np.stack(columns, -1), atol=1e-8)

    def test_needs_complex_argument_and_value(self) -> None:
        with pytest.raises(errors.InputError, match="holomorphic=True"):
            functad.grad(np.sin, holomorphic=True)(1.0)
        with pytest.raises(errors.NonScalarError, match="holomorphic"):
            functad.grad(abs, holomorphic=True)(1j)

    def test_complex_value_without_it_is_refused(self) -> None:
        with pytest.raises(errors.NonScalarError, match="holomorphic=True"):
            functad.grad(np.sin)(1j)


def slope_of_sine(z: Any) -> list[Any]:
    """Return the derivative of the sine, by differences."""
    return central_difference(lambda z: [np.sin(z)], [z], [np.complex128(1)])


# Kinks


@pytest.mark.parametrize("z", [0j, np.complex64(0), np.zeros(2, complex)])
@pytest.mark.parametrize("f", [abs, np.sign, np.angle, np.conj, np.real])
def test_zero(f: Callable[[Any], Any], z: Any) -> None:
    """The derivative of `abs`, `sign` and `angle` at 0 is 0, and nothing is NaN in second order."""
    gradient = functad.grad(lambda z: np.sum(np.real(f(z))))
    found = gradient(z)
    bent = functad.grad(lambda z: np.sum(gradient(z).real))(z)
    expected = 1 if f in (np.conj, np.real) else 0
    np.testing.assert_array_equal(found, np.full(np.shape(z), expected))
    assert np.isfinite(bent).all()


def test_masked_logarithm() -> None:
    z = np.array([0j, 1 + 1j])
    with np.errstate(all="ignore"):
        gradient = functad.grad(lambda z: np.sum(np.where(z != 0, np.log(z), 0).real))
        found = gradient(z)
        bent = functad.grad(lambda z: np.sum(gradient(z).real))(z)
    np.testing.assert_allclose(found, [0, 1 / (1 + 1j)])
    assert bent[0] == 0
    assert np.isfinite(bent).all()


def test_what_numpy_computes_for_complex_numbers_is_differentiated() -> None:
    """An entry refuses complex arguments only where NumPy does, and SciPy, but for two that say so."""
    refusing = set()
    for entry in DIFFERENTIABLE:
        if entry.complex or not is_public(entry):
            continue
        for call in calls(entry, np.complex128):
            if not call.primals:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", np.exceptions.ComplexWarning)
                    call.result(*call.primals)
            except (TypeError, ValueError, np.exceptions.ComplexWarning):
                continue
            refusing.add(label(entry))
    # Part of airye is scaled by exp(-|Re|), and airy takes complex numbers; the sum for the derivative of zeta needs a number
    # of terms that grows with the imaginary part.
    assert refusing <= {"special.airye", "special.riemann_zeta"}
