"""Checks of matrix arguments for `scipy.linalg`, and the extension of functions of one matrix to stacks."""

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
    """Return `a`, which may be a list with Tensors, as an array or Tensor; check for finite elements if `check`."""
    a = as_array(as_operand(a))
    return asarray_chkfinite(a) if check else a


def square(a: Any, check: bool = True) -> Any:
    """Return square matrices; check for finite elements if `check`.

    Raises:
        ValueError: the matrices are not square, or not finite.
    """
    a = finite(a, check)
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"expected a square matrix, or a stack of them; the shape is {shape}")
    return a


def over_stacks(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Extend a function of one square matrix, whose result has the same shape, to stacks of matrices."""

    def of_stacks(a: Any) -> Any:
        if a.ndim == 2:
            return function(a)
        if 0 in a.shape:
            return a.copy()
        return np.stack([function(x) for x in a.reshape(-1, *a.shape[-2:])]).reshape(a.shape)

    return of_stacks


def refusal(what: str, cure: str) -> UnsupportedError:
    """Return the error for a call that has no derivative rule."""
    return UnsupportedError(f"scipy.linalg.{what} of a Tensor, at {here()}, has no derivative rule. {cure}")
