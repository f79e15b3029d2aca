"""What TensorFlow can do: see `feature_probes.py`."""

from __future__ import annotations

import math
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

from .feature_probes import NO, PARTLY, YES, Probes, close, has_parameter, nothing_named, refused, requirements

probe = Probes("tensorflow", "tensorflow-cpu")
EVERYWHERE = (tf, tf.autodiff, tf.math, tf.linalg, tf.nest, tf.nn, tf.experimental)
X = tf.constant([0.5, 1.0, 2.0], tf.float64)
T = tf.constant(0.3, tf.float64)
NO_TRANSFORMS = "no transforms of functions; by a tape or an accumulator"


def gradient(f, x):
    """Return the gradient by a tape."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = f(x)
    return tape.gradient(value, x)


def tangent(f, x, t):
    """Return the derivative in a direction by an accumulator."""
    with tf.autodiff.ForwardAccumulator(x, t) as accumulator:
        value = f(x)
    return accumulator.jvp(value)


# NumPy


@probe(NO, "`tf` or `tf.experimental.numpy` instead; NumPy returns constants, whose gradient is `None`")
def numpy_functions():
    assert gradient(lambda x: np.sum(np.sin(x)) * tf.ones([], tf.float64), X) is None


@probe(NO, "no ufuncs; `cumsum`, `tensor_scatter_nd_add` and others by their own names")
def ufunc_methods():
    assert not hasattr(tf.add, "reduce")
    assert not hasattr(tf.add, "accumulate")


@probe(NO, "tensors are immutable; `tf.tensor_scatter_nd_update` gives a copy, and assigning to a variable cuts the path")
def assignment():
    def f(x):
        x[0] = 1.0
        return x

    with refused(TypeError):
        gradient(f, X)


@probe(PARTLY, "behind a switch (`experimental_enable_numpy_behavior`); else float32, and float32 + float64 raises")
def dtypes():
    assert tf.constant(1.0).dtype == tf.float32
    with refused():
        tf.ones(2, tf.float32) + tf.ones(2, tf.float64)
    switched = """
import tensorflow as tf
tf.experimental.numpy.experimental_enable_numpy_behavior()
print((tf.ones(2, tf.float32) + tf.ones(2, tf.float64)).dtype.name)
"""
    printed = subprocess.run([sys.executable, "-c", switched], capture_output=True, text=True, check=True).stdout
    assert printed.split()[-1] == "float64"


@probe(PARTLY, "gradients of real functions; no complex derivative by a switch")
def complex_numbers():
    z = tf.constant(1.0 + 2.0j, tf.complex128)
    close(gradient(lambda z: tf.abs(z) ** 2, z), 2 + 4j)
    assert not has_parameter(tf.GradientTape, "holomorphic")


@probe(PARTLY, "no derivative of complete `qr`")
def linear_algebra():
    matrix = tf.constant([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0]], tf.float64)
    assert np.isfinite(gradient(lambda a: tf.reduce_sum(tf.linalg.lstsq(a, tf.ones((3, 1), tf.float64))), matrix)).all()
    with refused():
        gradient(lambda a: tf.reduce_sum(tf.linalg.qr(a, full_matrices=True)[0]), matrix)


@probe(NO, "silently wrong: zeros off the diagonal")
def degenerate_eigenvalues():
    def f(a):
        values, vectors = tf.linalg.eigh(a)
        return tf.reduce_sum(tf.matmul(vectors * tf.exp(values), vectors, transpose_b=True))

    measured = (f(tf.ones((3, 3), tf.float64) * 1e-6 + tf.eye(3, dtype=tf.float64)) - f(tf.eye(3, dtype=tf.float64))) / 1e-6
    close(measured, 9 * math.e, rtol=1e-4)
    close(tf.reduce_sum(gradient(f, tf.eye(3, dtype=tf.float64))), 3 * math.e)


@probe(PARTLY, "some 30 functions of `tf.math` and `tf.math.special`; `igamma` by both arguments")
def scipy_special():
    close(gradient(lambda a: tf.math.igamma(a, tf.ones([], tf.float64)), X[2]), -0.278, rtol=0.1)
    nothing_named("hyp2f1", "pdtr", among=(tf.math, tf.math.special))


@probe(YES)
def python_control_flow():
    close(gradient(lambda x: x**2 if x > 0 else -x, T), 0.6)


# Derivatives


@probe(PARTLY, NO_TRANSFORMS)
def grad():
    nothing_named("grad_of", "value_and_grad", among=(tf, tf.autodiff))
    close(gradient(lambda x: x**2, T), 0.6)


@probe(YES, "nested tapes")
def higher_order():
    close(gradient(lambda x: gradient(lambda x: gradient(tf.sin, x), x), T), -np.cos(0.3))


@probe(PARTLY, NO_TRANSFORMS)
def jvp():
    close(tangent(tf.sin, T, 2 * T), 0.6 * np.cos(0.3))


@probe(PARTLY, "`tape.gradient(output_gradients=)`")
def vjp():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.sin(X)
    close(tape.gradient(y, X, output_gradients=X), X * np.cos(X))


@probe(PARTLY, "`tape.jacobian`, reverse mode only")
def jacobian():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = X**2
    close(tape.jacobian(y, X), np.diag(2 * X))
    nothing_named("jac", among=(tf, tf.autodiff, tf.autodiff.ForwardAccumulator))


@probe(PARTLY, "`tape.jacobian(parallel_iterations=)`, one row after the other; no choice of the mode")
def jacobian_chunks():
    assert has_parameter(tf.GradientTape.jacobian, "parallel_iterations")
    assert not has_parameter(tf.GradientTape.jacobian, "mode")


@probe(YES, "with a tape, the value is available")
def value_and_jacobian():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = X**2
    close(tape.jacobian(y, X), np.diag(2 * X))
    close(y, X**2)


@probe(PARTLY, "`jacobian` of a nested tape; `tf.hessians` in graphs only")
def hessian():
    with tf.GradientTape() as tape:
        tape.watch(X)
        slope = gradient(lambda x: tf.reduce_sum(x**3), X)
    close(tape.jacobian(slope, X), np.diag(6 * X))
    with refused(RuntimeError):
        tf.hessians(tf.reduce_sum(X**3), X)


@probe(PARTLY, "an accumulator around a tape; no function")
def hvp():
    nothing_named("hvp", among=EVERYWHERE)
    close(tangent(lambda x: gradient(lambda x: tf.reduce_sum(x**3), x), X, tf.ones_like(X)), 6 * X)


@probe(PARTLY, "written by hand from accumulator and tape")
def gauss_newton():
    nothing_named("gauss_newton", "ggn", among=EVERYWHERE)
    pushed = tangent(tf.sin, X, tf.ones_like(X))
    close(gradient(lambda x: tf.reduce_sum(tf.sin(x) * pushed), X), np.cos(X) ** 2)


# Batches


@probe(PARTLY, "`tf.vectorized_map`: leading axes only")
def vmap():
    close(tf.vectorized_map(lambda x: x**2, X), X**2)
    assert not any(has_parameter(tf.vectorized_map, name) for name in ("in_axes", "axis", "out_axes"))


@probe(NO, "no chunks")
def vmap_chunks():
    assert not has_parameter(tf.vectorized_map, "chunk_size")


@probe(NO, "`tf` functions instead")
def vmap_numpy():
    with refused():
        tf.vectorized_map(lambda x: np.sum(np.sin(x)), tf.ones((2, 3)))


@probe(YES, "`vectorized_map` of a tape, or `batch_jacobian`")
def per_example_gradients():
    close(tf.vectorized_map(lambda x: gradient(lambda x: tf.reduce_sum(x**2), x), tf.ones((2, 3))), 2 * np.ones((2, 3)))


@probe(NO, "converters of graph operations are private")
def batch_rule():
    nothing_named("pfor", "batching", "register_batch", among=(tf, tf.autodiff, tf.raw_ops.__class__))


# Rules of one's own


@tf.custom_gradient
def tenfold_sine(x):
    return tf.sin(x), lambda g: g * 10 * tf.cos(x)


@probe(YES)
def custom_rule():
    close(gradient(tenfold_sine, T), 10 * np.cos(0.3))


@probe(YES, "`tf.custom_gradient` around `tf.numpy_function`")
def new_primitive():
    @tf.custom_gradient
    def bessel(x):
        y = tf.numpy_function(lambda x: np.asarray(np.sin(x)), [x], tf.float64)
        return y, lambda g: g * tf.numpy_function(lambda x: np.asarray(np.cos(x)), [x], tf.float64)

    close(gradient(bessel, T), np.cos(0.3))


@probe(NO, "no such function")
def numerical_primitive():
    nothing_named("numerical", "finite_diff", "complex_step", among=(tf, tf.autodiff, tf.math))


@probe(PARTLY, "`tf.recompute_grad`, without policies")
def checkpoint_policies():
    close(gradient(tf.recompute_grad(lambda x: tf.sin(x) ** 2), T), np.sin(0.6))
    assert not has_parameter(tf.recompute_grad, "policy")


# Control flow


@probe(YES)
def cond():
    close(gradient(tf.function(lambda x: tf.cond(x > 0, lambda: x**2, lambda: -x)), T), 0.6)
    close(gradient(tf.function(lambda x: tf.switch_case(tf.constant(1), [lambda: -x, lambda: x**2])), T), 0.6)


@probe(PARTLY, "`tf.scan`, `tf.map_fn`; no `fori_loop`, and `associative_scan` only in another package")
def scan():
    close(gradient(tf.function(lambda x: tf.scan(lambda c, r: c * r, X, x)[-1]), T), 1)
    nothing_named("associative", "fori", among=EVERYWHERE)


@probe(YES)
def while_loop_reverse():
    f = tf.function(lambda x: tf.while_loop(lambda c: c < 100, lambda c: [c * c], [x])[0])
    close(gradient(f, tf.constant(3.0, tf.float64)), 8 * 3.0**7)


# Trees and models


@probe(PARTLY, "containers and dataclasses with two methods in `tf.nest`; no registration of foreign classes")
def trees():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = X**2
    close(tape.gradient(y, {"a": [X]})["a"][0], 2 * X)
    nothing_named("register", among=(tf.nest,))


@probe(YES)
def tape():
    close(gradient(lambda x: x**2, T), 0.6)


@probe(YES)
def variables():
    weight = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = weight**2
    close(tape.gradient(y, weight), 4)


@probe(PARTLY, "private since 2.0 (`tensorflow.python.eager.backprop`)")
def implicit_gradients():
    from tensorflow.python.eager import backprop

    weight = tf.Variable(2.0)
    ((slope, variable),) = backprop.implicit_grad(lambda: weight**2)()
    close(slope, 4)
    assert variable is weight
    nothing_named("implicit_grad", among=EVERYWHERE)


@probe(YES)
def forward_accumulator():
    close(tangent(tf.sin, T, tf.ones_like(T)), np.cos(0.3))


@probe(PARTLY, "Keras: `model.stateless_call`, with lists of values")
def functional_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    values = [tf.ones_like(v.value) for v in model.trainable_variables]
    out, _ = model.stateless_call(values, [], tf.ones((1, 3)))
    close(out, [[4.0]])


@probe(YES, "Keras")
def layers():
    assert keras.layers.LSTM(3)(np.ones((1, 4, 2))).shape == (1, 3)
    assert keras.layers.Conv2D(2, 3)(np.ones((1, 5, 5, 1))).shape == (1, 3, 3, 2)


# Finding faults


@probe(PARTLY, "`tf.debugging.enable_check_numerics` names the operation; the line in values, not in gradients")
def debug_nans():
    tf.debugging.enable_check_numerics()
    try:
        with refused(tf.errors.InvalidArgumentError, saying="nan"):
            tf.math.log(tf.constant(-1.0))
        with refused(tf.errors.InvalidArgumentError, saying="SqrtGrad"):
            gradient(tf.sqrt, tf.constant(0.0))
    finally:
        tf.debugging.disable_check_numerics()


@probe(PARTLY, "of `sqrt`; logarithms, powers and `acos` give NaN")
def nan_safe():
    def slope(f):
        return gradient(lambda x: tf.reduce_sum(tf.where(x > 0, f(x), 0.0)), tf.constant([0.0, 4.0]))[0]

    close(slope(tf.sqrt), 0.0)
    for f in (tf.math.log, lambda x: x**0.5):
        assert np.isnan(slope(f))


@probe(NO, "`float(x)`, `math.sin(x)` and `np.array(x)` become constants silently")
def errors_name_the_line():
    for way_out in (float, math.sin, np.array):
        found = gradient(lambda x, way_out=way_out: tf.constant(way_out(x), tf.float64) * x, T)
        close(found, way_out(T))


@probe(NO, "`None`, without a message")
def explain_zero():
    assert gradient(tf.round, X) is None
    nothing_named("explain", among=EVERYWHERE)


@probe(PARTLY, "`tf.test.compute_gradient` returns both Jacobians, to be compared by hand")
def check_grads():
    exact, numerical = tf.test.compute_gradient(tf.sin, [X])
    close(exact[0], numerical[0], rtol=1e-4)


# The program


@probe(YES, "the graph of a `tf.function`")
def expression_list():
    graph = tf.function(lambda x: gradient(tf.cos, x)).get_concrete_function(T).graph
    assert "Sin" in {operation.type for operation in graph.get_operations()}


@probe(YES, "`tf.function` of `tf.TensorSpec`")
def abstract_shapes():
    f = tf.function(lambda a: a @ tf.transpose(a)).get_concrete_function(tf.TensorSpec((2, 3), tf.float32))
    assert f.output_shapes == (2, 2)


@probe(YES)
def jit():
    close(tf.function(lambda x: gradient(tf.sin, x), jit_compile=True)(T), np.cos(0.3))


@probe(PARTLY, "AutoGraph rewrites `if` and `while` in the source of the function; both branches have one shape and dtype")
def compiled_branches():
    def f(x):
        y = -x
        if x > 0:
            y = x**2
        return y

    close(tf.function(f)(T), 0.09)
    close(tf.function(f)(-T), 0.3)


@probe(YES, "by its documentation; not run here")
def gpu():
    with tf.device("/CPU:0"):
        assert "CPU" in tf.ones(2).device


@probe(YES, "by its documentation; run here on one device")
def several_devices():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    assert strategy.run(lambda: tf.ones(())) == 1.0


@probe(YES)
def export():
    import tempfile

    module = tf.Module()
    module.f = tf.function(tf.sin, input_signature=[tf.TensorSpec((), tf.float64)])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        close(tf.saved_model.load(folder).f(T), np.sin(0.3))


@probe(NO, "a compiled package with about twenty dependencies")
def pure_python():
    assert len(requirements("tensorflow-cpu")) >= 15


# What no public name speaks of

probe.absent(
    EVERYWHERE,
    {
        "linearize": ("no such function", "lineari"),
        "linear_transpose": (
            "no such function; `tf.linalg.LinearOperator` has adjoints that are defined by hand",
            "linear_transpose",
        ),
        "laplacian": ("no such function; the whole Hessian, or a loop", "laplac divergence hessian_diag"),
        "taylor": ("nested tapes, whose cost grows with a power of the order", "taylor jet"),
        "sparse_derivatives": ("no patterns of sparsity, no colouring", "coloring sparsity sparse_jac sparse_hess"),
        "both_rules": ("`custom_gradient` has a reverse rule; forward mode transposes it", "custom_jvp custom_tangent"),
        "binomial_checkpointing": ("no such function", "binomial_check revolve checkpoint_seq"),
        "implicit_differentiation": ("in other packages, such as TensorFlow Probability", "find_root fixed_point implicit"),
        "ode_adjoint": ("in other packages, such as TensorFlow Probability", "odeint ode_"),
        "scipy_optimisers": ("optimisers of its own", "minimize least_squares curve_fit"),
    },
)


if __name__ == "__main__":
    probe.main()
