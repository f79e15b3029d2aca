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
TRANSFORMS = ("jvp", "vjp", "jac", "hess", "hvp", "vmap", "linearize", "transpose_of")


def gradient(f, x):
    """Return the gradient that `backward` fills in."""
    x = mygrad.tensor(x)
    f(x).backward()
    return x.grad


# NumPy


@probe(PARTLY, "some hundred functions, by NumPy's protocols; others, such as `np.sort` and `np.linalg.inv`, raise")
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


@probe(NO, "complex numbers are refused")
def complex_numbers():
    with refused(TypeError):
        mygrad.tensor(1.0 + 2.0j)


@probe(NO, "`norm`, `einsum`, `matmul`")
def linear_algebra():
    assert [name for name in dir(mygrad.linalg) if name in ("solve", "inv", "det", "eigh", "svd", "norm")] == ["norm"]


@probe(NO, "no eigenvalues")
def degenerate_eigenvalues():
    nothing_named("eig", among=EVERYWHERE)


@probe(NO, "no special functions")
def scipy_special():
    nothing_named("gammaln", "bessel", "erf", "special", among=EVERYWHERE)


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


@probe(NO, "reverse mode alone")
def jvp():
    nothing_named(*TRANSFORMS, "tangent", among=EVERYWHERE)


@probe(PARTLY, "`y.backward(g)`")
def vjp():
    x = mygrad.tensor(X)
    mygrad.sin(x).backward(X)
    close(x.grad, X * np.cos(X))


@probe(NO, "reverse mode alone")
def linearize():
    nothing_named(*TRANSFORMS, among=EVERYWHERE)


@probe(NO, "no such function")
def linear_transpose():
    nothing_named("linear_transpose", among=EVERYWHERE)


@probe(NO, "row by row, by hand")
def jacobian():
    nothing_named(*TRANSFORMS, among=EVERYWHERE)


@probe(NO, "no Jacobians")
def jacobian_chunks():
    nothing_named(*TRANSFORMS, among=EVERYWHERE)


@probe(NO, "no Jacobians")
def value_and_jacobian():
    nothing_named(*TRANSFORMS, among=EVERYWHERE)


@probe(NO, "first order alone")
def hessian():
    nothing_named(*TRANSFORMS, among=EVERYWHERE)


@probe(NO, "first order alone")
def hvp():
    nothing_named(*TRANSFORMS, among=EVERYWHERE)


@probe(NO, "reverse mode alone")
def gauss_newton():
    nothing_named("gauss", "ggn", among=EVERYWHERE)


@probe(NO, "first order alone")
def laplacian():
    nothing_named("laplac", "divergence", among=EVERYWHERE)


@probe(NO, "first order alone")
def taylor():
    nothing_named("taylor", "jet", among=EVERYWHERE)


@probe(NO, "no Jacobians")
def sparse_derivatives():
    nothing_named("coloring", "sparsity", "sparse_jac", among=EVERYWHERE)


# Batches


@probe(NO, "no `vmap`")
def vmap():
    nothing_named("vmap", "vectorize", among=EVERYWHERE)


@probe(NO, "no `vmap`")
def vmap_chunks():
    nothing_named("vmap", among=EVERYWHERE)


@probe(NO, "no `vmap`")
def vmap_numpy():
    nothing_named("vmap", among=EVERYWHERE)


@probe(NO, "a loop")
def per_example_gradients():
    nothing_named("vmap", "per_example", among=EVERYWHERE)


@probe(NO, "no `vmap`")
def batch_rule():
    nothing_named("vmap", "batch_rule", among=EVERYWHERE)


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


@probe(NO, "reverse mode alone")
def both_rules():
    nothing_named("jvp", "forward_rule", among=(*EVERYWHERE, mygrad.operation_base, mygrad.operation_base.Operation))


@probe(YES, "a class of `Operation`")
def new_primitive():
    close(gradient(lambda x: mygrad.Tensor._op(TenfoldSine, x), 0.3), 10 * np.cos(0.3))


@probe(NO, "no such function")
def numerical_primitive():
    nothing_named("numerical", "finite_diff", "complex_step", among=EVERYWHERE)


@probe(NO, "no such function")
def checkpoint_policies():
    nothing_named("checkpoint", "remat", among=EVERYWHERE)


@probe(NO, "no such function")
def binomial_checkpointing():
    nothing_named("binomial", "revolve", "checkpoint", among=EVERYWHERE)


# Control flow


@probe(NO, "Python's own; there is no traced program that would need it")
def cond():
    nothing_named("cond", "switch", among=EVERYWHERE)


@probe(NO, "Python's own loops")
def scan():
    nothing_named("scan", "loop", among=EVERYWHERE)


@probe(PARTLY, "Python's own loops")
def while_loop_reverse():
    def f(x):
        while x < 100:
            x = x * x
        return x

    close(gradient(f, 3.0), 8 * 3.0**7)


# Solvers


@probe(NO, "no such function")
def implicit_differentiation():
    nothing_named("root", "fixed_point", "implicit", "argmin_of", among=EVERYWHERE)


@probe(NO, "no such function")
def ode_adjoint():
    nothing_named("odeint", "ode_", among=EVERYWHERE)


@probe(NO, "no such function")
def scipy_optimisers():
    nothing_named("minimize", "least_squares", "curve_fit", "optimize", among=EVERYWHERE)


# Trees and models


@probe(NO, "tensors one by one")
def trees():
    nothing_named("tree", "nest", among=EVERYWHERE)


@probe(YES, "whatever tensors do is recorded")
def tape():
    close(gradient(lambda x: x**2, 3.0), 6)


@probe(YES, "tensors that are no constants")
def variables():
    weight = mygrad.tensor(2.0)
    (weight**2).backward()
    close(weight.grad, 4)


@probe(NO, "no such function")
def implicit_gradients():
    nothing_named("implicit_grad", among=EVERYWHERE)


@probe(NO, "reverse mode alone")
def forward_accumulator():
    nothing_named("accumulator", "dual", "jvp", among=EVERYWHERE)


@probe(NO, "no models")
def functional_model():
    nothing_named("module", "functional_call", among=EVERYWHERE)


@probe(PARTLY, "`conv_nd`, `max_pool`, `gru`, as functions")
def layers():
    out = mygrad.nnet.layers.conv_nd(np.ones((1, 1, 5)), np.ones((1, 1, 3)), stride=1)
    assert out.shape == (1, 1, 3)
    nothing_named("lstm", "attention", among=(mygrad.nnet.layers,))


# Finding faults


@probe(NO, "no such function")
def debug_nans():
    nothing_named("nan_check", "anomal", "debug", among=EVERYWHERE)


@probe(NO, "NaN; the branch has to be guarded by hand")
def nan_safe():
    with np.errstate(all="ignore"):
        found = gradient(lambda x: mygrad.where(x.data > 0, mygrad.sqrt(x), 0.0).sum(), np.array([0.0, 4.0]))
    assert np.isnan(found[0])


@probe(NO, "`float(x)`, `math.sin(x)` and `np.array(x)` become constants silently")
def errors_name_the_line():
    for way_out in (float, math.sin, np.array):
        close(gradient(lambda x, way_out=way_out: way_out(x) * x, 1.0), way_out(1.0))


@probe(NO, "`None`, without a word")
def explain_zero():
    x = mygrad.tensor(1.0)
    (mygrad.tensor(np.round(x.data)) * 2).backward()
    assert x.grad is None
    nothing_named("explain", among=EVERYWHERE)


@probe(NO, "only within its own tests")
def check_grads():
    nothing_named("check_grad", "gradcheck", "numerical", among=EVERYWHERE)


# The program


@probe(NO, "`mygrad.computational_graph.build_graph` draws it, with graphviz")
def expression_list():
    nothing_named("jaxpr", "expression", among=EVERYWHERE)


@probe(NO, "no such function")
def abstract_shapes():
    nothing_named("eval_shape", "abstract", among=EVERYWHERE)


@probe(NO, "no compilation")
def jit():
    nothing_named("jit", "compile", among=EVERYWHERE)


@probe(NO, "NumPy")
def gpu():
    nothing_named("device", "gpu", "cuda", among=EVERYWHERE)


@probe(NO, "NumPy")
def several_devices():
    nothing_named("device", "shard", "mesh", among=EVERYWHERE)


@probe(NO, "no traced program")
def export():
    nothing_named("export", "serial", among=EVERYWHERE)


@probe(YES)
def pure_python():
    assert requirements("mygrad") <= {"numpy", "typing-extensions"}
    assert not compiled_files("mygrad")


if __name__ == "__main__":
    probe.main()
