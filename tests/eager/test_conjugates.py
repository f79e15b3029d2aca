"""Both conventions for complex sources: `conj=True`, TensorFlow's conjugate, and `conj=False`, that of `functad.grad`.

The derivatives expected are finite differences of `Re(sum(seed * f(z)))` along random complex directions.
"""

import numpy as np
import pytest

import functad
from functad import GradientTape
from functad.testing import central_difference
from tests.eager.taped import recorded, taped

FUNCTIONS = {
    "holomorphic": lambda z: np.exp(z) * z,
    "real result": lambda z: np.abs(np.sin(z)) ** 2,
    "conjugate": lambda z: np.conj(z) * z[::-1] + 1j * np.real(z),
    "product": lambda z: np.outer(z, z) @ (z + 1j),
}
Z = np.array([0.3 + 0.4j, -0.7 + 0.2j])


def complex_like(x, seed):
    generator = np.random.default_rng(seed)
    return generator.normal(size=np.shape(x)) + 1j * generator.normal(size=np.shape(x))


def seed_for(f):
    y = f(Z)
    return complex_like(y, 1) if np.iscomplexobj(y) else np.real(complex_like(y, 1))


def slope(f, seed, direction):
    """Return the derivative of `Re(sum(seed * f))` in a direction, by differences of fourth order."""
    return central_difference(lambda z: [np.real(np.sum(seed * f(z)))], [Z], [direction])[0]


def asked(f, seed, **options):
    tape, y, (z,) = taped(f, Z)
    return tape.gradient(y, z, seed, **options).numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_against_differences(name):
    f = FUNCTIONS[name]
    seed = seed_for(f)
    for i in range(3):
        direction = complex_like(Z, 10 + i)
        plain = np.real(np.sum(asked(f, seed, conj=False) * direction))
        assert plain == pytest.approx(slope(f, seed, direction), rel=1e-9)
        turned = np.real(np.sum(np.conj(asked(f, seed)) * direction))
        assert turned == pytest.approx(slope(f, np.conj(seed), direction), rel=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_without_conjugation_are_those_of_vjp(name):
    f = FUNCTIONS[name]
    seed = seed_for(f)
    (expected,) = functad.vjp(f, Z)[1](seed)
    assert np.allclose(asked(f, seed, conj=False), expected, rtol=1e-14)
    assert np.array_equal(asked(f, seed, conj=True), np.conj(asked(f, np.conj(seed), conj=False)))


def modulus(z):
    return np.sum(np.abs(np.sin(z)) ** 2)


def implicitly(form):
    """Return a functional form of implicit gradients as a function of a value."""

    def gradient(z, **options):
        v = functad.Variable(z)
        return form(lambda: modulus(v), **options)()

    return gradient


def looking_back(z, **options):
    with functad.graph():
        z = functad.constant(z)
        return functad.gradients(modulus(z), z, **options)[0]


FORMS = {
    "gradients_function": lambda z, **o: functad.gradients_function(modulus, **o)(z)[0],
    "gradients_function as a decorator": lambda z, **o: functad.gradients_function(**o)(modulus)(z)[0],
    "value_and_gradients_function": lambda z, **o: functad.value_and_gradients_function(**o)(modulus)(z)[1][0],
    "make_vjp": lambda z, **o: functad.make_vjp(**o)(modulus)(z)[1]()[0],
    "implicit_gradients": lambda z, **o: implicitly(functad.implicit_gradients)(z, **o)[0][0],
    "implicit_value_and_gradients": lambda z, **o: implicitly(functad.implicit_value_and_gradients)(z, **o)[1][0][0],
    "gradients": looking_back,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_both(form):
    expected = functad.grad(modulus)(Z)
    assert abs(np.imag(expected)).min() > 0.01
    assert np.allclose(FORMS[form](Z, conj=False).numpy(), expected, rtol=1e-14)
    assert np.allclose(FORMS[form](Z).numpy(), np.conj(expected), rtol=1e-14)
    with pytest.raises(ValueError, match="conj is 'yes'"):
        FORMS[form](Z, conj="yes")


def test_jacobians():
    def f(z):
        return np.exp(z) * z[:, ::-1]

    rows = np.stack([Z, 2 * Z, 1j * Z])
    expected = functad.jacobian(f, holomorphic=True)(rows)
    tape, y, (z,) = taped(f, rows, persistent=True)
    assert np.allclose(tape.jacobian(y, z, conj=False).numpy(), expected, rtol=1e-14)
    assert np.allclose(tape.jacobian(y, z).numpy(), np.conj(expected), rtol=1e-14)
    own = np.stack([expected[i, :, i] for i in range(3)])
    assert np.allclose(tape.batch_jacobian(y, z, conj=False, check=True).numpy(), own, rtol=1e-14)
    assert np.allclose(tape.batch_jacobian(y, z).numpy(), np.conj(own), rtol=1e-14)


@pytest.mark.parametrize("conj", [True, False])
def test_a_source_that_is_the_target_has_its_seed(conj):
    tape, y, (z,) = taped(lambda z: 2 * z, 1 + 2j)
    assert tape.gradient([z, y], z, [3j, None], conj=conj).numpy() == 2 + 3j


def test_second_derivatives_without_conjugation():
    z = functad.constant(1 + 2j)
    with GradientTape() as outer:
        outer.watch(z)
        inner, y = recorded(lambda: z**3, z)
        g = inner.gradient(y, z, conj=False)
    assert np.allclose(outer.gradient(g, z, conj=False).numpy(), 6 * (1 + 2j))


@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_jacobian"])
def test_a_wrong_option_is_refused_before_anything_is_spent(method):
    tape, y, (z,) = taped(lambda z: z * z, [[1 + 2j]])
    with pytest.raises(ValueError, match=r"conj is None, at .*test_conjugates.py"):
        getattr(tape, method)(y, z, conj=None)
    assert tape.gradient(y, z).numpy() == 2 - 4j
