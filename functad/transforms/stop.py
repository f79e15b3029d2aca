"""`stop_gradient`: the value of a Tensor as a constant."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np

from functad.primitives.batching import elementwise
from functad.primitives.kinds import constant
from functad.trees import tree_map

T = TypeVar("T")


def _identity(x: Any) -> Any:
    return x.copy() if type(x) is np.ndarray else x  # the user may write to the result


STOP = constant(
    _identity,
    name="stop_gradient",
    samples=lambda array: [((array(3),), {})],
    spec=lambda x: x,
    internal=True,
    doc="the value; the derivative is cut",
    batch=elementwise,
)


def stop_gradient(x: T) -> T:
    """Return the value of `x` as a constant: no derivative flows through it, in any mode and of any order.

    Args:
        x: an array, number, or pytree of them.

    Returns:
        The same pytree with plain values. In an abstract trace, the leaves are Tensors with a zero derivative.

    Example:
        >>> import numpy as np, functad
        >>> float(functad.grad(lambda x: x * stop_gradient(x))(3.0))
        3.0
    """
    return cast("T", tree_map(_stopped, x))


def _stopped(leaf: Any) -> Any:
    read = getattr(type(leaf), "__functad_read__", None)  # read a Variable
    return STOP(leaf if read is None else read(leaf))
