"""`compute`: computes lazy results together, so that shared work runs once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from functad.primitives.operands import is_traced
from functad.trees import flatten


def is_lazy(leaf: Any) -> bool:
    """Return `True` if a leaf follows Dask's collection protocol: a result that is not computed yet."""
    return hasattr(type(leaf), "__dask_graph__")


def compute(*trees: Any, **options: Any) -> Any:
    """Return trees with all lazy leaves computed in one pass over their common graph.

    A value and its gradient share the forward pass and the data. Two separate computations would read the data twice.

    Args:
        trees: arrays and numbers, or containers of them. Dask leaves are computed; other leaves stay unchanged.
        options: keyword arguments of `dask.compute`, such as `scheduler="processes"`.

    Returns:
        The tree, or a tuple of trees if several were given.

    Raises:
        ConversionError: a leaf is a Tensor that is being differentiated.

    Example:
        >>> import numpy as np, dask.array as da, functad
        >>> X = da.from_array(np.arange(6.0).reshape(3, 2), chunks=(1, 2))
        >>> value, gradient = functad.value_and_grad(lambda w: np.sum((X @ w) ** 2))(np.array([1.0, -1.0]))
        >>> type(gradient).__name__
        'Array'
        >>> value, gradient = functad.compute(value, gradient)
        >>> float(value), gradient
        (3.0, array([-12., -18.]))
    """
    leaves, structure = flatten(trees)
    leaves = [leaf._plain("compute") if is_traced(leaf) else leaf for leaf in leaves]
    lazy = [i for i, leaf in enumerate(leaves) if is_lazy(leaf)]
    if lazy:
        dask: Any = import_module("dask")
        for i, value in zip(lazy, dask.compute(*[leaves[i] for i in lazy], **options), strict=True):
            leaves[i] = value
    found = structure.unflatten(leaves)
    return found[0] if len(trees) == 1 else found
