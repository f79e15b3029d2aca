"""JAX: NumPy functions in JAX programs, and JAX functions in NumPy programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad.bridges.foreign import Flat, ForeignFunction, Library
from functad.expressions.spec import ArraySpec, is_array, is_inexact
from functad.process import optional
from functad.rules.call import CallWithRules, Rules
from functad.tracing.trace import value_of
from functad.transforms.leaves import pull_leaves, replaced
from functad.transforms.vmap import vmap

P = ParamSpec("P")
R = TypeVar("R")


def from_jax(f: Callable[P, R]) -> ForeignFunction[P, R]:
    """Return a JAX function as a functad function: JAX computes its value and all its derivatives.

    Each call is one operation, and every transform supports it. Reverse mode calls `jax.vjp`, forward mode `jax.jvp`,
    `functad.vmap` calls `jax.vmap`, and higher derivatives nest these calls. If the function is jitted by JAX, its derivatives
    are jitted too. Under `functad.jit` it runs as a separate step between compiled code; with `backend="xla"` it is part of the
    compiled program, unless it branches on values.

    Args:
        f: a function of JAX arrays, in any containers, that returns JAX arrays in containers. Arguments that are not arrays
            are passed through.

    Returns:
        The function for NumPy arrays and Tensors. It computes with 64 bits if an argument has 64 bits or all arguments are
        Python numbers, also without `jax_enable_x64`, and with 32 bits if all arguments have 32 bits. JAX arrays and tracers
        are passed to `f` unchanged.

    Raises:
        MissingPackageError: JAX is not installed.
        InputError: (when called) a result is not a JAX array, nor a Python number computed from Python numbers alone.

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
        # `ensure_compile_time_eval`: values are computed immediately, also inside a JAX trace.
        with jax.enable_x64(wide or jax.config.jax_enable_x64), jax.ensure_compile_time_eval():
            return [np.array(out)[()] for out in flat(*map(jax.numpy.array, arrays))]

    def like(f: Any, flat: Flat) -> Flat:
        return jax.jit(flat) if isinstance(f, jax.stages.Wrapped) else flat

    return ForeignFunction(f, Library(jax.Array, run, jax.vjp, jax.jvp, jax.vmap, like, of_jax=True), from_jax)


def to_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy function as a function for JAX programs, with derivatives by functad.

    Under `jax.grad`, `jax.vjp` and `jax.jacrev`, nested to any depth, functad computes the derivative (`jax.custom_vjp`). JAX
    has no forward mode for such functions. Under `jax.jit` the compiled program calls back to Python (`jax.pure_callback`).
    Under `jax.vmap` there is one callback for all examples, computed by `functad.vmap`. Outside of these transforms `f` runs
    immediately and may branch on values. For a compiled program an abstract trace finds the shapes, or else a call with ones.

    Args:
        f: a NumPy function. Its arguments are NumPy arrays in JAX pytrees. Arguments that are not arrays are passed through.

    Returns:
        The function for JAX arrays. JAX arrays have 32 bits unless 64 bits are enabled (`jax.enable_x64`); `f` computes with
        their dtypes, and JAX converts results with 64 bits to 32 bits. Integer arguments and results have no gradient.

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
    """Return a function of arrays for JAX: called immediately if the values are known, else by a callback of the program."""

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
    """Return the results for all examples along the first `count` axes; an axis of length 1 is not batched."""
    if not count:
        return flat(*arrays)
    size = next((a.shape[0] for a in arrays if a.shape[0] != 1), 1)
    axes = tuple([None if a.shape[0] == 1 != size else 0 for a in arrays])
    own = [a[0] if axis is None else a for a, axis in zip(arrays, axes, strict=True)]
    outs: Sequence[Any] = vmap(lambda *one: list(_over_axes(flat, one, count - 1)), in_axes=axes)(*own)
    return outs
