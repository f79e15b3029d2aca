"""Arrays that have the array API standard and none of NumPy's protocols: arrays of JAX and of array-api-strict.

Transforms refuse them with the fix. Beside a Tensor they are constants, whose values NumPy reads.
"""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.errors import ControlFlowError, ConversionError, InputError, OutputError, StructureError, UnsupportedError

X, Y, A = np.array([0.3, -0.7, 1.2]), np.array([1.5, 0.4, -0.2]), np.arange(9.0).reshape(3, 3) / 7 - 0.5


@pytest.fixture(params=["jax", "array_api_strict"])
def library(request):
    """The name of a library, its function `asarray`, and the pattern of the fix in messages."""
    if request.param == "array_api_strict":
        xp = pytest.importorskip("array_api_strict", reason="array-api-strict is in the extra `test`")
        yield (
            "array_api_strict",
            xp.asarray,
            r"Arrays of array_api_strict have none of NumPy's protocols\. Pass np\.asarray\(x\)",
        )
        return
    jax = pytest.importorskip("jax", reason="jax is in the extra `xla`")
    with jax.enable_x64(True):
        fix = r'Arrays of JAX have none .*np\.asarray\(x\); .*functad\.jit\(f, backend="xla"\).*functad\.from_jax\(f\)'
        yield "jax", jax.numpy.asarray, fix


def loss(x):
    return np.sum(np.tanh(x) * x)


# Arguments of transforms


def inside_of_a_tape(x):
    with functad.GradientTape() as tape:
        t = functad.constant(x)
        tape.watch(t)


REFUSED = {
    "grad": (lambda x: functad.grad(loss)(x), InputError, r"grad of loss, called at .*: args\[0\] is "),
    "value_and_grad": (lambda x: functad.value_and_grad(loss)(x), InputError, r"value_and_grad of loss, .*args\[0\]"),
    "by name": (lambda x: functad.grad(lambda *, x: loss(x), argnames="x")(x=x), InputError, r"kwargs\['x'\]"),
    "in a list": (lambda x: functad.grad(lambda w: loss(w[1]))([X, x]), InputError, r"args\[0\]\[1\] is "),
    "in a dict": (lambda x: functad.grad(lambda w: loss(w["a"][0]))({"a": [x]}), InputError, r"args\[0\]\['a'\]\[0\] is "),
    "jvp": (lambda x: functad.jvp(np.sin, (x,), (X,)), InputError, r"jvp of sin"),
    "tangent": (lambda x: functad.jvp(np.sin, (X,), (x,)), StructureError, r"tangents\[0\] is "),
    "vjp": (lambda x: functad.vjp(np.sin, x), InputError, r"vjp of sin"),
    "cotangent": (lambda x: functad.vjp(np.sin, X)[1](x), StructureError, r"g is "),
    "linearize": (lambda x: functad.linearize(np.sin, x), InputError, r"linearize of sin"),
    "linear_transpose": (lambda x: functad.linear_transpose(np.cumsum, x), InputError, r"linear_transpose of cumsum"),
    "jacobian": (lambda x: functad.jacobian(np.sin)(x), InputError, r"jacobian of sin"),
    "hessian": (lambda x: functad.hessian(loss)(x), InputError, r"hessian of loss"),
    "elementwise_grad": (lambda x: functad.elementwise_grad(np.sin)(x), InputError, r"elementwise_grad of sin"),
    "sparse_jacobian": (lambda x: functad.sparse_jacobian(np.sin)(x), InputError, r"sparse_jacobian of sin"),
    "vmap": (lambda x: functad.vmap(loss)(x), InputError, r"vmap of loss, .*args\[0\] is "),
    "jit": (lambda x: functad.jit(loss)(x), InputError, r"jit of loss"),
    "jit, numpy": (lambda x: functad.jit(loss, backend="numpy")(x), InputError, r"jit of loss"),
    "jit, in a dict": (lambda x: functad.jit(lambda w: loss(w["a"]))({"a": x}), InputError, r"jit of <lambda>"),
    "make_expressions": (lambda x: functad.make_expressions(loss)(x), InputError, r"make_expressions of loss.*: x is "),
    "list": (lambda x: functad.make_expressions(loss)(X)(x), StructureError, r"as x was called with an? \w*Array"),
    "scan": (lambda x: functad.scan(lambda c, v: (c + v, v), 0.0, x), ControlFlowError, r"scan of <lambda>.*: xs is "),
    "ravel": (lambda x: functad.ravel({"x": x}), InputError, r"ravel, called at .*tree\['x'\]"),
    "constant": (inside_of_a_tape, InputError, r"constant\(\) of "),
    "Variable": (lambda x: functad.Variable(x), InputError, r"Variable\(\) of "),
    "minimize": (lambda x: functad.optimize.minimize(loss, x), InputError, r"minimize of loss, .*x0 is "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_are_refused_with_the_line_and_the_fix(name, library):
    call, error, said = REFUSED[name]
    if name == "minimize":
        pytest.importorskip("scipy", reason="SciPy minimises")
    with pytest.raises(error, match=said) as raised:
        call(library[1](X))
    assert "test_array_api_alone.py:" in str(raised.value)
    raised.match(library[2])


def test_a_tape_watches_no_such_array(library):
    with functad.GradientTape() as tape, pytest.raises(functad.errors.SourceError, match=r"x = functad\.constant\(value\)"):
        tape.watch(library[1](X))


def test_explain_names_the_fix(library):
    (finding,) = functad.explain(loss, library[1](X)).findings
    assert finding.status == "refused"
    assert "np.asarray(x)" in str(finding)


def test_results_without_a_dtype_of_numpy_are_refused():
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is in the extra `test`")
    for transform in (functad.jacobian, functad.vmap, functad.jit, functad.make_expressions):
        with pytest.raises(OutputError, match=r"result is an array of array_api_strict\.float64.*Return np\.asarray of it"):
            transform(lambda x: xp.asarray(Y))(X)


# Constants beside Tensors


def written(x, y):
    z = x * 2
    z[1:] = y[1:]
    z += y
    return np.sum(z * x)


CONSTANTS = {
    "t * a": lambda t, y, a: np.sum(t * y + t / y - t**y),
    "t @ a": lambda t, y, a: np.sum(t @ a),
    "comparison": lambda t, y, a: np.sum((t > y) * t),
    "np.add(t, a)": lambda t, y, a: np.sum(np.add(t, y) ** 2),
    "np.add(a, t)": lambda t, y, a: np.sum(np.add(y, t) ** 2 + np.subtract.outer(y, t)),
    "function": lambda t, y, a: np.sum(np.dot(a, t) * np.linalg.solve(np.eye(3), t * y)),
    "keyword": lambda t, y, a: np.average(t**2, weights=y),
    "list": lambda t, y, a: np.sum(np.stack([y, t]) ** 2) + np.sum(np.concatenate((t, y))[2:] ** 3),
    "where": lambda t, y, a: np.sum(np.where(y > 0, t**2, t * y)),
    "method": lambda t, y, a: np.sum(t.dot(a)) + np.sum(np.clip(t, y - 1, y + 1)),
    "mask": lambda t, y, a: np.sum(t[y > 0] ** 2),
    "write": lambda t, y, a: written(t, y),
    "pad": lambda t, y, a: np.sum(np.pad(t, 1, constant_values=y[0]) ** 2),
    "cond": lambda t, y, a: functad.cond(y[0] > 0, lambda t: np.sum(t**2), np.sum, t),
    "times": lambda t, y, a: np.sum(functad.odeint(lambda u, s: -u * t, t, y[::-1])),
    "scan": lambda t, y, a: functad.scan(lambda c, v: (c * v + v * y, None), t, X)[0][0],
}


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize(
    "transform",
    [functad.grad, lambda f: functad.jit(functad.grad(f)), lambda f: lambda x: functad.hvp(f, (x,), (Y,))],
    ids=["grad", "jit", "hvp"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a negative number to a power
def test_constants_beside_tensors_are_read(name, transform, library):
    f, asarray = CONSTANTS[name], library[1]
    y, a = asarray(Y), asarray(A)
    found = transform(lambda t: f(t, y, a))(X)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, transform(lambda t: f(t, Y, A))(X))


def test_constants_are_captured_batched_and_given(library):
    asarray = library[1]
    y = asarray(Y)
    np.testing.assert_array_equal(functad.grad(lambda t, y: np.sum(t * y))(X, y), Y)
    np.testing.assert_array_equal(functad.vmap(lambda t, y: t * y, in_axes=(0, None))(A, y), A * Y)
    np.testing.assert_array_equal(functad.grad(lambda t: np.sum(t[asarray(np.array([0, 0, 2]))]))(X), [2.0, 0.0, 1.0])
    np.testing.assert_array_equal(functad.grad(lambda t: t[asarray(np.array(1))] ** 2)(X), [0.0, -1.4, 0.0])
    with pytest.raises(IndexError):
        functad.grad(lambda t: t[y])(X)
    value, aux = functad.grad(lambda t: (np.sum(t * y), y), has_aux=True)(X)
    np.testing.assert_array_equal(value, Y)
    assert aux is y


@pytest.mark.parametrize("make", [functad.constant, functad.Variable], ids=["constant", "Variable"])
def test_constants_on_tapes_are_read(make, library):
    x, y = make(X), library[1](Y)
    with functad.GradientTape() as tape:
        tape.watch(x)
        value = np.sum(x * y + np.add(y, x) * x)
    np.testing.assert_array_equal(tape.gradient(value, x).numpy(), Y + Y + 2 * X)


def test_variables_are_assigned_values(library):
    """`jit(f, backend="xla")` returns arrays of JAX. Programs assign these arrays to Variables."""
    v = functad.Variable(X)
    v.assign(library[1](Y))
    v.assign_add(library[1](Y))
    v[0].assign(library[1](X)[0])
    np.testing.assert_array_equal(v.numpy(), [X[0], *(2 * Y[1:])])
    functad.optimizers.SGD(0.5).apply_gradients([(library[1](X), v)])
    np.testing.assert_allclose(v.numpy(), [X[0], *(2 * Y[1:])] - 0.5 * X)


LEFT = {
    "a * t": lambda t, y, a: np.sum(y * t),
    "a @ t": lambda t, y, a: np.sum(a @ t),
    "a - t": lambda t, y, a: np.sum((y - t) ** 2),
    "a > t": lambda t, y, a: np.sum((y > t) * t),
}


@pytest.mark.parametrize("name", LEFT)
def test_on_the_left_of_an_operator(name, library):
    """JAX leaves the operator to the Tensor, array-api-strict raises."""
    f, (known, asarray, _) = LEFT[name], library
    y, a = asarray(Y), asarray(A)
    if known == "jax":
        np.testing.assert_array_equal(functad.grad(lambda t: f(t, y, a))(X), functad.grad(lambda t: f(t, Y, A))(X))
        return
    with pytest.raises(ConversionError, match=r"test_array_api_alone\.py:\d+.*Use np\.asarray\(X\) @ t"):
        functad.grad(lambda t: f(t, y, a))(X)


def test_on_the_left_of_an_operator_on_a_tape(library):
    x, y = functad.constant(X), library[1](Y)
    with functad.GradientTape() as tape:
        tape.watch(x)
        if library[0] != "jax":
            with pytest.raises((ConversionError, TypeError), match=r"np\.asarray\(X\) @ t|Expected Array"):
                y * x
            return
        value = np.sum(y * x)
    np.testing.assert_array_equal(tape.gradient(value, x).numpy(), Y)


# What cannot be read


def test_arrays_that_numpy_cannot_read_raise():
    """They are on a device from which nothing can be converted to NumPy."""
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is in the extra `test`")
    y = xp.asarray(Y, device=xp.Device("device1"))
    for f in (lambda t: t * y, lambda t: np.add(y, t), lambda t: np.dot(t, y), lambda t: np.stack([t, y])):
        with pytest.raises(UnsupportedError, match=r"of a Array, at .*\.py:\d+: NumPy cannot read it"):
            functad.jacobian(f)(X)


BESIDE = {
    "t * a": lambda t, a: t * a,
    "a * t": lambda t, a: a * t,
    "a @ t": lambda t, a: a @ t,
    "a < t": lambda t, a: (a < t) * t,
    "np.add(a, t)": lambda t, a: np.add(a, t),
    "stack": lambda t, a: np.stack([t, a]),
    "index": lambda t, a: t[a],
    "write": lambda t, a: np.stack([t, t]).__setitem__(0, a),
}


class TestValuesThatJaxTraces:
    """Tracers of JAX have no values. Each operation that reads a value raises, and the message names the bridge."""

    FIX = r"JAX traces the function that runs\. Use functad\.to_jax\(f\)"

    @pytest.fixture(autouse=True)
    def jax(self):
        """JAX, in double precision."""
        jax = pytest.importorskip("jax", reason="jax is in the extra `xla`")
        with jax.enable_x64(True):
            yield jax

    @pytest.mark.parametrize("name", BESIDE)
    @pytest.mark.parametrize("of_jax", ["jit", "grad"])
    def test_beside_tensors(self, of_jax, name, jax):
        f = BESIDE[name]

        def outer(a):
            return functad.grad(lambda t: np.sum(f(t, a)))(X)[0]

        with pytest.raises(UnsupportedError, match=rf"test_array_api_alone\.py:\d+: NumPy cannot read it.*{self.FIX}"):
            getattr(jax, of_jax)(outer)(jax.numpy.asarray(Y))

    @pytest.mark.parametrize("transform", [functad.grad, functad.vmap, functad.jit, functad.hessian, functad.make_expressions])
    def test_arguments(self, transform, jax):
        with pytest.raises(InputError, match=self.FIX):
            jax.jit(lambda a: transform(np.sum)(a))(jax.numpy.asarray(X))

    def test_the_bridge_takes_them(self, jax):
        found = jax.jit(jax.grad(functad.to_jax(loss)))(jax.numpy.asarray(X))
        np.testing.assert_allclose(found, functad.grad(loss)(X))


# The backend `xla`


class TestCompiledForXla:
    """The backend `xla` takes arrays of JAX, and returns them."""

    @pytest.fixture(autouse=True)
    def jax(self):
        """JAX, in double precision."""
        jax = pytest.importorskip("jax", reason="jax is in the extra `xla`")
        with jax.enable_x64(True):
            yield jax

    def test_constants(self, jax):
        y, a = jax.numpy.asarray(Y), jax.numpy.asarray(A)
        for f in (lambda x: np.sum(np.sin(x) * y), lambda x: np.sum(y * np.sin(x)), lambda x: np.sum(a @ x)):
            found = functad.jit(functad.grad(f), backend="xla")(X)
            assert isinstance(found, jax.Array)
            np.testing.assert_allclose(found, functad.grad(f)(X))

    def test_constant_results(self, jax):
        y = jax.numpy.asarray(Y)
        found = functad.jit(lambda x: (y, x * 2), backend="xla")(X)
        assert all(isinstance(leaf, jax.Array) for leaf in found)
        np.testing.assert_array_equal(found[0], Y)

    def test_other_libraries_are_refused(self):
        xp = pytest.importorskip("array_api_strict", reason="array-api-strict is in the extra `test`")
        with pytest.raises(InputError, match=r"Arrays of array_api_strict have none of NumPy's protocols"):
            functad.jit(loss, backend="xla")(xp.asarray(X))

    def test_the_function_itself_runs_on_arrays_of_numpy(self, jax):
        """It runs in place of the compiled one where operations are observed, or errors of floating-point numbers are heard."""
        compiled, x = functad.jit(functad.grad(loss), backend="xla"), jax.numpy.asarray(X)
        with functad.debug_nans():
            np.testing.assert_allclose(compiled(x), functad.grad(loss)(X))
        with np.errstate(all="raise"):
            np.testing.assert_allclose(compiled(x), functad.grad(loss)(X))
