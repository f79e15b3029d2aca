"""`check_rules`: the rules of a function that was entered by `functad.primitive` or its relatives, at some arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import functad
from functad.errors import CustomRuleError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here, name_of
from functad.testing.gradients import check_grads
from functad.trees import flatten


def check_rules(f: Callable[..., Any], *args: Any, order: int = 1, **kwargs: Any) -> None:
    """Check the rules of a function: derivatives in both modes against numerical ones, the shape rule against the value.

    Args:
        f: what `functad.primitive`, `numerical_primitive`, `custom_vjp` or `custom_jvp` returned.
        args: arguments for it; floating-point and complex ones are differentiated.
        order: the highest order of derivative; 2 and more need rules that are NumPy code.
        kwargs: arguments by name, which are held fixed.

    Raises:
        WrongDerivativeError: a derivative differs from the numerical one.
        CustomRuleError: the shape rule gives another shape or dtype than the value has.

    Example:
        >>> import numpy as np, functad
        >>> cube = functad.primitive(lambda x: x**3, lambda g, x: 3 * g * x**2, name="cube")
        >>> check_rules(cube, np.array([0.5, 2.0]), order=2)
    """
    fixed = functools.partial(f, **kwargs)
    value, found = fixed(*args), functad.eval_shape(fixed, *args)
    leaves, structure = flatten(value)
    for a, b, path in zip(leaves, flatten(found)[0], structure.paths("result"), strict=True):
        if shape_of(a) != b.shape or dtype_of(a) != b.dtype:
            raise CustomRuleError(
                f"{_name(f)}: the shape rule gives {b} for {path}, but it is {dtype_of(a)}{list(shape_of(a))}, at {here()}."
            )

    def called(*given: Any) -> Any:
        try:
            return fixed(*given)
        except Exception as error:
            if any(dtype_of(a).kind == "c" for a in flatten(given)[0] if type(a) is complex or hasattr(a, "dtype")):
                raise TypeError(str(error)) from error  # which tells the check that there is no complex continuation
            raise

    atol, rtol = (1e-5, 1e-4) if "approximate=" in _name(f) else (None, None)
    check_grads(called, args, order=order, atol=atol, rtol=rtol)


def _name(f: Any) -> str:
    return str(getattr(f, "name", None) or name_of(f))
