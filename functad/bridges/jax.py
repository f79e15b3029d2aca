"""JAX: functions of functad inside JAX programs, and functions of JAX inside programs of NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad.bridges.foreign import Flat, ForeignFunction, Library
from functad.expressions.spec import ArraySpec, is_array, is_inexact
from functad.importable import optional
from functad.rules.call import CallWithRules
from functad.rules.rules import Rules
from functad.transforms.calling.arguments import value_of
from functad.transforms.leaves import pull_leaves, replaced
from functad.transforms.vmap import vmap

P = ParamSpec("P")
R = TypeVar("R")


def from_jax(f: Callable[P, R]) -> ForeignFunction[P, R]:
    """Make a function of JAX a function of functad: JAX computes its value and all its derivatives.

    Each call is one operation, which every transform takes: reverse mode calls `jax.vjp`, forward mode `jax.jvp`,
    `functad.vmap` calls `jax.vmap`, and derivatives of higher order call these on one another. A function that is jitted by JAX
    stays so, and so do its derivatives. Under `functad.jit` it is a step between compiled ones; with `backend="xla"` it
    is a part of what is compiled, unless it branches on values.

    Args:
        f: a function of JAX's arrays, in any containers, that returns arrays in containers; what is no array among its
            arguments is handed through.

    Returns:
        The function for arrays of NumPy, and for Tensors. It computes with 64 bits where an argument has 64 (or all are numbers
        of Python), whatever JAX is set to, and with 32 where all have 32. Arrays of JAX, also those that JAX traces, go to `f`
        as they are.

    Raises:
        MissingPackageError: JAX is not installed.
        InputError: (when called) a result is no array of JAX.

    Example:
        >>> import functad, jax.numpy as jnp, numpy as np
        >>> from functad import from_jax
        >>> @from_jax
        ... def energy(x, stiffness):
        ...     return stiffness * jnp.sum(jnp.diff(x) ** 2) / 2
        >>> x = np.array([0.0, 1.0, 3.0])
        >>> functad.grad(lambda x: np.sqrt(energy(x, 2.0)))(x).round(4)
        array([-0.4472, -0.4472,  0.8944])
        >>> functad.hessian(energy)(x, 2.0)
        array([[ 2., -2.,  0.],
               [-2.,  4., -2.],
               [ 0., -2.,  2.]])
    """
    jax = optional("jax", "from_jax", "JAX", "'functad[xla]'")

    def run(flat: Flat, arrays: Sequence[Any]) -> list[Any]:
        dtypes = [a.dtype for a in arrays if hasattr(a, "dtype")]
        wide = not dtypes or any(dtype.itemsize == (16 if dtype.kind == "c" else 8) for dtype in dtypes)
        # Inside of a function that JAX traces too, this is computed at once.
        with jax.enable_x64(wide or jax.config.jax_enable_x64), jax.ensure_compile_time_eval():
            return [np.array(out)[()] for out in flat(*map(jax.numpy.array, arrays))]

    def like(f: Any, flat: Flat) -> Flat:
        return jax.jit(flat) if isinstance(f, jax.stages.Wrapped) else flat

    return ForeignFunction(f, Library(jax.Array, run, jax.vjp, jax.jvp, jax.vmap, like, of_jax=True), from_jax)


def to_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of NumPy code a function for JAX programs, with the derivatives that functad finds.

    Under `jax.grad`, `jax.vjp`, `jax.jacrev`, nested to any depth, its derivative is functad's, by `jax.custom_vjp`; JAX has no
    forward mode for such functions. Under `jax.jit` the compiled program calls back to Python (`jax.pure_callback`), and under
    `jax.vmap` it does so once for all examples, which `functad.vmap` computes. Outside of these it is called at once, so a
    branch on values is welcome; for a compiled program shapes are found by an abstract trace, or else by a call with ones.

    Args:
        f: a function of NumPy code. Its arguments are arrays of NumPy in the containers that JAX knows; what is no array is
            handed through.

    Returns:
        The function for arrays of JAX. These have 32 bits unless JAX is set to 64 (`jax.enable_x64`), and `f` computes with
        what they have; a result with 64 bits becomes one with 32 as every array does that is given to JAX then. Arguments and
        results that are integers have no gradient.

    Raises:
        MissingPackageError: JAX is not installed.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> from functad import to_jax
        >>> @to_jax
        ... def area(corners):
        ...     x, y = corners.T
        ...     return np.abs(np.sum(x * np.roll(y, 1) - y * np.roll(x, 1))) / 2
        >>> corners = jnp.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
        >>> area(corners)
        Array(2., dtype=float32)
        >>> jax.jit(jax.grad(lambda corners: jnp.log(area(corners))))(corners)
        Array([[-0.25, -0.5 ],
               [ 0.25, -0.5 ],
               [ 0.25,  0.5 ],
               [-0.25,  0.5 ]], dtype=float32)
    """
    jax = optional("jax", "to_jax", "JAX", "'functad[xla]'")

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
        others = replaced(leaves, places, [None] * len(places))
        result: list[Any] = []

        def flat(*arrays: Any) -> list[Any]:
            args, kwargs = jax.tree.unflatten(structure, replaced(others, places, arrays))
            outs, *result[:] = jax.tree.flatten(f(*args, **kwargs))
            return list(map(value_of, outs))

        outs = _hosted(jax, flat)(*[leaves[i] for i in places])
        return jax.tree.unflatten(result[0], outs)

    return call


def _hosted(jax: Any, flat: Flat) -> Callable[..., Any]:
    """Return a function of arrays as JAX calls it: at once where their values are known, else when the program runs."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def call(*leaves: Any) -> list[Any]:
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return [jax.numpy.asarray(out) for out in flat(*map(np.array, leaves))]
        specs = [ArraySpec(leaf.shape, leaf.dtype) for leaf in leaves]
        found = CallWithRules(Rules(flat, lambda *own: tuple(flat(*own)))).spec(*specs)
        dtypes = [jax.dtypes.canonicalize_dtype(spec.dtype) for spec in found]
        shapes = [jax.ShapeDtypeStruct(spec.shape, dtype) for spec, dtype in zip(found, dtypes, strict=True)]

        def run(*arrays: Any) -> list[Any]:
            given = list(map(np.array, arrays))
            outs = _over_axes(flat, given, max((a.ndim - len(s.shape) for a, s in zip(given, specs, strict=True)), default=0))
            return [np.asarray(out, dtype) for out, dtype in zip(outs, dtypes, strict=True)]

        return jax.pure_callback(run, shapes, *leaves, vmap_method="expand_dims")  # type: ignore[no-any-return]

    def backward(leaves: Sequence[Any], gs: Sequence[Any]) -> tuple[Any, ...]:
        active = [i for i, leaf in enumerate(leaves) if is_inexact(leaf)]
        known = [g for g in gs if g.dtype != jax.dtypes.float0]
        pull = _hosted(jax, lambda *own: pull_leaves(flat, own[: len(leaves)], own[len(leaves) :], active))
        return tuple(replaced([None] * len(leaves), active, pull(*leaves, *known)))

    call.defvjp(lambda *leaves: (call(*leaves), leaves), backward)
    return call  # type: ignore[no-any-return]


def _over_axes(flat: Flat, arrays: Sequence[Any], count: int) -> Sequence[Any]:
    """Call a function for all examples along the first axes, which have length 1 where an array is the same for all."""
    if not count:
        return flat(*arrays)
    size = next((a.shape[0] for a in arrays if a.shape[0] != 1), 1)
    axes = tuple([None if a.shape[0] == 1 != size else 0 for a in arrays])
    own = [a[0] if axis is None else a for a, axis in zip(arrays, axes, strict=True)]
    outs: Sequence[Any] = vmap(lambda *one: list(_over_axes(flat, one, count - 1)), in_axes=axes)(*own)
    return outs
