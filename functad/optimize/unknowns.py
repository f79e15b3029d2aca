"""The unknowns of a problem: a pytree for the user, one flat float64 array for SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.errors import InputError, StructureError
from functad.expressions.spec import dtype_of, is_array, shape_of
from functad.places import here, name_of
from functad.primitives.operands import foreign_rules
from functad.tracing.trace import Recorded, value_of
from functad.transforms.ravel import ravel
from functad.trees import LEAF, flatten


class Unknowns:
    """The start of a SciPy method, with the conversion of flat arrays to pytrees.

    Attributes:
        flat: the start, float64 of shape `(n,)`.
        structure: the structure of the pytree.
        shapes: the shapes of its leaves.
        tree: makes the pytree argument of the function. Its leaves are float64 for every dtype of the start, because line
            searches and stopping rules need the precision.
        restore: makes the pytree for the user, with the dtypes of the start.
    """

    def __init__(self, x0: Any, transform: str, function: object) -> None:
        leaves, self.structure = flatten(_as_array(x0))
        leaves = [value_of(leaf) for leaf in leaves]
        for i, leaf in enumerate(leaves):
            reason = _unfit(leaf, alone=self.structure is LEAF)
            if reason is not None:
                raise InputError(
                    f"{transform} of {name_of(function)}, called at {here()}: {self.structure.paths('x0')[i]} is {reason}"
                )
        leaves = [leaf if dtype_of(leaf).kind == "f" else np.asarray(leaf, np.float64)[()] for leaf in leaves]
        self.restore: Callable[[Any], Any] = ravel(self.structure.unflatten(leaves))[1]
        exact = [np.asarray(leaf, np.float64) if issubclass(type(leaf), np.ndarray) else np.float64(leaf) for leaf in leaves]
        flat, unravel = ravel(self.structure.unflatten(exact))
        self.flat: np.ndarray[Any, np.dtype[np.float64]] = flat
        self.shapes = [shape_of(leaf) for leaf in leaves]
        is_vector = self.structure is LEAF and len(self.shapes[0]) == 1
        self.tree: Callable[[Any], Any] = (lambda x: x) if is_vector else unravel

    def flatten(self, tree: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a pytree like the start as a flat array.

        Raises:
            StructureError: the structure or a shape differs from the start.
        """
        leaves = self.structure.flatten_like(_as_array(tree) if self.structure is LEAF else tree, name)
        for leaf, shape, path in zip(leaves, self.shapes, self.structure.paths(name), strict=True):
            if shape_of(leaf) != shape:
                raise StructureError(f"{path} has shape {shape_of(leaf)}, but that of x0 has {shape}, at {here()}.")
        return np.asarray(ravel(leaves)[0], np.float64)


def _as_array(x0: Any) -> Any:
    """Return a list or tuple of plain numbers as an array, as SciPy does; return anything else unchanged."""
    return np.array(x0) if isinstance(x0, (list, tuple)) and x0 and _only_numbers(x0) else x0


def _only_numbers(x0: Any) -> bool:
    if isinstance(x0, (list, tuple)) and not hasattr(x0, "_fields"):
        return all(_only_numbers(part) for part in x0)
    return issubclass(type(x0), (int, float, complex, np.number))


def _unfit(leaf: Any, *, alone: bool) -> str | None:
    """Return the reason why a leaf is not a valid start, or `None`."""
    if isinstance(leaf, Recorded):
        return (
            "a Tensor of an outer transform, which cannot follow the steps of SciPy: functad.argmin differentiates a solution, "
            "functad.stop_gradient makes it a constant."
        )
    if not issubclass(type(leaf), (bool, int, float, complex, np.generic, np.ndarray)):
        own = foreign_rules(leaf) if is_array(leaf) else None
        what = f"a {type(leaf).__name__}"
        return f"{what}. {own}" if own else f"{what}, not an array of numbers. Leave it out of x0 and pass it by args."
    kind = dtype_of(leaf).kind
    if kind == "c":
        return "complex, but SciPy's methods know real numbers only: start from {'re': x.real, 'im': x.imag}."
    if kind in "iu" and alone:
        return None  # as in SciPy, a single array of integers is a valid start
    if kind in "biu":
        return "an integer: pass a float to have it changed, and by args what is fixed."
    return None if kind == "f" else f"of dtype {dtype_of(leaf)}, not a number."
