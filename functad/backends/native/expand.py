"""Decomposition of equations for native code: a mean becomes a sum and a division, a call is inlined.

Inner lists are decomposed in the same way. Their large constants become operands of the equation, because native code stores
constants as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.backends.factors import with_factors
from functad.backends.native.arranging.rewrite import rewritten
from functad.backends.native.blocks.table import BLOCKS
from functad.backends.native.lowering import lowered
from functad.backends.native.products.simple import Rewriting
from functad.backends.native.systems import is_factorised
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.spec import ArraySpec
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import ADD_TO, WRITE
from functad.primitives.linalg.lapack import routines
from functad.primitives.linalg.products import DOT, MATMUL
from functad.transforms.lists import close

LARGE = 1_024
"""Constants of at least this many bytes become operands of the equation that holds the inner list."""

BACKWARD = "while_loop_vjp"
"""The primitive of the backward pass of a `while` loop. Its list is not known before the values are."""


def expanded(expressions: Expressions, *, lapack: bool = False) -> Expressions:
    """Return an equivalent list of equations that native code supports: products decomposed, calls inlined.

    Args:
        expressions: the list.
        lapack: native code may call LAPACK.
    """
    if lapack and (library := routines()) is not None:
        expressions = with_factors(expressions, is_factorised, library.integer, refuses=True)
    expand = partial(expanded, lapack=lapack)
    specs = list(expressions.specs)
    equations: list[Equation] = []
    moved: dict[int, Any] = {}
    products = Rewriting(specs, equations)
    returned: set[Any] = {s for s in expressions.outputs if type(s) is int}
    fresh: set[Any] = set()
    for equation in expressions.equations:
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in equation.inputs])
        equation = Equation(equation.primitive, inputs, equation.params, equation.outputs)
        empty = _without_elements(equation, specs)
        if returned.intersection(equation.outputs):  # results share no memory with arguments, or with each other
            empty = empty if empty in fresh and empty not in returned else None
            returned.add(empty)
        if empty is not None:
            moved[equation.outputs[0]] = empty
        elif equation.primitive.lists:
            equations.append(_with_bodies(equation, expand))
        elif equation.primitive.inner is not None:
            found = _inlined(expand(equation.primitive.inner), inputs, specs, equations)
            moved |= dict(zip(equation.outputs, found, strict=False))
        elif equation.primitive.name == BACKWARD:
            equations.append(_backward(equation, specs, expand))
        elif not products.rewrite(equation):
            equations.append(equation)
        made = equation.primitive
        if made in (WRITE, ADD_TO, BLOCKS) or (made is GETITEM and equation.inputs[0] in fresh):
            fresh.update(equation.outputs)
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return rewritten(expressions.replace(equations=tuple(equations), specs=tuple(specs), outputs=outputs))


def _without_elements(equation: Equation, specs: Sequence[ArraySpec]) -> int | Constant | None:
    """Return the source of a result without elements, a product that sums no elements, or a write of none; else `None`.

    The first step of a loop over growing slices, `L[i, :i] @ x[:i]`, has them. NumPy would compute them otherwise.
    """
    spec = specs[equation.outputs[0]] if len(equation.outputs) == 1 else None
    if spec is None or spec.weak:
        return None
    if not spec.size and (equation.primitive is GETITEM or equation.primitive.kind == "elementwise"):
        return Constant(np.zeros(spec.shape, spec.dtype))
    if equation.primitive in (WRITE, ADD_TO) and not source_spec(equation.inputs[1], specs).size:
        return equation.inputs[0]
    if equation.primitive in (DOT, MATMUL) and any(source_spec(s, specs).size == 0 for s in equation.inputs):
        return Constant(np.zeros(spec.shape, spec.dtype)[()])
    return None


def _backward(equation: Equation, specs: Sequence[ArraySpec], expand: Callable[[Expressions], Expressions]) -> Equation:
    """Return the backward pass of a loop with its inner lists if they are native, else `equation`."""
    from functad.backends.native.control.loop_derivative import native_backward  # noqa: PLC0415 - few programs need it

    found = native_backward(equation)
    if found is None:
        return equation
    params = {name: expand(value) if isinstance(value, Expressions) else value for name, value in found.params.items()}
    found = Equation(found.primitive, found.inputs, params, found.outputs)
    return equation if lowered(found, Expressions((), (), (), tuple(specs), None, None)) is None else found  # type: ignore[arg-type]


def _inlined(inner: Expressions, inputs: Sequence[Any], specs: list[ArraySpec], equations: list[Equation]) -> list[Any]:
    """Append the equations of another list, and return the sources of its outputs."""
    shift = len(specs) - len(inner.inputs)
    specs += inner.specs[len(inner.inputs) :]

    def placed(source: Any) -> Any:
        if type(source) is not int:
            return source
        return inputs[source] if source < len(inner.inputs) else source + shift

    equations += [
        Equation(e.primitive, tuple(map(placed, e.inputs)), e.params, tuple([s + shift for s in e.outputs]))
        for e in inner.equations
    ]
    return list(map(placed, inner.outputs))


def _with_bodies(equation: Equation, expand: Callable[[Expressions], Expressions]) -> Equation:
    """Return the equation with expanded inner lists, and with their large constants as operands."""
    params: dict[str, Any] = dict(equation.params)
    lists = params.get("branches") or tuple([params[key] for key in ("body", "cond") if key in params])
    *lists, large = close(*map(expand, lists), captured=_is_large, name="constant")
    if "branches" in params:
        params["branches"] = tuple(lists)
    else:
        params |= dict(zip([key for key in ("body", "cond") if key in params], lists, strict=True))
    inputs = (*equation.inputs, *map(Constant, large))
    return Equation(equation.primitive, inputs, params, equation.outputs)


def _is_large(value: Any) -> bool:
    return issubclass(type(value), np.ndarray) and value.nbytes >= LARGE
