"""What PyTorch can do, `torch.func` and the rest of the package: see `feature_probes.py`."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
import torch._higher_order_ops
import torch.autograd.forward_ad
import torch.func
import torch.utils._pytree
import torch.utils.checkpoint
from torch.fx.experimental.proxy_tensor import make_fx

from .feature_probes import NO, PARTLY, YES, Probes, close, has_parameter, nothing_named, refused, requirements

probe = Probes("torch", "torch")
EVERYWHERE = (torch, torch.func, torch.autograd, torch.autograd.functional, torch.linalg, torch.optim, torch.special)
X = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
T = torch.tensor(0.3, dtype=torch.float64)


# NumPy


@probe(NO, "`torch` functions instead; NumPy raises on tensors with `requires_grad`")
def numpy_functions():
    with refused():
        torch.func.grad(lambda x: np.sum(np.sin(x)))(X)


@probe(NO, "no ufuncs; `cumsum`, `index_add`, `outer` and others by their own names")
def ufunc_methods():
    assert not hasattr(torch.add, "reduce")
    assert not hasattr(torch.add, "accumulate")


@probe(YES)
def assignment():
    def f(x):
        out = torch.zeros(4, dtype=x.dtype)
        view = out[1:]
        view[0] = x[0] ** 2
        return out.sum()

    close(torch.func.grad(f)(X), [1, 0, 0])


@probe(PARTLY, "float32 by default, arrays from NumPy keep theirs; promotion of its own (int32 tensor + float16 gives float16)")
def dtypes():
    assert torch.tensor(1.0).dtype == torch.float32
    assert torch.from_numpy(np.zeros(2)).dtype == torch.float64
    assert (torch.ones(2, dtype=torch.int32) + torch.ones(2, dtype=torch.float16)).dtype == torch.float16


@probe(PARTLY, "gradients of real functions; no complex derivative of holomorphic ones by a switch")
def complex_numbers():
    z = torch.tensor(1.0 + 2.0j, dtype=torch.complex128)
    close(torch.func.grad(lambda z: torch.abs(z) ** 2)(z), 2 + 4j)
    assert not has_parameter(torch.func.grad, "holomorphic")
    with refused():
        torch.func.grad(lambda z: z**3)(z)


@probe(PARTLY, "full `svd` has a wrong derivative silently; complete `qr` of a tall matrix has none")
def linear_algebra():
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0]], dtype=torch.float64)
    assert torch.isfinite(torch.func.grad(lambda a: torch.linalg.lstsq(a, torch.ones(3, 1).double())[0].sum())(matrix)).all()

    def last_singular_vector(a):
        return torch.linalg.svd(a)[0][0, 2] ** 2

    step = torch.zeros_like(matrix)
    step[0, 0] = 1e-6
    measured = (last_singular_vector(matrix + step) - last_singular_vector(matrix - step)) / 2e-6
    assert abs(torch.func.grad(last_singular_vector)(matrix)[0, 0] - measured) > 1e-3 * abs(measured) > 1e-5
    with refused():
        torch.func.grad(lambda a: torch.linalg.qr(a, mode="complete")[0].sum())(matrix)


@probe(NO, "equal eigenvalues give NaN")
def degenerate_eigenvalues():
    def f(a):
        values, vectors = torch.linalg.eigh(a)
        return torch.sum((vectors * torch.exp(values)) @ vectors.T)

    assert not torch.isfinite(torch.func.grad(f)(torch.eye(3, dtype=torch.float64))).all()


@probe(PARTLY, "some 50 functions of `torch.special`; `gammainc` by its second argument only")
def scipy_special():
    close(torch.func.grad(torch.special.gammainc, argnums=1)(X[2], X[1]), math.exp(-1))
    with refused():
        torch.func.grad(torch.special.gammainc)(X[2], X[1])


@probe(YES, "not under `vmap`")
def python_control_flow():
    def f(x):
        return x**2 if x > 0 else -x

    close(torch.func.grad(f)(T), 0.6)
    with refused(RuntimeError, saying="control flow"):
        torch.func.vmap(f)(X)


# Derivatives


@probe(YES)
def grad():
    (a, b), value = torch.func.grad_and_value(lambda x, y: (x**2 * y).sum(), argnums=(0, 1))(X, 2 * X)
    close(value, 2 * (X**3).sum())
    close(a, 4 * X**2)
    close(b, X**2)


@probe(YES)
def higher_order():
    close(torch.func.grad(torch.func.grad(torch.func.grad(torch.sin)))(T), -np.cos(0.3))


@probe(YES)
def jvp():
    close(torch.func.jvp(torch.sin, (T,), (2 * torch.ones_like(T),))[1], 2 * np.cos(0.3))


@probe(YES)
def vjp():
    close(torch.func.vjp(torch.sin, T)[1](torch.ones_like(T))[0], np.cos(0.3))


@probe(YES)
def linearize():
    close(torch.func.linearize(torch.sin, T)[1](torch.ones_like(T)), np.cos(0.3))


@probe(YES)
def jacobian():
    for transform in (torch.func.jacfwd, torch.func.jacrev):
        close(transform(lambda x: x**2)(X), np.diag(2 * X))


@probe(PARTLY, "`jacrev(chunk_size=)`; no choice of the mode by shapes")
def jacobian_chunks():
    close(torch.func.jacrev(lambda x: x**2, chunk_size=2)(X), np.diag(2 * X))
    nothing_named("jacobian", among=(torch.func,))
    assert not has_parameter(torch.func.jacfwd, "chunk_size")


@probe(PARTLY, "by hand: the value as `has_aux`")
def value_and_jacobian():
    nothing_named("value_and_jac", "jacobian_and_value", "hessian_and_value", among=EVERYWHERE)
    found, value = torch.func.jacrev(lambda x: (x**2, x**2), has_aux=True)(X)
    close(found, np.diag(2 * X))
    close(value, X**2)


@probe(YES)
def hessian():
    close(torch.func.hessian(lambda x: (x**3).sum())(X), np.diag(6 * X))


@probe(YES, "`torch.autograd.functional.hvp`")
def hvp():
    close(torch.autograd.functional.hvp(lambda x: (x**3).sum(), X, torch.ones_like(X))[1], 6 * X)


@probe(PARTLY, "written by hand from `jvp` and `vjp`")
def gauss_newton():
    nothing_named("gauss", "ggn", among=(torch.func, torch.autograd.functional))
    _, tangent = torch.func.jvp(torch.sin, (X,), (torch.ones_like(X),))
    close(torch.func.vjp(torch.sin, X)[1](tangent)[0], np.cos(X) ** 2)


@probe(NO, "no such function; the whole Hessian, or a loop")
def laplacian():
    nothing_named("laplac", "divergence", "hessian_diag", among=(torch.func, torch.autograd.functional, torch))


@probe(NO, "nested `jvp`, whose cost doubles with each order")
def taylor():
    nothing_named("taylor", "jet", among=(torch.func, torch.autograd, torch))


# Batches


@probe(YES)
def vmap():
    tree = {"a": torch.ones(2, 3)}
    assert torch.func.vmap(lambda tree, y: tree["a"] * y, in_dims=({"a": 1}, None))(tree, 2.0).shape == (3, 2)


@probe(YES)
def vmap_chunks():
    close(torch.func.vmap(torch.sin, chunk_size=2)(X), np.sin(X))


@probe(NO, "`torch` functions instead")
def vmap_numpy():
    with refused():
        torch.func.vmap(lambda x: np.sum(np.sin(x)))(torch.ones(2, 3))


@probe(YES)
def per_example_gradients():
    close(torch.func.vmap(torch.func.grad(lambda x: (x**2).sum()))(torch.ones(2, 3)), 2 * np.ones((2, 3)))


class TenfoldSine(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * 10 * torch.cos(ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx, t):
        return t * 10 * torch.cos(ctx.saved_tensors[0])

    @staticmethod
    def vmap(info, in_dims, x):
        return 100 * torch.sin(x), 0


@probe(YES)
def batch_rule():
    close(torch.func.vmap(TenfoldSine.apply)(X), 100 * np.sin(X))


# Rules of one's own


@probe(YES)
def custom_rule():
    close(torch.func.grad(TenfoldSine.apply)(T), 10 * np.cos(0.3))


@probe(YES, "`torch.autograd.Function`")
def both_rules():
    close(torch.func.grad(TenfoldSine.apply)(T), 10 * np.cos(0.3))
    close(torch.func.jvp(TenfoldSine.apply, (T,), (torch.ones_like(T),))[1], 10 * np.cos(0.3))


@probe(YES, "`torch.autograd.Function`, or `torch.library.custom_op`")
def new_primitive():
    import scipy.special

    class Bessel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.from_numpy(np.asarray(scipy.special.jv(0, x.numpy())))

        @staticmethod
        def backward(ctx, g):
            return -g * torch.from_numpy(np.asarray(scipy.special.jv(1, ctx.saved_tensors[0].numpy())))

    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    Bessel.apply(x).backward()
    close(x.grad, -scipy.special.jv(1, 1.0))


@probe(NO, "no such function")
def numerical_primitive():
    nothing_named("numerical", "finite_diff", "complex_step", among=(torch.func, torch.autograd, torch.library))


@probe(PARTLY, "`torch.utils.checkpoint`, with policies by operation; not under `torch.func`")
def checkpoint_policies():
    checkpoint = torch.utils.checkpoint
    policy = functools.partial(checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
    x = T.clone().requires_grad_()
    checkpoint.checkpoint(lambda x: torch.sin(x) ** 2, x, use_reentrant=False, context_fn=policy).backward()
    close(x.grad, np.sin(0.6))
    with refused():
        torch.func.grad(lambda x: checkpoint.checkpoint(torch.sin, x, use_reentrant=False))(T)


@probe(NO, "`checkpoint_sequential` by equal segments")
def binomial_checkpointing():
    nothing_named("binomial", "revolve", among=(torch.utils.checkpoint, torch.autograd))


# Control flow


@probe(PARTLY, "`torch.cond`, by `backward`; not under `torch.func.grad`; no `switch`")
def cond():
    with refused(AssertionError, saying="FakeTensor"):
        torch.func.grad(lambda x: torch.cond(x > 0, lambda x: x**2, lambda x: -x, (x,)))(T)
    x = T.clone().requires_grad_()
    torch.cond(x > 0, lambda x: x**2, lambda x: -x, (x,)).backward()
    close(x.grad, 0.6)
    nothing_named("switch", among=(torch, torch.func))


@probe(PARTLY, "private (`torch._higher_order_ops`), for compiled programs")
def scan():
    nothing_named("scan", among=(torch, torch.func))
    out = torch._higher_order_ops.associative_scan(lambda a, b: a * b, X, 0, combine_mode="generic")
    close(out, np.cumprod(X))


@probe(PARTLY, "`torch.while_loop`, by `backward`; not under `torch.func.grad`")
def while_loop_reverse():
    def f(x):
        return torch.while_loop(lambda c: c < 100, lambda c: (c * c,), (x,))[0]

    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    f(x).backward()
    close(x.grad, 8 * 3.0**7)
    with refused(AssertionError, saying="FakeTensor"):
        torch.func.grad(f)(x.detach())


# Solvers


@probe(NO, "no such function; write a custom rule")
def implicit_differentiation():
    nothing_named("root", "fixed_point", "implicit", among=(torch.func, torch.autograd))


@probe(NO, "in other packages, such as torchdiffeq")
def ode_adjoint():
    nothing_named("odeint", "solve_ivp", among=(torch, torch.func, torch.autograd))


@probe(NO, "optimisers of its own")
def scipy_optimisers():
    nothing_named("minimize", "least_squares", "curve_fit", among=(torch, torch.func, torch.optim))


# Trees and models


@probe(PARTLY, "containers of Python; registration is private (`torch.utils._pytree`)")
def trees():
    found = torch.func.grad(lambda tree: (tree["a"][0] ** 2).sum())({"a": [X]})
    close(found["a"][0], 2 * X)
    nothing_named("pytree", "register_tree", among=(torch, torch.func, torch.utils))


@probe(YES, "all operations on tensors with `requires_grad` are recorded")
def tape():
    x = X.clone().requires_grad_()
    close(torch.autograd.grad((x**2).sum(), [x])[0], 2 * X)


@probe(YES, "`torch.nn.Parameter`")
def variables():
    weight = torch.nn.Parameter(X.clone())
    (weight**2).sum().backward()
    close(weight.grad, 2 * X)


@probe(YES, "`torch.autograd.forward_ad`")
def forward_accumulator():
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        close(forward.unpack_dual(torch.sin(forward.make_dual(X, torch.ones_like(X)))).tangent, np.cos(X))


@probe(YES)
def functional_model():
    model = torch.nn.Linear(3, 1)
    parameters = dict(model.named_parameters())
    found = torch.func.grad(lambda p: torch.func.functional_call(model, p, (X.float(),)).sum())(parameters)
    close(found["weight"][0], X)


@probe(YES)
def layers():
    assert torch.nn.LSTM(2, 3)(torch.ones(4, 1, 2))[0].shape == (4, 1, 3)
    assert torch.nn.Conv2d(1, 2, 3)(torch.ones(1, 1, 5, 5)).shape == (1, 2, 3, 3)


# Finding faults


@probe(PARTLY, "`detect_anomaly` names operation and line, of gradients by `backward` only, and in a warning")
def debug_nans():
    import warnings

    x = torch.tensor(0.0, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, refused(RuntimeError, saying="nan"):
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            (torch.sqrt(x) * 0.0).backward()
    assert any("feature_probes_torch" in str(warning.message) for warning in caught)
    with torch.autograd.detect_anomaly(check_nan=True):
        assert torch.isnan(torch.log(x - 1))


@probe(NO, "NaN; guard the branch by hand (a second `where`)")
def nan_safe():
    x = torch.tensor([0.0, 4.0])
    assert torch.isnan(torch.func.grad(lambda x: torch.where(x > 0, torch.sqrt(x), 0.0).sum())(x)[0])


@probe(PARTLY, "`np.array(x)` raises with a fix; `x.item()` and `math.sin(x)` become constants silently")
def errors_name_the_line():
    x = T.clone().requires_grad_()
    with refused(RuntimeError, saying="detach"):
        np.array(x)
    close(torch.func.grad(lambda x: x * x.item())(T), 0.3)
    close(torch.func.grad(lambda x: x * math.sin(x))(T), math.sin(0.3))


@probe(NO, "`None` or zeros, without a message")
def explain_zero():
    close(torch.func.grad(lambda x: torch.round(x).sum())(X), np.zeros(3))
    nothing_named("explain", among=(torch.autograd, torch.func))


@probe(YES, "`torch.autograd.gradcheck`")
def check_grads():
    assert torch.autograd.gradcheck(torch.sin, (X.clone().requires_grad_(),))


# The program


@probe(YES, "`make_fx`, `torch.export`")
def expression_list():
    assert "aten.sin" in make_fx(torch.func.grad(lambda x: torch.cos(x)))(T).code


@probe(YES, "device `meta`")
def abstract_shapes():
    assert (torch.ones(2, 3, device="meta") @ torch.ones(3, 2, device="meta")).shape == (2, 2)


@probe(YES)
def jit():
    close(torch.compile(lambda x: torch.sin(x) * 2, backend="aot_eager")(X), 2 * np.sin(X))


@probe(PARTLY, "the program breaks into parts at the branch, and Python runs between them")
def compiled_branches():
    def f(x):
        return x**2 if x.sum() > 0 else -x

    close(torch.compile(f, backend="aot_eager")(torch.ones(2)), np.ones(2))
    with refused():
        torch.compile(f, backend="aot_eager", fullgraph=True)(torch.ones(2))


@probe(YES, "by its documentation; not run here")
def gpu():
    assert callable(torch.cuda.is_available)
    assert torch.ones(2, device="cpu").device.type == "cpu"


@probe(YES, "by its documentation; not run here")
def several_devices():
    assert torch.distributed.is_available()


@probe(YES)
def export():
    class Sine(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x)

    close(torch.export.export(Sine(), (X,)).module()(X), np.sin(X))


@probe(NO, "a compiled package with six dependencies")
def pure_python():
    assert len(requirements("torch")) >= 6


# What no public name speaks of

probe.absent(
    EVERYWHERE,
    {
        "linear_transpose": ("no such function; `vjp` evaluates the function at a point", "linear_transpose"),
        "sparse_derivatives": ("no patterns of sparsity, no colouring", "coloring sparsity sparse_jac sparse_hess"),
        "implicit_gradients": ("parameters are listed by hand or by a module", "implicit_grad"),
    },
)


if __name__ == "__main__":
    probe.main()
