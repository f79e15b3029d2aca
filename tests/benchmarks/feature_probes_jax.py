"""What JAX can do: see `feature_probes.py`. NumPy stands for the installed NumPy, `jnp` for JAX's own."""

from __future__ import annotations

import traceback

import jax
import jax.experimental
import jax.experimental.jet
import jax.experimental.ode
import jax.experimental.sparse
import jax.export
import jax.flatten_util
import jax.lax
import jax.nn
import jax.numpy as jnp
import jax.scipy.optimize
import jax.scipy.special
import jax.test_util
import jax.tree_util
import numpy as np
import scipy.optimize

from .feature_probes import NO, PARTLY, YES, Probes, close, has_parameter, nothing_named, refused, requirements

probe = Probes("jax", "jax")
EVERYWHERE = (jax, jax.lax, jax.tree_util, jax.experimental, jax.scipy, jax.scipy.optimize, jax.experimental.sparse)
X = jnp.array([0.5, 1.0, 2.0])


# NumPy


@probe(NO, "`jax.numpy` instead; NumPy raises `TracerArrayConversionError`")
def numpy_functions():
    with refused(jax.errors.TracerArrayConversionError):
        jax.grad(lambda x: np.sum(np.sin(x)))(X)


@probe(PARTLY, "of `jnp`'s ufuncs: `reduce`, `accumulate`, `outer`, `at` (which returns a copy), no `out=`")
def ufunc_methods():
    close(jax.grad(lambda x: jnp.add.accumulate(x).sum())(X), [3, 2, 1])
    close(jax.grad(lambda x: jnp.multiply.outer(x, x).sum())(X), 7 * np.ones(3))
    with refused(NotImplementedError, ValueError):
        jnp.add.reduce(X, out=np.zeros(()))


@probe(PARTLY, "`x.at[i].set(v)` gives a copy, references (`jax.new_ref`) take assignments; `x[i] = v` raises; no views")
def assignment():
    close(jax.grad(lambda x: jnp.zeros(3).at[0].set(x[0] ** 2).sum())(X), [1, 0, 0])

    def by_reference(x):
        out = jax.new_ref(jnp.zeros(3))
        out[0] = x[0] ** 2
        return out[...].sum()

    close(jax.grad(by_reference)(X), [1, 0, 0])

    def f(x):
        x[0] = 1.0
        return x.sum()

    with refused(TypeError, saying="immutable"):
        jax.grad(f)(X)


@probe(PARTLY, "float32 unless a switch is set; promotion of its own (int32 + float16 gives float16)")
def dtypes():
    assert jnp.asarray(np.zeros(2)).dtype == jnp.float32
    assert (jnp.ones(2, jnp.int32) + jnp.ones(2, jnp.float16)).dtype == jnp.float16 != np.result_type(np.int32, np.float16)


@probe(YES)
def complex_numbers():
    z = jnp.array(1.0 + 2.0j)
    close(jax.grad(lambda z: jnp.abs(z) ** 2)(z), 2 - 4j)
    close(jax.grad(lambda z: z**3, holomorphic=True)(z), 3 * (1 + 2j) ** 2)


@probe(PARTLY, "no derivative of full `svd`; of the vectors of `eig` behind a switch")
def linear_algebra():
    matrix = jnp.array([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0]])
    assert np.isfinite(jax.grad(lambda a: jnp.linalg.lstsq(a, jnp.ones(3))[0].sum())(matrix)).all()
    with refused(NotImplementedError):
        jax.grad(lambda a: jnp.linalg.svd(a)[1].sum() + jnp.linalg.svd(a)[0].sum())(matrix)
    with refused(NotImplementedError, saying="enable_eigvec_derivs"):
        jax.grad(lambda a: jnp.abs(jnp.linalg.eig(a.T @ a)[1]).sum())(matrix)


@probe(NO, "equal eigenvalues give NaN")
def degenerate_eigenvalues():
    def f(a):
        values, vectors = jnp.linalg.eigh(a)
        return jnp.sum((vectors * jnp.exp(values)) @ vectors.T)

    assert np.isnan(jax.grad(f)(jnp.eye(3))).any()


@probe(PARTLY, "some 50 functions of `jax.scipy.special`; no `jv`, no `pdtr`")
def scipy_special():
    close(jax.grad(jax.scipy.special.gammainc)(2.0, 1.0), -0.278, rtol=0.1)
    nothing_named("jv", "pdtr", among=(jax.scipy.special,))


@probe(YES, "not under `jit` and `vmap`")
def python_control_flow():
    def f(x):
        return x**2 if x > 0 else -x

    close(jax.grad(f)(3.0), 6)
    with refused(jax.errors.TracerBoolConversionError):
        jax.jit(f)(3.0)


# Derivatives


@probe(YES)
def grad():
    value, (a, b) = jax.value_and_grad(lambda x, y: x**2 * y, argnums=(0, 1))(3.0, 2.0)
    close([value, a, b], [18, 12, 9])


@probe(YES)
def higher_order():
    close(jax.grad(jax.grad(jax.grad(jnp.sin)))(0.3), -np.cos(0.3))


@probe(YES)
def jvp():
    close(jax.jvp(jnp.sin, (0.3,), (2.0,))[1], 2 * np.cos(0.3))


@probe(YES)
def vjp():
    close(jax.vjp(jnp.sin, 0.3)[1](2.0)[0], 2 * np.cos(0.3))


@probe(YES)
def linearize():
    close(jax.linearize(jnp.sin, 0.3)[1](2.0), 2 * np.cos(0.3))


@probe(YES)
def linear_transpose():
    close(jax.linear_transpose(lambda x: x[1:] - x[:-1], X)(jnp.array([1.0, 0.0]))[0], [-1, 1, 0])


@probe(YES)
def jacobian():
    for transform in (jax.jacfwd, jax.jacrev):
        close(transform(lambda x: x**2)(X), np.diag(2 * X))


@probe(NO, "no `chunk_size` and no choice of the mode")
def jacobian_chunks():
    assert not any(has_parameter(f, name) for f in (jax.jacfwd, jax.jacrev) for name in ("chunk_size", "mode"))


@probe(PARTLY, "by hand: the value as `has_aux`")
def value_and_jacobian():
    nothing_named("value_and_jac", "value_grad_and", among=EVERYWHERE)
    found, value = jax.jacrev(lambda x: (x**2, x**2), has_aux=True)(X)
    close(found, np.diag(2 * X))
    close(value, X**2)


@probe(YES)
def hessian():
    close(jax.hessian(lambda x: jnp.sum(x**3))(X), np.diag(6 * X))


@probe(PARTLY, "written as `jvp` of `grad`; no function")
def hvp():
    nothing_named("hvp", among=(jax, jax.lax))
    close(jax.jvp(jax.grad(lambda x: jnp.sum(x**3)), (X,), (jnp.ones(3),))[1], 6 * X)


@probe(PARTLY, "written by hand from `jvp` and `vjp`")
def gauss_newton():
    nothing_named("gauss", "ggn", among=EVERYWHERE)
    _, tangent = jax.jvp(jnp.sin, (X,), (jnp.ones(3),))
    close(jax.vjp(jnp.sin, X)[1](tangent)[0], np.cos(X) ** 2)


@probe(PARTLY, "`jax.experimental.jet`, with rules for a part of the primitives (none for `cbrt`)")
def taylor():
    _, (first, second) = jax.experimental.jet.jet(jnp.sin, (0.3,), ((1.0, 0.0),))
    close([first, second], [np.cos(0.3), -np.sin(0.3)])
    with refused(NotImplementedError, KeyError):
        jax.experimental.jet.jet(jnp.cbrt, (0.3,), ((1.0, 0.0),))


# Batches


@probe(YES)
def vmap():
    out = jax.vmap(lambda tree, y: tree["a"] * y, in_axes=({"a": 1}, None))({"a": jnp.ones((2, 3))}, 2.0)
    assert out.shape == (3, 2)


@probe(NO, "only `jax.lax.map(batch_size=)`, over leading axes")
def vmap_chunks():
    assert not has_parameter(jax.vmap, "chunk_size")
    assert has_parameter(jax.lax.map, "batch_size")


@probe(NO, "`jax.numpy` instead")
def vmap_numpy():
    with refused(jax.errors.TracerArrayConversionError):
        jax.vmap(lambda x: np.sum(np.sin(x)))(jnp.ones((2, 3)))


@probe(YES)
def per_example_gradients():
    close(jax.vmap(jax.grad(lambda x: jnp.sum(x**2)))(jnp.ones((2, 3))), 2 * np.ones((2, 3)))


@probe(YES)
def batch_rule():
    @jax.custom_batching.custom_vmap
    def f(x):
        return jnp.sin(x)

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        return 10 * jnp.sin(x), True

    close(jax.vmap(f)(X), 10 * np.sin(X))


# Rules of one's own


@probe(YES)
def custom_rule():
    f = jax.custom_vjp(lambda x: x**2)
    f.defvjp(lambda x: (x**2, x), lambda x, g: (g * 20 * x,))
    close(jax.grad(f)(3.0), 60)


@probe(NO, "`custom_vjp` refuses `jvp`; `custom_jvp` has no rule for reverse mode")
def both_rules():
    f = jax.custom_vjp(lambda x: x**2)
    f.defvjp(lambda x: (x**2, x), lambda x, g: (g * 2 * x,))
    with refused(TypeError, saying="forward-mode"):
        jax.jvp(f, (3.0,), (1.0,))
    assert not hasattr(jax.custom_vjp, "defjvp")
    assert not hasattr(jax.custom_jvp, "defvjp")


@probe(PARTLY, "`custom_vjp` around `pure_callback`, with shapes declared; or `jax.extend.core.Primitive`, rule by rule")
def new_primitive():
    import scipy.special

    def call(order, x):
        return jax.pure_callback(lambda x: np.asarray(scipy.special.jv(order, x), x.dtype), jax.typeof(x), x)

    f = jax.custom_vjp(lambda x: call(0, x))
    f.defvjp(lambda x: (call(0, x), x), lambda x, g: (-g * call(1, x),))
    close(jax.grad(f)(1.0), -scipy.special.jv(1, 1.0))


@probe(YES)
def checkpoint_policies():
    policy = jax.checkpoint_policies.save_only_these_names("a")
    close(jax.grad(jax.checkpoint(lambda x: jnp.sin(x) ** 2, policy=policy))(0.3), np.sin(0.6))


# Control flow


@probe(YES)
def cond():
    close(jax.grad(lambda x: jax.lax.cond(x > 0, lambda x: x**2, lambda x: -x, x))(3.0), 6)
    close(jax.grad(lambda x: jax.lax.switch(1, [jnp.sin, lambda x: x**2], x))(3.0), 6)


@probe(YES)
def scan():
    close(jax.grad(lambda x: jax.lax.scan(lambda c, r: (c * r, c), x, X)[0])(3.0), 1)
    close(jax.grad(lambda x: jax.lax.associative_scan(jnp.multiply, x)[-1])(X), 1 / X)


@probe(NO, "raises: reverse mode needs a fixed number of steps")
def while_loop_reverse():
    with refused(ValueError, saying="reverse-mode"):
        jax.grad(lambda x: jax.lax.while_loop(lambda c: c < 100, lambda c: c * c, x))(3.0)


# Solvers


@probe(PARTLY, "`custom_root`, `custom_linear_solve` around solvers written in JAX; SciPy's cannot be called directly")
def implicit_differentiation():
    def newton(f, x):
        return jax.lax.fori_loop(0, 30, lambda _, x: x - f(x) / jax.grad(f)(x), x)

    def root(a):
        return jax.lax.custom_root(lambda x: x**2 - a, 1.0, newton, lambda g, y: y / g(1.0))

    close(jax.grad(root)(4.0), 0.25)
    with refused():
        jax.grad(lambda a: jax.lax.custom_root(lambda x: x**2 - a, 1.0, scipy.optimize.newton, lambda g, y: y / g(1.0)))(4.0)


@probe(PARTLY, "`jax.experimental.ode.odeint`: one explicit method, reverse mode only")
def ode_adjoint():
    times = jnp.array([0.0, 1.0])

    def end(rate):
        return jax.experimental.ode.odeint(lambda y, t, rate: -rate * y, 1.0, times, rate)[-1]

    close(jax.grad(end)(1.0), -np.exp(-1), rtol=1e-4)
    assert not has_parameter(jax.experimental.ode.odeint, "method")
    with refused(TypeError, saying="forward-mode"):
        jax.jvp(end, (1.0,), (1.0,))


@probe(PARTLY, "`jax.scipy.optimize.minimize` has BFGS only")
def scipy_optimisers():
    def f(x):
        return jnp.sum((x - 1) ** 2)

    close(jax.scipy.optimize.minimize(f, jnp.zeros(2), method="BFGS").x, np.ones(2), rtol=1e-3)
    with refused(ValueError, NotImplementedError):
        jax.scipy.optimize.minimize(f, jnp.zeros(2), method="trust-ncg")
    nothing_named("least_squares", "curve_fit", "root", among=(jax.scipy.optimize,))


# Trees and models


@probe(YES)
def trees():
    import dataclasses

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Point:
        x: float
        name: str = dataclasses.field(metadata={"static": True})

    found = jax.grad(lambda p: p.x**2)(Point(3.0, "a"))
    close(found.x, 6)
    assert found.name == "a"


@probe(NO, "no variables; with respect to arguments only")
def variables():
    nothing_named("variable", "implicit_grad", among=(jax, jax.lax, jax.experimental))
    captured = jnp.array(2.0)
    close(jax.grad(lambda x: captured * x)(1.0), 2)


@probe(NO, "models come from other packages, such as Flax or Equinox")
def functional_model():
    nothing_named("functional_call", "module", among=(jax.nn,))


@probe(NO, "convolutions as functions; layers come from other packages")
def layers():
    assert jax.lax.conv(jnp.ones((1, 1, 5)), jnp.ones((1, 1, 3)), (1,), "VALID").shape == (1, 1, 3)
    nothing_named("dense", "lstm", "conv", among=(jax.nn,))


# Finding faults


@probe(YES)
def debug_nans():
    def nothing_of_a_root(x):
        return jnp.sqrt(x) * 0.0

    try:
        with jax.debug_nans(True):
            jax.grad(nothing_of_a_root)(0.0)
    except FloatingPointError:
        assert "in nothing_of_a_root" in traceback.format_exc()
    else:
        raise AssertionError("it was not noticed")


@probe(NO, "NaN; guard the branch by hand (a second `where`)")
def nan_safe():
    assert np.isnan(jax.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0)))(jnp.array([0.0, 4.0]))[0])


@probe(PARTLY, "`float(x)`, `np.array(x)` and others raise, the first with a fix; the line is in the traceback only")
def errors_name_the_line():
    import math

    for way_out, words in ((float, "x.astype(float)"), (math.sin, "x.astype(float)"), (np.array, "__array__")):
        with refused(TypeError, jax.errors.JAXTypeError, saying=words):
            jax.grad(lambda x, way_out=way_out: jnp.asarray(way_out(x)) * x)(1.0)


@probe(NO, "zeros, without a message")
def explain_zero():
    close(jax.grad(lambda x: jnp.sum(jnp.round(x)))(X), np.zeros(3))
    nothing_named("explain_grad", "unconnected", among=EVERYWHERE)


@probe(YES)
def check_grads():
    jax.test_util.check_grads(jnp.sin, (0.3,), order=2, atol=1e-2, rtol=1e-2)


# The program


@probe(YES)
def expression_list():
    assert "sin" in str(jax.make_jaxpr(jax.grad(lambda x: jnp.cos(x)))(0.3))


@probe(YES)
def abstract_shapes():
    assert jax.eval_shape(lambda a: a @ a.T, jax.ShapeDtypeStruct((2, 3), jnp.float32)).shape == (2, 2)


@probe(YES)
def jit():
    close(jax.jit(jax.grad(jnp.sin))(0.3), np.cos(0.3))


@probe(NO, "`if` and `while` on traced values raise; `lax.cond`, `lax.while_loop`")
def compiled_branches():
    with refused():
        jax.jit(lambda x: x**2 if x > 0 else -x)(0.3)
    with refused():
        jax.jit(lambda x: jnp.sum(x[x > 0]))(X)


@probe(YES, "by its documentation; not run here")
def gpu():
    assert jax.device_put(X, jax.devices("cpu")[0]).devices() == {jax.devices("cpu")[0]}


@probe(YES, "by its documentation; run here on one device")
def several_devices():
    mesh = jax.make_mesh((1,), ("i",))
    sharded = jax.shard_map(lambda x: jax.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())
    close(jax.jit(sharded)(jax.device_put(X, jax.NamedSharding(mesh, jax.P("i")))), 3.5)


@probe(YES)
def export():
    exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((), jnp.float32))
    assert "stablehlo.sine" in exported.mlir_module()
    close(exported.call(jnp.float32(0.3)), np.sin(0.3))


@probe(NO, "needs the compiled package jaxlib and three other packages")
def pure_python():
    assert {"jaxlib", "ml-dtypes", "opt-einsum", "scipy"} <= requirements("jax")


# What no public name speaks of

probe.absent(
    EVERYWHERE,
    {
        "laplacian": ("no such function; the whole Hessian, or a loop", "laplacian divergence hessian_diag"),
        "sparse_derivatives": (
            "no patterns of sparsity, no colouring; `sparse.jacrev` is for arguments that are sparse arrays",
            "coloring colouring sparsity sparse_jac sparse_hess",
        ),
        "numerical_primitive": ("no such function", "numerical finite_diff complex_step"),
        "binomial_checkpointing": ("`checkpoint` in a nested `scan`, by hand", "binomial revolve checkpoint_seq"),
        "tape": ("no tape", "tape"),
        "implicit_gradients": ("no such function; `jax.jvp` of a function instead", "implicit_grad"),
        "forward_accumulator": ("`jvp` of functions only", "accumulator dual"),
    },
)


if __name__ == "__main__":
    probe.main()
