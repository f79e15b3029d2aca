"""Replay a list, equation by equation, on JAX arrays or tracers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.backends.xla.engine import cast, jax
from functad.backends.xla.host import called
from functad.backends.xla.table import Call, row_of
from functad.errors import UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import here


def replay(expressions: Expressions, leaves: Sequence[Any]) -> list[Any]:
    """Return the output leaves of a list for input leaves, each in the dtype of its spec."""
    specs = expressions.specs
    values: dict[int, Any] = {i: cast(leaf, specs[i].dtype) for i, leaf in enumerate(leaves)}

    def value_of(source: int | Constant) -> Any:
        return source.value if isinstance(source, Constant) else values[source]

    for equation in expressions.equations:
        call, given = call_of(equation, expressions), [value_of(s) for s in equation.inputs]
        found = computed(call, given, dict(equation.params))
        values.update(zip(equation.outputs, found, strict=True))
    return [cast(value_of(s), spec.dtype) for s, spec in zip(expressions.outputs, expressions.results, strict=True)]


def call_of(equation: Equation, expressions: Expressions) -> Call:
    """Return the `Call` of an equation: its primitive with the specs of operands and results."""
    given = [_spec_of_constant(s.value) if isinstance(s, Constant) else expressions.specs[s] for s in equation.inputs]
    return Call(equation.primitive, given, [expressions.specs[s] for s in equation.outputs])


def _spec_of_constant(value: Any) -> ArraySpec:
    """Return the spec of a constant. `None`, an omitted number, has the spec of a Python integer."""
    return spec_of(0 if value is None else value)


def computed(call: Call, values: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """Return the results of one equation."""
    for spec in (*call.given, *call.results):
        refuse_dtype(spec, call.primitive.name)
    if call.primitive.inner is not None:
        return replay(call.primitive.inner, values)
    row = row_of(call.primitive) or _of_jax
    out = row(call, *values, **params)
    if out is NotImplemented:
        return by_numpy(call, values, params)
    outs = out if call.primitive.multiple else (out,)
    return [fitted(call, value, spec) for value, spec in zip(outs, call.results, strict=True)]


def _of_jax(call: Call, *values: Any, **params: Any) -> Any:
    """Return the results of a JAX function from `functad.from_jax`; `NotImplemented` if JAX cannot trace it."""
    rules = getattr(call.primitive, "rules", None)
    if rules is None or rules.of_jax is None:
        return NotImplemented
    try:
        return rules.of_jax(*[cast(value, spec.dtype) for value, spec in zip(values, call.given, strict=True)])
    except jax.errors.JAXTypeError:  # the function branches on values
        return NotImplemented


def refuse_dtype(spec: ArraySpec, what: str) -> None:
    """Raise if XLA does not support a dtype.

    Raises:
        UnsupportedError: XLA has no such dtype.
    """
    dtype = spec.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise UnsupportedError(
            f"XLA has no {dtype.name}, the dtype of {what}, at {here()}. Use astype, as to np.float64, or another backend."
        )


def fitted(call: Call, value: Any, spec: ArraySpec) -> Any:
    """Return a result in its dtype.

    Raises:
        AssertionError: the row returned a shape that differs from NumPy's.
    """
    value = cast(value, spec.dtype)
    if value.shape != spec.shape:
        raise AssertionError(f"the row of {call.primitive.name} gives the shape {value.shape}, and not {spec.shape}")
    return value


def by_numpy(call: Call, values: Sequence[Any], params: dict[str, Any], only_to_raise: bool = False) -> Sequence[Any]:
    """Return the results of an equation, computed by NumPy in a host callback.

    Args:
        call: the equation.
        values: its operands.
        params: its parameters.
        only_to_raise: NumPy computes the equation only to raise its error.
    """
    primitive = call.primitive
    name = f"the errors of {primitive.name}" if only_to_raise else primitive.name

    def compute(*given: Any) -> Sequence[Any]:
        out = primitive.compute(*given, **params)
        return out if primitive.multiple else (out,)

    return called(name, compute, values, call.given, call.results)
