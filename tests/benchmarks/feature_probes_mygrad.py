"""What MyGrad can do: see `feature_probes.py`."""

from __future__ import annotations

import math

import mygrad
import mygrad.nnet
import mygrad.nnet.layers
import mygrad.operation_base
import numpy as np

from .feature_probes import NO, PARTLY, YES, Probes, close, compiled_files, nothing_named, refused, requirements

probe = Probes("mygrad", "mygrad")
EVERYWHERE = (mygrad, mygrad.linalg, mygrad.nnet)
X = np.array([0.5, 1.0, 2.0])
NO_TRANSFORMS = "no transforms of functions: `backward` fills in `x.grad`, reverse mode, first order"
TRANSFORMS = "jvp vjp jac hess hvp vmap linearize transpose_of"


def gradient(f, x):
    """Return the gradient that `backward` fills in."""
    x = mygrad.tensor(x)
    f(x).backward()
    return x.grad


# NumPy


@probe(PARTLY, "about a hundred functions, by NumPy's protocols; others, such as `np.sort` and `np.linalg.inv`, raise")
def numpy_functions():
    close(gradient(lambda x: np.sum(np.sin(x)), X), np.cos(X))
    for f in (np.linalg.inv, np.sort, np.median):
        with refused(TypeError, saying="no implementation"):
            f(mygrad.tensor(np.eye(3) + 1))


@probe(NO, "`np.add.accumulate` and the like raise")
def ufunc_methods():
    for method in (np.add.accumulate, np.add.reduce):
        with refused():
            gradient(lambda x, method=method: method(x).sum(), X)


@probe(YES)
def assignment():
    def f(x):
        out = mygrad.zeros(4)
        view = out[1:]
        view[0] = x[0] ** 2
        return out.sum()

    close(gradient(f, X), [1, 0, 0])


@probe(PARTLY, "but Python numbers widen float32 to float64")
def dtypes():
    assert (mygrad.tensor(np.ones(2, np.float32)) * 2.0).dtype == np.float64 != (np.ones(2, np.float32) * 2.0).dtype
    assert mygrad.tensor(1.0).dtype == np.float64


@probe(NO, "complex numbers raise an error")
def complex_numbers():
    with refused(TypeError):
        mygrad.tensor(1.0 + 2.0j)


@probe(NO, "`norm`, `einsum`, `matmul`")
def linear_algebra():
    assert [name for name in dir(mygrad.linalg) if name in ("solve", "inv", "det", "eigh", "svd", "norm")] == ["norm"]


@probe(YES)
def python_control_flow():
    close(gradient(lambda x: x**2 if x > 0 else -x, 3.0), 6)


# Derivatives


@probe(PARTLY, NO_TRANSFORMS)
def grad():
    close(gradient(lambda x: x**2, 3.0), 6)
    assert not hasattr(mygrad, "grad")


@probe(NO, "`x.grad` is a plain array")
def higher_order():
    assert type(gradient(lambda x: x**3, 3.0)) is np.ndarray


@probe(PARTLY, "`y.backward(g)`")
def vjp():
    x = mygrad.tensor(X)
    mygrad.sin(x).backward(X)
    close(x.grad, X * np.cos(X))


# Rules of one's own


class TenfoldSine(mygrad.operation_base.Operation):
    def __call__(self, x):
        self.variables = (x,)
        return np.sin(x.data)

    def backward_var(self, grad, index, **kwargs):
        return grad * 10 * np.cos(self.variables[index].data)


@probe(YES, "a class of `Operation`")
def custom_rule():
    close(gradient(lambda x: mygrad.Tensor._op(TenfoldSine, x), 0.3), 10 * np.cos(0.3))


@probe(NO, "reverse mode only")
def both_rules():
    nothing_named("jvp", "forward_rule", among=(*EVERYWHERE, mygrad.operation_base, mygrad.operation_base.Operation))


@probe(YES, "a class of `Operation`")
def new_primitive():
    close(gradient(lambda x: mygrad.Tensor._op(TenfoldSine, x), 0.3), 10 * np.cos(0.3))


# Control flow


@probe(PARTLY, "Python's own loops")
def while_loop_reverse():
    def f(x):
        while x < 100:
            x = x * x
        return x

    close(gradient(f, 3.0), 8 * 3.0**7)


# Trees and models


@probe(YES, "all operations on tensors are recorded")
def tape():
    close(gradient(lambda x: x**2, 3.0), 6)


@probe(YES, "tensors that are not constant")
def variables():
    weight = mygrad.tensor(2.0)
    (weight**2).backward()
    close(weight.grad, 4)


@probe(PARTLY, "`conv_nd`, `max_pool`, `gru`, as functions")
def layers():
    out = mygrad.nnet.layers.conv_nd(np.ones((1, 1, 5)), np.ones((1, 1, 3)), stride=1)
    assert out.shape == (1, 1, 3)
    nothing_named("lstm", "attention", among=(mygrad.nnet.layers,))


# Finding faults


@probe(NO, "NaN; guard the branch by hand")
def nan_safe():
    with np.errstate(all="ignore"):
        found = gradient(lambda x: mygrad.where(x.data > 0, mygrad.sqrt(x), 0.0).sum(), np.array([0.0, 4.0]))
    assert np.isnan(found[0])


@probe(NO, "`float(x)`, `math.sin(x)` and `np.array(x)` become constants silently")
def errors_name_the_line():
    for way_out in (float, math.sin, np.array):
        close(gradient(lambda x, way_out=way_out: way_out(x) * x, 1.0), way_out(1.0))


@probe(NO, "`None`, without a message")
def explain_zero():
    x = mygrad.tensor(1.0)
    (mygrad.tensor(np.round(x.data)) * 2).backward()
    assert x.grad is None
    nothing_named("explain", among=EVERYWHERE)


# The program


@probe(YES)
def pure_python():
    assert requirements("mygrad") <= {"numpy", "typing-extensions"}
    assert not compiled_files("mygrad")


# What no public name speaks of

probe.absent(
    EVERYWHERE,
    {
        "degenerate_eigenvalues": ("no eigenvalues", "eig"),
        "scipy_special": ("no special functions", "gammaln bessel erf special"),
        "jvp": ("reverse mode only", f"{TRANSFORMS} tangent"),
        "linearize": ("reverse mode only", TRANSFORMS),
        "linear_transpose": ("no such function", "linear_transpose"),
        "jacobian": ("row by row, by hand", TRANSFORMS),
        "jacobian_chunks": ("no Jacobians", TRANSFORMS),
        "value_and_jacobian": ("no Jacobians", TRANSFORMS),
        "hessian": ("first order only", TRANSFORMS),
        "hvp": ("first order only", TRANSFORMS),
        "gauss_newton": ("reverse mode only", "gauss ggn"),
        "laplacian": ("first order only", "laplac divergence"),
        "taylor": ("first order only", "taylor jet"),
        "sparse_derivatives": ("no Jacobians", "coloring sparsity sparse_jac"),
        "vmap": ("no `vmap`", "vmap vectorize"),
        "vmap_chunks": ("no `vmap`", "vmap"),
        "vmap_numpy": ("no `vmap`", "vmap"),
        "per_example_gradients": ("a loop", "vmap per_example"),
        "batch_rule": ("no `vmap`", "vmap batch_rule"),
        "numerical_primitive": ("no such function", "numerical finite_diff complex_step"),
        "checkpoint_policies": ("no such function", "checkpoint remat"),
        "binomial_checkpointing": ("no such function", "binomial revolve checkpoint"),
        "cond": ("Python's `if`; there is no traced program", "cond switch"),
        "scan": ("Python's own loops", "scan loop"),
        "implicit_differentiation": ("no such function", "root fixed_point implicit argmin_of"),
        "ode_adjoint": ("no such function", "odeint ode_"),
        "scipy_optimisers": ("no such function", "minimize least_squares curve_fit optimize"),
        "trees": ("tensors one by one", "tree nest"),
        "implicit_gradients": ("no such function", "implicit_grad"),
        "forward_accumulator": ("reverse mode only", "accumulator dual jvp"),
        "functional_model": ("no models", "module functional_call"),
        "debug_nans": ("no such function", "nan_check anomal debug"),
        "check_grads": ("only within its own tests", "check_grad gradcheck numerical"),
        "expression_list": ("`mygrad.computational_graph.build_graph` draws it, with graphviz", "jaxpr expression"),
        "abstract_shapes": ("no such function", "eval_shape abstract"),
        "jit": ("no compilation", "jit compile"),
        "compiled_branches": ("no compilation", "jit compile"),
        "gpu": ("NumPy", "device gpu cuda"),
        "several_devices": ("NumPy", "device shard mesh"),
        "export": ("no traced program", "export serial"),
    },
)


if __name__ == "__main__":
    probe.main()
