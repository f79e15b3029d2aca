"""Entry of a ufunc of `scipy.special`: by its name, its rules and the sample ranges of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.entry import Primitive, Rule, Samples, UnknownRule
from functad.primitives.kinds import elementwise
from functad.primitives.safe import product

Argument = tuple[float, float] | list[Any]
"""The sample range of an argument: an interval for a differentiable argument, or a list of constants."""


def unknown(function: str, argument: str, why: str = "", cure: str = "") -> UnknownRule:
    """Return the rule of an argument without a derivative; a derivative with respect to the argument raises.

    Args:
        function: the name in `scipy.special`.
        argument: the name of the argument in SciPy.
        why: the reason. Default: no closed form is known.
        cure: the fix. Default: pass a constant.
    """
    reason = why or f"The derivative by {argument} has no closed form"
    instead = cure or f"Pass {argument} as a constant: functad.stop_gradient({argument}), or a plain number or array."
    return UnknownRule(f"scipy.special.{function} cannot be differentiated with respect to {argument}", f"{reason}. {instead}")


def find_ufunc(name: str) -> Any:
    """Return a ufunc of SciPy by its name, also if only a Python function calls it; `None` if this SciPy does not have it."""
    for module in (special, special._ufuncs):
        function = getattr(module, name, None)
        if isinstance(function, np.ufunc):
            return function
    return None


def special_function(
    name: str,
    *vjps: Rule | UnknownRule | None,
    doc: str,
    arguments: Sequence[Argument],
    complex: bool = False,
    names: Sequence[str] = ("x", "y", "z"),
    **traits: Any,
) -> Primitive | None:
    """Enter an elementwise ufunc of `scipy.special`; return its primitive, or `None` if the installed SciPy does not have it.

    Args:
        name: the name of the ufunc.
        vjps: one rule per argument. Leading rules may be omitted: these derivatives have no closed form.
        doc: one line on the derivative.
        arguments: the sample range of each argument.
        complex: the function accepts complex arguments.
        names: names of the arguments in the rules.
        traits: other fields of `Primitive`, such as `jvps` if their formulas differ.
    """
    function = find_ufunc(name)
    if function is None:
        return None
    return elementwise(
        function,
        *_without_closed_form(name, names, vjps, arguments),
        *vjps,
        doc=doc,
        samples=samples_of(arguments),
        complex=complex,
        names=names,
        name=f"special.{name.strip('_')}",
        **traits,
    )


def _without_closed_form(
    name: str, names: Sequence[str], given: Sequence[Any], arguments: Sequence[Argument]
) -> list[UnknownRule]:
    """Return the rules of the leading arguments without a given rule."""
    return [unknown(name, argument) for argument in names[: len(arguments) - len(given)]]


_Derivative = Callable[..., tuple[Any, ...]]


def several_functions(
    name: str,
    *derivatives: _Derivative | UnknownRule,
    doc: str,
    arguments: Sequence[Argument],
    complex: bool = False,
    names: Sequence[str] = ("x", "y", "z"),
    front: Callable[..., Any] | None = None,
) -> Primitive | None:
    """Enter a ufunc with several results; return its primitive, or `None` if the installed SciPy does not have it.

    Args:
        name: the name of the ufunc.
        derivatives: one function per argument. It returns the derivatives of all results with respect to the argument, and its
            signature names its residuals, like a rule without the cotangent. Leading ones may be omitted as in
            `special_function`.
        doc: one line on the derivative.
        arguments: the sample range of each argument.
        complex: the function accepts complex arguments.
        names: names of the arguments in `derivatives`.
        front: the function to call in place of the ufunc if an argument is a Tensor.
    """
    function = find_ufunc(name)
    if function is None:
        return None
    derivatives = (*_without_closed_form(name, names, derivatives, arguments), *derivatives)
    return Primitive(
        function,
        kind="general",
        names=names[: len(derivatives)],
        compute=function,
        vjps=tuple([d if isinstance(d, UnknownRule) else _pull(d) for d in derivatives]),
        jvps=tuple([d if isinstance(d, UnknownRule) else _push(d) for d in derivatives]),
        spec=_spec_of_several(function),
        doc=doc,
        samples=samples_of(arguments),
        name=f"special.{name.strip('_')}",
        front=front,
        multiple=True,
        complex=complex,
        broadcasts=True,
    )


def _pull(derivative: _Derivative) -> Rule:
    """Return the VJP rule: the sum of cotangent times derivative over the results."""

    def rule(gs: Any, *values: Any) -> Any:
        parts = [product(g, d) for g, d in zip(gs, derivative(*values), strict=True)]
        return sum(parts[1:], parts[0])

    return reading(rule, inspect.signature(derivative).parameters)


def _push(derivative: _Derivative) -> Rule:
    """Return the JVP rule: the tangent times each derivative."""

    def rule(t: Any, *values: Any) -> Any:
        return tuple([product(t, d) for d in derivative(*values)])

    return reading(rule, inspect.signature(derivative).parameters)


def reading(rule: Rule, names: Iterable[str]) -> Rule:
    """Set the signature of a rule, which names its residuals; return the rule."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    rule.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in ("g", *names)])  # type: ignore[attr-defined]
    return rule


def _spec_of_several(function: np.ufunc) -> Callable[..., tuple[ArraySpec, ...]]:
    """Return the shape rule of a ufunc with several results."""

    def spec(*values: Any) -> tuple[ArraySpec, ...]:
        specs = [spec_of(value) for value in values]
        dtypes = [type(s.dtype.type(0).item()) if s.weak else s.dtype for s in specs]
        found = function.resolve_dtypes((*dtypes, *[None] * function.nout))[function.nin :]
        shape = np.broadcast_shapes(*[s.shape for s in specs])
        return tuple([ArraySpec(shape, dtype) for dtype in found])

    return spec


def samples_of(arguments: Sequence[Argument]) -> Samples:
    """Return samples with scalars, vectors, broadcasting and empty arrays."""
    count = len(arguments)
    shapes: list[tuple[tuple[int, ...], ...]] = [((),) * count, ((3,),) * count, ((0,), *[()] * (count - 1))]
    if count > 1:
        shapes.append(((2, 1), *[(3,)] * (count - 1)))

    def samples(array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [
            (tuple([_sample(array, argument, shape, row) for shape, argument in zip(row_shapes, arguments, strict=True)]), {})
            for row, row_shapes in enumerate(shapes)
        ]

    return samples


def _sample(array: Any, argument: Argument, shape: tuple[int, ...], row: int) -> Any:
    """Return a sample of an argument; integer constants fill an array of the shape, and other constants are scalars."""
    if isinstance(argument, tuple):
        low, high = argument
        return array(*shape, low=low, high=high)
    if shape and isinstance(argument[0], int):
        return np.resize(np.array(argument), shape)
    return argument[row % len(argument)]
