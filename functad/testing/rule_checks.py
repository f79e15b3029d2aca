"""`check_rules`: the rules of a function that was entered by `functad.primitive` or its relatives, at some arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import functad
from functad.errors import CustomRuleError, WrongDerivativeError
from functad.expressions.spec import dtype_of, is_inexact, shape_of
from functad.places import here, name_of
from functad.rules.register import RegisteredFunction
from functad.testing.gradients import check_grads
from functad.trees.functions import tree_map
from functad.trees.structure import flatten


def check_rules(f: Callable[..., Any], *args: Any, order: int = 1, **kwargs: Any) -> None:
    """Check the rules of a function: derivatives in both modes against numerical ones, the shape rule against the value.

    Args:
        f: what `functad.primitive`, `numerical_primitive`, `custom_vjp` or `custom_jvp` returned.
        args: arguments for it; floating-point and complex ones are differentiated.
        order: the highest order of derivative; 2 and more need rules that are NumPy code.
        kwargs: arguments by name, which are held fixed.

    Raises:
        WrongDerivativeError: a derivative differs from the numerical one; the message names the rule, and the argument.
        CustomRuleError: the shape rule gives another shape or dtype than the value has, or the batch rule another value.

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

    _check_batch(f, fixed, args)
    atol, rtol = (1e-5, 1e-4) if "approximate=" in _name(f) else (None, None)
    try:
        check_grads(called, args, order=order, atol=atol, rtol=rtol)
    except WrongDerivativeError as wrong:
        if wrong.order != 1:
            raise
        raise WrongDerivativeError(f"{_rule(f, wrong)} is wrong: {wrong}", wrong.order, wrong.mode, wrong.path) from wrong


def _rule(f: Any, wrong: WrongDerivativeError) -> str:
    """Return which rule a wrong first derivative came from; without a rule for forward mode it is the other, transposed."""
    if not isinstance(f, RegisteredFunction):
        pushes = getattr(f, "jvp", None) is not None and (wrong.mode.startswith("forward") or f.bwd is None)
        return f"the {'JVP' if pushes else 'backward'} rule of {_name(f)}"
    place = re.match(r"args\[(\d+)\]", wrong.path)
    of = f" for {f.names[int(place[1])]}" if place and int(place[1]) < len(f.names) else ""
    pushes = f.entry is not None and f.entry.jvps is not None and wrong.mode.startswith("forward")
    return f"the {'JVP' if pushes else 'VJP'} rule of {f.name}{of}"


def _check_batch(f: Any, fixed: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Check the rule of `vmap`, if there is one: two examples at once against one after the other.

    Raises:
        CustomRuleError: it gives something else.
    """
    own = f.entry is not None and f.entry.batch is not None if isinstance(f, RegisteredFunction) else getattr(f, "batch", None)
    if not own:
        return
    moved = [tree_map(lambda a: a * 1.125 if is_inexact(a) else a, arg) for arg in args]
    both = [tree_map(lambda *pair: np.stack(pair), *pair) for pair in zip(args, moved, strict=True)]
    found = flatten(functad.vmap(fixed)(*both))[0]
    rows = [flatten(fixed(*given))[0] for given in (args, moved)]
    for i, (a, column) in enumerate(zip(found, zip(*rows, strict=True), strict=True)):
        expected = np.stack(column)
        if np.shape(a) != expected.shape or not np.allclose(a, expected, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise CustomRuleError(
                f"the batch rule of {_name(f)} is wrong: result {i} of two examples is {a}, one after the other {expected}, at "
                f"{here()}."
            )


def _name(f: Any) -> str:
    return str(getattr(f, "name", None) or name_of(f))
