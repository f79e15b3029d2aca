"""PyTorch: NumPy functions in PyTorch programs, and PyTorch functions in NumPy programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad.bridges.foreign import Flat, ForeignFunction, Library
from functad.expressions.spec import PYTHON_SCALARS
from functad.process import optional
from functad.tracing.trace import value_of
from functad.transforms.leaves import pull_leaves, push_leaves, replaced
from functad.transforms.vmap import vmap
from functad.trees import flatten

P = ParamSpec("P")
R = TypeVar("R")


def from_torch(f: Callable[P, R]) -> ForeignFunction[P, R]:
    """Return a PyTorch function as a functad function: PyTorch computes its value and all its derivatives.

    Each call is one operation, and every transform supports it. Reverse mode calls `torch.func.vjp`, forward mode
    `torch.func.jvp`, `functad.vmap` calls `torch.func.vmap`, and higher derivatives nest these calls. Under `functad.jit` it
    runs as a separate step between compiled code. Complex gradients follow functad's convention; PyTorch's gradients are their
    conjugates.

    Args:
        f: a function of PyTorch tensors, in any containers, that returns tensors in containers. Arguments that are not arrays
            are passed through. `torch.func` must be able to differentiate `f`: an `autograd.Function` in it needs
            `setup_context`. Parameters of modules are constants, unless they are arguments (`torch.func.functional_call`).

    Returns:
        The function for NumPy arrays and Tensors. Arrays become PyTorch tensors of the same dtype on PyTorch's default device.
        PyTorch tensors are passed to `f` unchanged.

    Raises:
        MissingPackageError: PyTorch is not installed.
        InputError: (when called) a result is not a PyTorch tensor, nor a Python number computed from Python numbers alone.

    Example:
        >>> import functad, numpy as np, torch  # doctest: +SKIP
        >>> @functad.from_torch  # doctest: +SKIP
        ... def energy(x, stiffness):
        ...     return stiffness * torch.sum(torch.diff(x) ** 2) / 2
        >>> x = np.array([0.0, 1.0, 3.0])  # doctest: +SKIP
        >>> functad.grad(lambda x: np.sqrt(energy(x, 2.0)))(x).round(4)  # doctest: +SKIP
        array([-0.4472, -0.4472,  0.8944])
        >>> functad.hessian(energy)(x, 2.0)  # doctest: +SKIP
        array([[ 2., -2.,  0.],
               [-2.,  4., -2.],
               [ 0., -2.,  2.]])
    """
    torch = optional("torch", "from_torch", "PyTorch", "torch")

    def run(flat: Flat, arrays: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            return [_numpy(out)[()] for out in flat(*[torch.as_tensor(np.array(a)) for a in arrays])]

    def vjp(flat: Flat, *primals: Any) -> tuple[Any, Callable[..., Any]]:
        outs, pull = torch.func.vjp(flat, *primals)
        return outs, lambda gs: [ct.conj() for ct in pull([g.conj() for g in gs])]

    own = Library(torch.Tensor, run, vjp, torch.func.jvp, torch.func.vmap, lambda f, flat: flat)
    return ForeignFunction(f, own, from_torch)


def to_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy function as a function of PyTorch tensors, with derivatives by functad.

    It calls an `autograd.Function` with rules for both modes and for `torch.func.vmap`; its derivatives are such functions
    again. So `backward`, `torch.autograd.grad`, `torch.func.grad`, `jvp`, `vmap`, `hessian` and nested transforms support it.

    Args:
        f: a NumPy function. Its arguments are NumPy arrays, copied from the given tensors, in the same containers. Arguments
            that are not tensors are passed through.

    Returns:
        The function for PyTorch tensors. Results are tensors with the dtype of the results of `f`, on the device of the first
        tensor. Integers have no gradient.

    Raises:
        MissingPackageError: PyTorch is not installed.

    Example:
        >>> import functad, numpy as np, torch  # doctest: +SKIP
        >>> @functad.to_torch  # doctest: +SKIP
        ... def area(corners):
        ...     x, y = corners.T
        ...     return np.abs(np.sum(x * np.roll(y, 1) - y * np.roll(x, 1))) / 2
        >>> corners = torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]], requires_grad=True)  # doctest: +SKIP
        >>> torch.log(area(corners)).backward()  # doctest: +SKIP
        >>> corners.grad  # doctest: +SKIP
        tensor([[-0.2500, -0.5000],
                [ 0.2500, -0.5000],
                [ 0.2500,  0.5000],
                [-0.2500,  0.5000]])
    """
    torch = optional("torch", "to_torch", "PyTorch", "torch")

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        others = replaced(leaves, places, [None] * len(places))
        result: list[Any] = []

        def flat(*arrays: Any) -> list[Any]:
            args, kwargs = structure.unflatten(replaced(others, places, arrays))
            outs, *result[:] = flatten(f(*args, **kwargs))
            return list(map(value_of, outs))

        outs = _hosted(torch, flat).apply(*[leaves[i] for i in places])
        return result[0].unflatten(outs)

    return call


def _numpy(tensor: Any) -> Any:
    """Return a copy of a PyTorch tensor, or a Python number, as a NumPy array."""
    return (
        np.asarray(tensor)
        if type(tensor) in PYTHON_SCALARS
        else tensor.detach().resolve_conj().resolve_neg().cpu().numpy().copy()
    )


def _hosted(torch: Any, flat: Flat) -> Any:
    """Return a function of arrays as an `autograd.Function` class."""

    class Hosted(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(*leaves: Any) -> tuple[Any, ...]:
            device = leaves[0].device if leaves else None
            return tuple([torch.as_tensor(np.array(out), device=device) for out in flat(*map(_numpy, leaves))])

        @staticmethod
        def setup_context(ctx: Any, inputs: Sequence[Any], output: Sequence[Any]) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)
            ctx.count = len(output)
            ctx.of = [i for i, out in enumerate(output) if out.is_floating_point() or out.is_complex()]

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> tuple[Any, ...]:
            leaves = ctx.saved_tensors
            count, active = len(leaves), [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
            pull = _hosted(torch, lambda *own: pull_leaves(flat, own[:count], own[count:], active))
            found = pull.apply(*leaves, *[gs[i].conj() for i in ctx.of])  # PyTorch's gradients are conjugates
            return tuple(replaced([None] * count, active, [ct.conj() for ct in found]))

        @staticmethod
        def jvp(ctx: Any, *ts: Any) -> tuple[Any, ...]:
            leaves = ctx.saved_tensors
            count, moving = len(leaves), [i for i, t in enumerate(ts) if t is not None]

            def push(*own: Any) -> list[Any]:
                found = push_leaves(flat, own[:count], replaced([None] * count, moving, own[count:]))
                return [found[i] for i in ctx.of]

            found = dict(zip(ctx.of, _hosted(torch, push).apply(*leaves, *[ts[i] for i in moving]), strict=True))
            return tuple([found.get(i) for i in range(ctx.count)])

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *leaves: Any) -> tuple[Any, Any]:
            outs = _hosted(torch, vmap(lambda *own: list(flat(*own)), in_axes=in_dims)).apply(*leaves)
            return outs, (0,) * len(outs)

    return Hosted
