"""What the functions of `scipy.linalg` ask of their matrices, and how a function of one matrix becomes one of stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.adoption.arrays import asarray_chkfinite
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.linalg.products import as_array
from functad.primitives.operands import as_operand


def finite(a: Any, check: bool = True) -> Any:
    """Return an array or Tensor, also for a list with Tensors in it, whose elements are finite if that is to be checked."""
    a = as_array(as_operand(a))
    return asarray_chkfinite(a) if check else a


def square(a: Any, check: bool = True) -> Any:
    """Return square matrices, whose elements are finite if that is to be checked.

    Raises:
        ValueError: they are not square, or not finite.
    """
    a = finite(a, check)
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"expected a square matrix, or a stack of them; the shape is {shape}")
    return a


def over_stacks(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of one square matrix, which gives a matrix of its shape, as a function of stacks of matrices."""

    def of_stacks(a: Any) -> Any:
        if a.ndim == 2:
            return function(a)
        if 0 in a.shape:
            return a.copy()
        return np.stack([function(x) for x in a.reshape(-1, *a.shape[-2:])]).reshape(a.shape)

    return of_stacks


def refusal(what: str, cure: str) -> UnsupportedError:
    """Return the error for a call that has no derivative here."""
    return UnsupportedError(f"scipy.linalg.{what} of a Tensor, at {here()}, has no derivative rule. {cure}")
