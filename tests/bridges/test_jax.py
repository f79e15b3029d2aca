"""`from_jax` and `to_jax`, against JAX itself, functad's own derivatives of the same function, and differences.

With `FUNCTAD_BRIDGES=1` all transforms run on functions that JAX has not compiled too, for which it compiles one operation
after the other.
"""

import os
import pickle

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, InputError, MissingPackageError
from functad.testing import check_grads

jax = pytest.importorskip("jax", reason="JAX is an extra")
jnp = jax.numpy

X = np.array([0.5, -1.0, 2.0])
W = {"w": np.array([1.0, 2.0, -0.5]), "b": np.array(0.3)}


def program(np):
    """Return one function as it is written with NumPy, or with `jax.numpy`."""

    def f(x, params, shift=0):
        z = np.sin(x) * params["w"] + params["b"] + shift
        return {"value": np.sum(z * z * z), "largest": np.argmax(z), "z": (z, [-z])}

    return f


OURS, THEIRS = program(np), program(jnp)


def scalar(f):
    return lambda x, params: f(x, params)["value"]


def close(found, expected, rtol=1e-12):
    leaves, structure = functad.tree_flatten(found)
    others, own = functad.tree_flatten(expected)
    assert structure == own
    for a, b in zip(leaves, others, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


# Functions of JAX in programs of NumPy

TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: functad.grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda x, w: functad.jvp(f, (x, w), (x, w)),
    "jacfwd": lambda f: functad.jacfwd(functad.grad(f)),
    "third": lambda f: functad.jacrev(functad.hessian(f)),
    "hvp": lambda f: lambda x, w: functad.hvp(f, (x, w), (x, w)),
    "vmap": lambda f: lambda x, w: functad.vmap(functad.grad(f), in_axes=(0, None))(np.stack([x, 2 * x]), w),
    "vmap_of_parameters": lambda f: lambda x, w: functad.vmap(f, (None, {"w": None, "b": 0}))(x, {**w, "b": np.ones(2)}),
    "grad_of_vmap": lambda f: functad.grad(lambda x, w: np.sum(functad.vmap(f, (0, None))(np.stack([x, x**2]), w)), argnums=1),
    "jit": lambda f: functad.jit(functad.value_and_grad(f)),
    "list": lambda f: lambda x, w: functad.make_expressions(functad.grad(f))(x, w)(x + 1, w),
    "linearize": lambda f: lambda x, w: functad.linearize(f, x, w)[1](x, w),
}


# JAX compiles each operation of a function that is not jitted, which takes seconds.
CASES = [(transform, compiled) for transform in TRANSFORMS for compiled in (True, False)]
CASES = [case for case in CASES if case[1] or case[0] in ("grad", "jvp", "vmap") or os.environ.get("FUNCTAD_BRIDGES")]


@pytest.mark.parametrize(("transform", "compiled"), CASES)
def test_transforms_of_a_function_of_jax(transform, compiled):
    f = functad.from_jax(jax.jit(THEIRS) if compiled else THEIRS)
    made = TRANSFORMS[transform]
    close(made(scalar(f))(X, W), made(scalar(OURS))(X, W))


def test_differences():
    check_grads(scalar(functad.from_jax(jax.jit(THEIRS))), (X, W), order=2)


def test_results_have_the_structure_and_integers_no_derivative():
    f = functad.from_jax(THEIRS)
    close(f(X, W, shift=2), OURS(X, W, shift=2))
    assert type(f(X, W)["z"][0]) is np.ndarray
    f(X, W)["z"][0][0] = 1.0  # which is the caller's own
    gather = functad.from_jax(lambda x, i: x[i] * i)
    close(functad.grad(lambda x, i: np.sum(gather(x, i)))(X, np.array([2, 2, 0])), np.array([0.0, 0.0, 4.0]))
    _, tangent = functad.jvp(lambda x: f(x, W), (X,), (X,))
    close(tangent["value"], functad.jvp(lambda x: OURS(x, W), (X,), (X,))[1]["value"])


def test_tape():
    f, x = functad.from_jax(jax.jit(THEIRS)), functad.Variable(X)
    with functad.GradientTape() as tape:
        value = scalar(f)(x, W)
    close(tape.gradient(value, x).numpy(), functad.grad(scalar(OURS))(X, W))


def test_complex_gradients_follow_one_convention():
    z = np.array([1 + 2j, 3 - 1j])
    ours, theirs = (lambda z, np=np: np.sum(np.abs(z**2 * np.array([1j, 2]) + np.conj(z))) for np in (np, jnp))
    close(functad.grad(functad.from_jax(theirs))(z), functad.grad(ours)(z))


@pytest.mark.parametrize(("dtype", "expected"), [("f4", "f4"), ("f8", "f8"), ("c8", "c8"), ("i8", "i8"), ("i4", "i4")])
def test_precision_is_that_of_the_arguments(dtype, expected):
    f = functad.from_jax(lambda x, y: x * y + 1)
    assert not jax.config.jax_enable_x64
    assert f(X.astype(dtype), 2).dtype == expected
    assert f(X.astype(dtype), np.ones(3, "i4")).dtype == expected
    assert functad.grad(lambda x: f(x, 2.0))(0.1) == 2.0
    assert f(2**40 + X.astype("i8"), 1)[0] == 2**40 + 1  # not cut to 32 bits


def test_branches_on_values_and_what_is_no_array():
    def f(x, power, name):
        return x**power if name == "power" and x[0] > 0 else -x

    f = functad.from_jax(f)
    slope = functad.grad(lambda x: np.sum(f(x, 3, "power")))
    close(slope(X), 3 * X**2)
    close(slope(-X), np.array([-1.0, -1.0, -1.0]))
    close(functad.jit(slope)(X), 3 * X**2)
    close(functad.from_jax(lambda x, unhashable: x * unhashable["by"]())(X, {"by": lambda: 2.0}), 2 * X)


def test_arrays_of_jax_and_what_it_traces_go_to_the_function_itself():
    f = functad.from_jax(jax.jit(THEIRS))
    assert isinstance(f(jnp.ones(3), W)["value"], jax.Array)
    close(jax.jit(jax.grad(lambda x: f(x, W)["value"]))(X), functad.grad(scalar(OURS))(X, W), 1e-6)
    found = functad.grad(lambda x: f(x, {"w": jnp.ones(3), "b": 1.0})["value"])(X)  # beside a Tensor they are constants
    close(found, functad.grad(lambda x: OURS(x, {"w": np.ones(3), "b": 1.0})["value"])(X))


@functad.from_jax
def named(x):
    """Say what it is."""
    return jnp.sin(x)


def sine(x):
    return jnp.sin(x)


@pytest.mark.parametrize("transform", ["value", "grad", "jvp", "hvp", "vmap", "third"])
def test_they_are_parts_of_programs_of_xla(transform):
    f = TRANSFORMS[transform](scalar(functad.from_jax(THEIRS)))
    compiled = functad.jit(f, backend="xla")
    close(compiled(X, W), f(X, W))
    assert "computed by NumPy" not in compiled.lower(X, W).source()


def test_a_branch_on_a_value_is_taken_on_the_host_in_a_program_of_xla():
    f = functad.from_jax(lambda x: jnp.sin(x) if x[0] > 0 else x * x)
    slope = functad.jit(functad.grad(lambda x: np.sum(f(x) * x)), backend="xla")
    for x in (X, -X):
        close(slope(x), functad.grad(lambda x: np.sum(f(x) * x))(x))


class TestArraysOfJaxWithoutABridge:
    """Eager transforms compute with NumPy. They refuse arrays of JAX with the fix, and read them as constants."""

    F = staticmethod(lambda x: np.sum(np.sin(x) * x))

    @pytest.mark.parametrize("given", [jnp.arange(3.0), jnp.float32(2.0)])
    @pytest.mark.parametrize("call", [functad.grad, lambda f: lambda x: functad.jvp(f, (x,), (x,))])
    def test_arguments(self, call, given):
        with pytest.raises(InputError, match=r'np\.asarray\(x\); .*functad\.jit\(f, backend="xla"\).*functad\.from_jax\(f\)'):
            call(self.F)(given)
        close(call(self.F)(np.asarray(given)), call(functad.jit(self.F, backend="numpy"))(np.asarray(given)), 1e-6)

    def test_starts_of_an_optimisation(self):
        pytest.importorskip("scipy", reason="SciPy minimises")
        with pytest.raises(InputError, match=r"x0 is a ArrayImpl\. .*np\.asarray\(x\)"):
            functad.optimize.minimize(lambda x: np.sum(x * x), jnp.arange(3.0))

    def test_results_of_compiled_functions(self):
        """They are arrays of JAX. Compiled functions take them again, and eager ones take them as arrays of NumPy."""
        step = functad.jit(functad.grad(self.F), backend="xla")
        first = step(X)
        assert isinstance(first, jax.Array)
        close(step(first), functad.grad(self.F)(functad.grad(self.F)(X)))
        close(functad.grad(self.F)(np.asarray(first)), step(first))

    def test_constants_beside_tensors(self):
        """NumPy reads their values, and computes with them in its own precision."""
        x = jnp.asarray(X, dtype=np.float32)
        found = functad.grad(lambda w: np.sum(np.sin(w) * x))(X)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, np.cos(X) * np.asarray(x))

    @pytest.mark.parametrize(
        "f", [lambda w: jnp.ones(3) @ w, lambda w: np.sum(jnp.ones(3) + w), lambda w: np.sum(w - jnp.zeros(3))]
    )
    def test_constants_on_both_sides(self, f):
        with jax.enable_x64(True):
            close(functad.grad(f)(X), np.ones(3))

    @pytest.mark.parametrize("f", [jnp.sum, lambda w: jnp.dot(jnp.ones(3), w), jax.jit(jnp.sum)])
    def test_functions_of_jax_name_the_bridge(self, f):
        with pytest.raises(ConversionError, match=r"test_jax.py:\d+.*would lose its derivative. Use functad.from_jax"):
            functad.grad(lambda w: f(w))(X)


def test_names_and_pickles():
    assert (named.__name__, named.__doc__, repr(named)) == ("named", "Say what it is.", "<from_jax of named>")
    assert pickle.loads(pickle.dumps(named)) is named
    again = pickle.loads(pickle.dumps(functad.grad(functad.from_jax(sine))))
    assert float(again(0.0)) == 1.0


def test_python_numbers_alone():
    double = functad.from_jax(lambda x, n=2: {"x": n * x, "n": n})
    assert (double(1.5), double(n=3, x=2)) == ({"x": 3.0, "n": 2}, {"x": 6, "n": 3})
    assert type(double(1.5)["x"]) is np.float64
    assert functad.grad(functad.from_jax(lambda x: x**2))(1.5) == 3.0


def test_what_is_refused():
    with pytest.raises(InputError, match=r"<from_jax of .*<lambda>>, called at .*test_jax.py:\d+, returned a float, but"):
        functad.from_jax(lambda x: 1.0)(X)


@pytest.mark.parametrize("bridge", [functad.from_jax, functad.to_jax])
def test_without_jax(bridge, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(MissingPackageError, match=rf"{bridge.__name__}, at .*, needs JAX: pip install 'functad\[xla\]'"):
        bridge(np.sin)


# Functions of NumPy in programs of JAX

OF_JAX = {
    "value": lambda f: f,
    "grad": lambda f: jax.grad(f, argnums=(0, 1)),
    "jacrev": lambda f: jax.jacrev(jax.grad(f)),
    "third": lambda f: jax.jacrev(jax.jacrev(jax.grad(f))),
    "vmap": lambda f: lambda x, w: jax.vmap(jax.grad(f), (0, None))(jnp.stack([x, 2 * x]), w),
    "vmap_twice": lambda f: (
        lambda x, w: jax.vmap(jax.vmap(f, (0, None)), (None, {"b": None, "w": 0}))(
            jnp.stack([x, 2 * x]), {**w, "w": jnp.ones((4, 3))}
        )
    ),
    "vmap_of_one": lambda f: lambda x, w: jax.vmap(jax.grad(f, argnums=1), (0, None))(x[None], w),
    "grad_of_vmap": lambda f: jax.grad(lambda x, w: jnp.sum(jax.vmap(f, (0, None))(jnp.stack([x, x**2]), w)), argnums=1),
    "scan": lambda f: lambda x, w: jax.lax.scan(lambda c, s: (c + jax.grad(f)(c * s, w), c), x, jnp.arange(3.0))[0],
}


CASES_OF_JAX = [(transform, compiled) for transform in OF_JAX for compiled in (True, False)]
CASES_OF_JAX = [case for case in CASES_OF_JAX if case[1] or case[0] == "grad" or os.environ.get("FUNCTAD_BRIDGES")]


@pytest.mark.parametrize(("transform", "compiled"), CASES_OF_JAX)
def test_transforms_of_jax(transform, compiled):
    with jax.enable_x64(True):
        x, w = jnp.array(X), jax.tree.map(jnp.array, W)
        found = OF_JAX[transform](scalar(functad.to_jax(OURS)))
        close((jax.jit(found) if compiled else found)(x, w), jax.jit(OF_JAX[transform](scalar(THEIRS)))(x, w))


def test_jax_checks_the_gradients():
    from jax import test_util

    with jax.enable_x64(True):
        test_util.check_grads(scalar(functad.to_jax(OURS)), (jnp.array(X), W), order=2, modes=["rev"])


def test_32_bits_without_the_switch_of_jax():
    seen = []

    @functad.to_jax
    def f(x, i):
        seen.append((x.dtype.name, i.dtype.name))
        return np.float64(3.0) * x[i].sum(), i

    for call in (f, jax.jit(f)):
        value, index = call(X, np.array([2, 2]))
        assert (value.dtype, index.dtype, float(value)) == (np.float32, np.int32, 12.0)
    assert set(seen) == {("float32", "int32")}
    for call in (jax.grad(lambda x, i: f(x, i)[0]), jax.jit(jax.grad(lambda x, i: f(x, i)[0]))):
        slope = call(jnp.array(X), jnp.array([2, 2]))
        assert slope.dtype == np.float32
        close(slope, np.array([0.0, 0.0, 6.0]))


def test_branches_on_values_in_compiled_programs():
    f = functad.to_jax(lambda x, kind: x**3 if kind == "cube" and float(functad.stop_gradient(x)) > 0 else -x)
    slope = jax.grad(lambda x: f(x, "cube"))
    assert [float(call(x)) for call in (slope, jax.jit(slope)) for x in (2.0, -2.0)] == [12.0, -1.0, 12.0, -1.0]


def test_there_and_back():
    f = functad.to_jax(functad.from_jax(lambda x: jnp.sum(jnp.sin(x))))
    close(jax.jit(jax.grad(f))(X), np.cos(X), 1e-6)
    close(functad.grad(functad.from_jax(functad.to_jax(lambda x: np.sum(np.sin(x)))))(X), np.cos(X))
