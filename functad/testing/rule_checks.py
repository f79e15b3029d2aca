"""`check_rules`: check user-defined derivative rules, and the linearity of functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functad
from functad.errors import CustomRuleError, WrongDerivativeError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number, is_inexact, shape_of, spec_of
from functad.places import here, name_of
from functad.rules.custom import CustomFunction, rule_name
from functad.rules.register import RegisteredFunction
from functad.testing.gradients import check_grads
from functad.testing.numerical import pairing, random_like
from functad.transforms.leaves import replaced
from functad.trees import Structure, difference, flatten, tree_map

TOLERANCE = 1e-3
"""Relative to the size of the results. Rules may use differences or a solver, and a wrong rule has a large error."""

Flat = tuple[Sequence[Any], Structure]
"""A pytree as its leaves and its structure."""


def check_rules(f: Callable[..., Any], *args: Any, order: int = 1, linear: bool = False, **kwargs: Any) -> None:
    """Check the rules of a function at the given arguments.

    The checks that apply to `f`:

    - The derivative in both modes equals a numerical derivative (see `check_grads`).
    - `fwd` of `custom_vjp` and the rule of `custom_jvp` return the value of the function: structure, shapes, dtypes, numbers.
    - The rule of `custom_jvp` is linear in the tangents, because reverse mode transposes it.
    - The shape rule gives the shape and dtype of the value.
    - The batching rule gives, for a batch of two examples, the values of two separate calls.

    Values and linearity are compared where both numbers are finite, with a relative tolerance of 1e-3.

    Args:
        f: a function returned by `functad.primitive`, `numerical_primitive`, `custom_vjp` or `custom_jvp`; any function if
            `linear=True`. It must be deterministic.
        args: its arguments; `check_rules` differentiates with respect to the floating-point and complex ones.
        order: the highest order of derivative; 2 and more need rules in NumPy code.
        linear: also check that `f` is linear in all its floating-point and complex arguments together, and that
            `linear_transpose` gives the transpose: `g^T (A t) = (A^T g)^T t`. `linear_transpose` and the `matvec` of
            `custom_linear_solve` need this property.
        kwargs: keyword arguments, held fixed.

    Raises:
        WrongDerivativeError: a derivative differs from the numerical one; the message names the rule and the argument.
        CustomRuleError: another check failed; the message names the rule and the place of its definition.
        NotLinearError: an operation is not linear (only with `linear`); the message names the operation.

    Example:
        >>> import numpy as np, functad
        >>> cube = functad.primitive(lambda x: x**3, lambda g, x: 3 * g * x**2, name="cube")
        >>> check_rules(cube, np.array([0.5, 2.0]), order=2)
        >>> @functad.custom_vjp
        ... def log1pexp(x):
        ...     return np.logaddexp(0.0, x)
        >>> log1pexp.defvjp(lambda x: (log1pexp(x), x), lambda x, g: (g / (1 + np.exp(-x)),))
        >>> check_rules(log1pexp, np.array([-1.0, 3.0]))
        >>> check_rules(np.cumsum, np.ones(3), linear=True)
    """
    fixed = functools.partial(f, **kwargs)
    flat, arrays = _of_arrays(f, fixed, args)
    with np.errstate(all="ignore"):
        if isinstance(f, CustomFunction):
            _check_custom(f, args, kwargs)
        if linear:
            _check_linear(f, flat, arrays)
        _check_spec(f, flat, arrays)
        _check_batch(f, flat, arrays)

    def called(*given: Any) -> Any:
        try:
            return fixed(*given)
        except Exception as error:
            if any(dtype_of(a).kind == "c" for a in flatten(given)[0] if type(a) is complex or hasattr(a, "dtype")):
                raise TypeError(str(error)) from error  # tells `complex_step` that there is no complex continuation
            raise

    atol, rtol = (1e-5, 1e-4) if "approximate=" in _name(f) else (None, None)
    try:
        check_grads(called, args, order=order, atol=atol, rtol=rtol)
    except WrongDerivativeError as wrong:
        if wrong.order != 1:
            raise
        raise WrongDerivativeError(f"{_rule(f, wrong)} is wrong: {wrong}", wrong.order, wrong.mode, wrong.path) from wrong


def _of_arrays(f: Any, fixed: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of pytrees as a function of the arrays and numbers among its leaves, and these leaves."""
    leaves, structure = flatten(args)
    places = [i for i, leaf in enumerate(leaves) if is_array_or_number(leaf)]

    @functools.wraps(f, updated=())
    def flat(*arrays: Any) -> Any:
        return fixed(*structure.unflatten(replaced(leaves, places, arrays)))

    return flat, [leaves[i] for i in places]


def _rule(f: Any, wrong: WrongDerivativeError) -> str:
    """Return the name of the rule that gave a wrong first derivative; a mode without its own rule uses the other rule."""
    if isinstance(f, CustomFunction):
        pushes = f.jvp is not None and (wrong.mode.startswith("forward") or f.bwd is None)
        return f"the {'JVP' if pushes else 'backward'} rule of {_name(f)}"
    if not isinstance(f, RegisteredFunction):
        return f"a rule of {_name(f)}"
    place = re.match(r"args\[(\d+)\]", wrong.path)
    of = f" for {f.names[int(place[1])]}" if place and int(place[1]) < len(f.names) else ""
    pushes = f.entry is not None and f.entry.jvps is not None and wrong.mode.startswith("forward")
    return f"the {'JVP' if pushes else 'VJP'} rule of {f.name}{of}"


def _check_custom(f: CustomFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the values of `fwd` and of the JVP rule of a function, and the linearity of the JVP rule."""
    call, arrays = f._call(tree_map(_strong, args), kwargs)
    value = call.value(*arrays), call.result
    if f.fwd is not None:
        outs = call.forward(*arrays)[0]
        _check_value(rule_name("forward", f), (outs, call.result), value)
    if f.jvp is None:
        return
    call.result = value[1]
    likes = [a if is_inexact(a) else None for a in arrays]
    rule = rule_name("JVP", f)
    _check_value(rule, (call.pushed(arrays, likes)[0], call.result), value)
    if not is_additive(lambda ts: call.pushed(arrays, ts)[1], likes):
        raise CustomRuleError(
            f"{rule} is not linear in the tangents, at {here()}: its tangent for u - 2 v is not its tangent for u minus twice "
            f"its tangent for v. Multiply tangents only with values that do not depend on them, and add the products."
        )


def _check_value(rule: str, found: Flat, expected: Flat) -> None:
    """Compare the value that a rule returned with the value of the function."""
    if found[1] != expected[1]:
        raise CustomRuleError(
            f"{rule}: {difference(expected[1], found[1], 'the value')}, as the function returns it, at {here()}. {_FIRST}"
        )
    for out, leaf, path in zip(found[0], expected[0], expected[1].paths("result"), strict=True):
        same = (shape_of(out), dtype_of(out)) == (shape_of(leaf), dtype_of(leaf))
        if not same or not _agree(out, leaf):
            a, b = map(_shown, (out, leaf)) if same else (spec_of(out), spec_of(leaf))
            raise CustomRuleError(f"{rule} gives {a} as {path}, but the function gives {b}, at {here()}. {_FIRST}")


_FIRST = "Return the value of the function first, such as f(*args)."


def _check_linear(f: Any, flat: Callable[..., Any], arrays: list[Any]) -> None:
    """Check that a function is linear in its inexact arguments, and check its transpose."""
    places = [i for i, a in enumerate(arrays) if is_inexact(a)]
    likes = [_strong(arrays[i]) for i in places]

    @functools.wraps(f, updated=())
    def moving(*given: Any) -> list[Any]:
        return [out for out in flatten(flat(*replaced(arrays, places, given)))[0] if is_inexact(out)]

    if not is_additive(lambda given: moving(*given), likes):
        raise CustomRuleError(
            f"{_name(f)} is not linear, at {here()}: its value for u - 2 v is not its value for u minus twice its value for v. "
            f"For the derivative at a point, which is linear, use vjp(f, x) or linearize(f, x)."
        )
    generator = np.random.default_rng(0)
    ts = [random_like(like, generator) for like in likes]
    outs = moving(*ts)
    gs = [random_like(out, generator) for out in outs]
    found, expected = pairing(functad.linear_transpose(moving, *likes)(gs), ts), pairing(gs, outs)
    if not _agree(found, expected):
        raise CustomRuleError(
            f"the transpose of {_name(f)} is wrong, at {here()}: for random t and g, (A^T g)^T t is {found:.6g}, but g^T (A t) "
            f"is {expected:.6g}. Check the rules of the functions that it calls by check_rules."
        )


def is_additive(f: Callable[[list[Any]], Sequence[Any]], likes: Sequence[Any]) -> bool:
    """Return `True` if `f(u - 2 v) = f(u) - 2 f(v)` for random leaves `u` and `v`, a necessary condition of linearity.

    The leaves are like `likes`. `None` means no leaf there, and zero in the results of `f`.
    """
    generator = np.random.default_rng(0)
    us: list[Any]
    vs: list[Any]
    us, vs = ([None if like is None else random_like(like, generator) for like in likes] for _ in range(2))
    both = [None if u is None else (u - 2 * v).astype(dtype_of(u)) for u, v in zip(us, vs, strict=True)]
    with np.errstate(all="ignore"):
        rows = zip(f(us), f(vs), f(both), strict=True)
        return all(_agree(c, a - 2 * b) for a, b, c in rows if not (a is None or b is None or c is None))


def _agree(found: Any, expected: Any) -> bool:
    """Return `True` if two arrays agree within `TOLERANCE` wherever both are finite."""
    found, expected = [np.asarray(a, np.result_type(a, np.float64)) for a in (found, expected)]
    finite = np.isfinite(found) & np.isfinite(expected)
    found, expected = found[finite], expected[finite]
    size = max(np.max(np.abs(found), initial=0.0), np.max(np.abs(expected), initial=0.0))
    return bool(np.max(np.abs(found - expected), initial=0.0) <= TOLERANCE * size)


def _check_spec(f: Any, flat: Callable[..., Any], arrays: list[Any]) -> None:
    """Check the shape rule, or the shapes of an abstract trace if there is no shape rule."""
    leaves, structure = flatten(flat(*arrays))
    for a, b, path in zip(leaves, flatten(functad.eval_shape(flat, *arrays))[0], structure.paths("result"), strict=True):
        if shape_of(a) != b.shape or dtype_of(a) != b.dtype:
            raise CustomRuleError(
                f"{_name(f)}: the shape rule gives {b} for {path}, but it is {dtype_of(a)}{list(shape_of(a))}, at {here()}."
            )


def _check_batch(f: Any, flat: Callable[..., Any], arrays: list[Any]) -> None:
    """Check the batching rule of a function, if it has one: a batch of two examples against two calls."""
    own = f.entry is not None and f.entry.batch is not None if isinstance(f, RegisteredFunction) else getattr(f, "batch", None)
    if not own:
        return
    moved = [a * 1.125 if is_inexact(a) else a for a in arrays]
    found = flatten(functad.vmap(flat)(*map(np.stack, zip(arrays, moved, strict=True))))[0]
    rows = [flatten(flat(*given))[0] for given in (arrays, moved)]
    for i, (a, column) in enumerate(zip(found, zip(*rows, strict=True), strict=True)):
        expected = np.stack(column)
        if np.shape(a) != expected.shape or not np.allclose(a, expected, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise CustomRuleError(
                f"the batch rule of {_name(f)} is wrong: result {i} of two examples is {a}, one after the other {expected}, at "
                f"{here()}."
            )


def _strong(leaf: Any) -> Any:
    """Return a Python float or complex as a NumPy scalar, and any other leaf unchanged."""
    return PYTHON_SCALARS[type(leaf)].type(leaf) if type(leaf) in (float, complex) else leaf


def _name(f: Any) -> str:
    return str(getattr(f, "name", None) or name_of(f))


def _shown(leaf: Any) -> str:
    return np.array2string(np.asarray(leaf), threshold=6, precision=6)
