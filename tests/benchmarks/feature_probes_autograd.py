"""What HIPS/autograd can do: see `feature_probes.py`. NumPy is `np`, its wrapper by autograd `anp`."""

from __future__ import annotations

import math

import autograd
import autograd.builtins
import autograd.differential_operators
import autograd.extend
import autograd.misc
import autograd.misc.fixed_points
import autograd.misc.flatten
import autograd.misc.optimizers
import autograd.numpy as anp
import autograd.scipy.integrate
import autograd.scipy.signal
import autograd.scipy.special
import autograd.test_util
import numpy as np

from .feature_probes import NO, PARTLY, YES, Probes, close, compiled_files, has_parameter, nothing_named, refused, requirements

probe = Probes("autograd", "autograd")
EVERYWHERE = (autograd, autograd.differential_operators, autograd.extend, autograd.misc)
X = np.array([0.5, 1.0, 2.0])


# NumPy


@probe(PARTLY, "after `import autograd.numpy as np`; of NumPy's own, most ufuncs and a few functions")
def numpy_functions():
    close(autograd.grad(lambda x: anp.sum(anp.sin(x)))(X), np.cos(X))
    close(autograd.grad(lambda x: np.sum(np.sin(x)))(X), np.cos(X))
    for f in (np.cbrt, np.median, lambda x: np.interp(0.3, X, x), lambda x: np.linalg.inv(np.outer(x, x))):
        with refused(TypeError, ValueError):
            autograd.grad(lambda x, f=f: np.sum(f(x)))(X)


@probe(NO, "the wrapped functions have no methods")
def ufunc_methods():
    with refused(AttributeError):
        autograd.grad(lambda x: anp.sum(anp.add.accumulate(x)))(X)


@probe(NO, "`x[i] = v` raises")
def assignment():
    def f(x):
        x[0] = 1.0
        return anp.sum(x)

    with refused(TypeError, saying="assignment"):
        autograd.grad(f)(X)


@probe(YES)
def dtypes():
    assert autograd.grad(lambda x: anp.sum(x**2))(np.ones(2, np.float32)).dtype == np.float32
    assert autograd.grad(lambda x: anp.sum(x**2))(np.ones(2)).dtype == np.float64


@probe(YES, "`holomorphic_grad`")
def complex_numbers():
    close(autograd.grad(lambda z: anp.abs(z) ** 2)(1.0 + 2.0j), 2 - 4j)
    close(autograd.holomorphic_grad(lambda z: z**3)(1.0 + 2.0j), 3 * (1 + 2j) ** 2)


@probe(PARTLY, "no `lstsq`, `qr`, `cond`, full `svd`; some functions in reverse mode only")
def linear_algebra():
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert np.isfinite(autograd.grad(lambda a: anp.sum(anp.linalg.svd(a, full_matrices=False)[1]))(matrix)).all()
    for f in (lambda a: anp.linalg.lstsq(a, X[:2])[0], lambda a: anp.linalg.qr(a)[0], anp.linalg.cond):
        with refused(NotImplementedError, TypeError):
            autograd.grad(lambda a, f=f: anp.sum(f(a)))(matrix)
    with refused(NotImplementedError):
        autograd.make_jvp(anp.linalg.inv)(matrix)(matrix)


@probe(NO, "equal eigenvalues give NaN or wrong numbers")
def degenerate_eigenvalues():
    def f(a):
        values, vectors = anp.linalg.eigh(a)
        return anp.sum(anp.dot(vectors * anp.exp(values), vectors.T))

    with np.errstate(all="ignore"):
        found = autograd.grad(f)(np.eye(3))
    assert not np.allclose((found + found.T) / 2, math.e)


@probe(PARTLY, "some 40 functions of `autograd.scipy.special`; `gammainc` by its second argument only")
def scipy_special():
    close(autograd.grad(autograd.scipy.special.gammainc, 1)(2.0, 1.0), math.exp(-1))
    with refused(NotImplementedError):
        autograd.grad(autograd.scipy.special.gammainc)(2.0, 1.0)


@probe(YES)
def python_control_flow():
    close(autograd.grad(lambda x: x**2 if x > 0 else -x)(3.0), 6)


# Derivatives


@probe(YES)
def grad():
    value, (a, b) = autograd.value_and_grad(lambda x, y: x**2 * y, (0, 1))(3.0, 2.0)
    close([value, a, b], [18, 12, 9])


@probe(YES)
def higher_order():
    close(autograd.grad(autograd.grad(autograd.grad(anp.sin)))(0.3), -np.cos(0.3))


@probe(PARTLY, "`make_jvp`; many functions, such as `inv`, have no forward rule")
def jvp():
    close(autograd.make_jvp(anp.sin)(0.3)(2.0)[1], 2 * np.cos(0.3))
    with refused(NotImplementedError):
        autograd.make_jvp(anp.linalg.inv)(np.eye(2))(np.eye(2))


@probe(YES, "`make_vjp`")
def vjp():
    close(autograd.make_vjp(anp.sin)(0.3)[0](2.0), 2 * np.cos(0.3))


@probe(PARTLY, "`jacobian` in reverse mode; none in forward mode")
def jacobian():
    close(autograd.jacobian(lambda x: x**2)(X), np.diag(2 * X))
    nothing_named("jacfwd", "jacobian_forward", among=EVERYWHERE)


@probe(NO, "one row after the other; no choice of the mode")
def jacobian_chunks():
    assert not has_parameter(autograd.jacobian, "chunk_size")
    assert not has_parameter(autograd.jacobian, "mode")


@probe(YES)
def hessian():
    close(autograd.hessian(lambda x: anp.sum(x**3))(X), np.diag(6 * X))


@probe(YES)
def hvp():
    close(autograd.make_hvp(lambda x: anp.sum(x**3))(X)[0](np.ones(3)), 6 * X)


@probe(YES, "`make_ggnvp`")
def gauss_newton():
    close(autograd.make_ggnvp(anp.sin)(X)(np.ones(3)), np.cos(X) ** 2)


# Batches


@probe(NO, "a loop")
def per_example_gradients():
    nothing_named("vmap", "per_example", among=EVERYWHERE)
    with refused(TypeError):
        autograd.grad(lambda x: anp.sum(x**2, axis=1))(np.ones((2, 3)))


# Rules of one's own


@autograd.extend.primitive
def tenfold_sine(x):
    return np.sin(x)


autograd.extend.defvjp(tenfold_sine, lambda ans, x: lambda g: g * 10 * anp.cos(x))
autograd.extend.defjvp(tenfold_sine, lambda t, ans, x: t * 10 * anp.cos(x))


@probe(YES)
def custom_rule():
    close(autograd.grad(tenfold_sine)(0.3), 10 * np.cos(0.3))


@probe(YES, "`defvjp` and `defjvp`")
def both_rules():
    close(autograd.grad(tenfold_sine)(0.3), 10 * np.cos(0.3))
    close(autograd.make_jvp(tenfold_sine)(0.3)(1.0)[1], 10 * np.cos(0.3))


@probe(YES)
def new_primitive():
    import scipy.special

    bessel = autograd.extend.primitive(lambda x: scipy.special.jv(0, x))
    autograd.extend.defvjp(bessel, lambda ans, x: lambda g: -g * scipy.special.jv(1, x))
    close(autograd.grad(bessel)(1.0), -scipy.special.jv(1, 1.0))


@probe(PARTLY, "`checkpoint`, without policies, reverse mode only")
def checkpoint_policies():
    close(autograd.grad(autograd.checkpoint(lambda x: anp.sin(x) ** 2))(0.3), np.sin(0.6))
    assert not has_parameter(autograd.checkpoint, "policy")


# Control flow


@probe(PARTLY, "Python's own loops")
def while_loop_reverse():
    def f(x):
        while x < 100:
            x = x * x
        return x

    close(autograd.grad(f)(3.0), 8 * 3.0**7)


# Solvers


@probe(PARTLY, "`fixed_point` of an iteration of its own, reverse mode only; no roots, no solvers of others")
def implicit_differentiation():
    fixed_point = autograd.misc.fixed_points.fixed_point

    def root(a):
        return fixed_point(lambda a: lambda x: (x + a / x) / 2, a, 1.0, lambda x, y: anp.abs(x - y), 1e-10)

    close(autograd.grad(root)(4.0), 0.25)
    nothing_named("root", "implicit", "argmin", among=(*EVERYWHERE, autograd.misc.fixed_points))


@probe(YES, "`autograd.scipy.integrate.odeint`, reverse mode")
def ode_adjoint():
    times = np.array([0.0, 1.0])

    def end(rate):
        rates = autograd.builtins.tuple((rate,))
        return autograd.scipy.integrate.odeint(lambda y, t, rate: -rate * y, np.array([1.0]), times, rates)[-1, 0]

    close(autograd.grad(end)(1.0), -np.exp(-1), rtol=1e-4)


@probe(NO, "by hand: `scipy.optimize.minimize(value_and_grad(f), jac=True)` on arrays")
def scipy_optimisers():
    nothing_named("minimize", "least_squares", "curve_fit", among=(*EVERYWHERE, autograd.misc.optimizers))


# Trees and models


@probe(PARTLY, "lists, tuples and dicts; other classes by a vector space and a box of their own")
def trees():
    close(autograd.grad(lambda tree: anp.sum(tree["a"][0] ** 2))({"a": [X]})["a"][0], 2 * X)
    nothing_named("register_tree", "register_class", "pytree", among=EVERYWHERE)


@probe(NO, "no layers; `autograd.scipy.signal.convolve`")
def layers():
    nothing_named("dense", "layer", "lstm", among=EVERYWHERE)
    close(autograd.grad(lambda x: anp.sum(autograd.scipy.signal.convolve(x, X)))(X), 3.5 * np.ones(3))


# Finding faults


@probe(NO, "NaN; guard the branch by hand (a second `where`)")
def nan_safe():
    with np.errstate(all="ignore"):
        found = autograd.grad(lambda x: anp.sum(anp.where(x > 0, anp.sqrt(x), 0.0)))(np.array([0.0, 4.0]))
    assert np.isnan(found[0])


@probe(NO, "`float(x)` and `math.sin(x)` raise, without a fix; the line is in the traceback only")
def errors_name_the_line():
    for way_out in (float, math.sin):
        with refused(TypeError, saying="not"):
            autograd.grad(lambda x, way_out=way_out: way_out(x) * x)(1.0)


@probe(PARTLY, "a warning where the result does not depend on the argument; not where rounding cuts the path")
def explain_zero():
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        autograd.grad(lambda x: 3.0)(1.0)
    assert "independent" in str(caught[0].message)


@probe(YES)
def check_grads():
    autograd.test_util.check_grads(anp.sin, modes=["fwd", "rev"], order=2)(0.3)


# The program


@probe(YES)
def pure_python():
    assert requirements("autograd") == {"numpy"}
    assert not compiled_files("autograd")


# What no public name speaks of

probe.absent(
    EVERYWHERE,
    {
        "linearize": ("no such function", "lineari"),
        "linear_transpose": ("no such function", "transpose"),
        "value_and_jacobian": ("no such function", "value_and_jac value_grad_and"),
        "laplacian": ("no such function; `elementwise_grad` for functions of single elements", "laplac divergence diag"),
        "taylor": ("nested `grad`", "taylor jet"),
        "sparse_derivatives": ("no patterns of sparsity, no colouring", "color sparsity sparse_jac"),
        "vmap": ("no `vmap`", "vmap vectorize"),
        "vmap_chunks": ("no `vmap`", "vmap chunk"),
        "vmap_numpy": ("no `vmap`", "vmap"),
        "batch_rule": ("no `vmap`", "vmap batch"),
        "numerical_primitive": ("no such function", "numerical finite_diff complex_step"),
        "binomial_checkpointing": ("no such function", "binomial revolve checkpoint_seq"),
        "cond": ("Python's `if`; there is no traced program", "cond switch"),
        "scan": ("Python's own loops", "scan loop"),
        "tape": ("no tape", "tape"),
        "variables": ("arguments only", "variable parameter"),
        "implicit_gradients": ("arguments only", "implicit_grad"),
        "forward_accumulator": ("`make_jvp` of functions only", "accumulator dual"),
        "functional_model": ("no models", "module functional_call layer"),
        "debug_nans": ("no such function", "nan anomal debug"),
        "expression_list": ("an example draws the graph; nothing prints it", "jaxpr expression print"),
        "abstract_shapes": ("no such function", "eval_shape abstract"),
        "jit": ("no compilation", "jit compile"),
        "compiled_branches": ("no compilation", "jit compile"),
        "gpu": ("NumPy", "device gpu cuda"),
        "several_devices": ("NumPy", "device shard mesh"),
        "export": ("no traced program", "export save serial"),
    },
)


if __name__ == "__main__":
    probe.main()
