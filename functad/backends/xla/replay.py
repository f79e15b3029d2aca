"""Replay of a list, equation by equation, on JAX arrays or tracers, and the table of rows.

An equation is computed by the first of these that its primitive has:

1. A row: a function of a `Call` (the specs of the equation), the operands and the parameters, which computes with `jax.numpy`
   and `jax.lax`. The modules of the families fill the table.
2. The decomposition of its entry into simpler NumPy functions, which is traced and replayed.
3. The function of JAX behind a function of `functad.from_jax`.
4. NumPy, in a host callback. A row that returns `NotImplemented` leads here too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functad.backends.factors import with_factors
from functad.backends.xla.engine import cast, jax, jnp, lax
from functad.backends.xla.host import called
from functad.errors import AbstractValueError, UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.entry import Branches, Primitive
from functad.primitives.table import Table
from functad.transforms.lists import trace


class Call(NamedTuple):
    """The primitive of an equation with the specs of operands and results.

    Attributes:
        primitive: the primitive.
        given: the specs of the operands.
        results: the specs of the results.
    """

    primitive: Primitive
    given: Sequence[ArraySpec]
    results: Sequence[ArraySpec]

    @property
    def name(self) -> str:
        """The name of the NumPy function."""
        return self.primitive.function.__name__  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first result."""
        return self.results[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.results[0].shape

    @property
    def kind(self) -> str:
        """The kind of the dtype of the first operand."""
        return self.given[0].dtype.kind

    @property
    def is_empty(self) -> bool:
        """`True` if an operand or the first result has no elements."""
        return any(0 in spec.shape for spec in (*self.given, self.results[0]))

    def cast(self, *values: Any) -> list[Any]:
        """Return operands in the dtype of the first result."""
        return [cast(value, self.dtype) for value in values]


# Replay


def replay(expressions: Expressions, leaves: Sequence[Any]) -> list[Any]:
    """Return the output leaves of a list for input leaves, each in the dtype of its spec."""
    expressions = with_factors(expressions, lambda matrix, columns, uses: columns > 0 and uses > 1, np.dtype(np.int32))
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
    """Return the `Call` of an equation."""
    given = [source_spec(s, expressions.specs) for s in equation.inputs]
    return Call(equation.primitive, given, [expressions.specs[s] for s in equation.outputs])


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
    """Return a result in its dtype; a row that returns another shape than NumPy is wrong."""
    value = cast(value, spec.dtype)
    if value.shape != spec.shape:
        raise AssertionError(f"the row of {call.primitive.name} gives the shape {value.shape}, and not {spec.shape}")
    return value


def _of_jax(call: Call, *values: Any, **params: Any) -> Any:
    """Return the results of a JAX function from `functad.from_jax`; `NotImplemented` if JAX cannot trace it."""
    rules = getattr(call.primitive, "rules", None)
    if rules is None or rules.of_jax is None:
        return NotImplemented
    try:
        return rules.of_jax(*[cast(value, spec.dtype) for value, spec in zip(values, call.given, strict=True)])
    except jax.errors.JAXTypeError:  # the function branches on values
        return NotImplemented


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


# Rows

Row: TypeAlias = Callable[..., Any]
"""A function from a `Call`, the operands and the parameters to the results."""

ROWS: Table[Row] = Table("functad.backends.xla", ("elementwise", "reductions", "arranging", "products", "control", "special"))

row: Callable[..., Callable[[Row], Row]] = ROWS.add


def row_of(primitive: Primitive) -> Row | None:
    """Return the row of a primitive, or `decomposed`; `None` if JAX's own function or NumPy computes it."""
    found = ROWS.find(primitive)
    return decomposed if found is None and primitive.decomposition is not None else found


# Rows of functions that JAX has under the same name, with the same parameters

Dtypes: TypeAlias = Callable[[Call], Sequence[Any]]
"""A function from a `Call` to the dtypes of the operands that its row converts them to."""


def of_result(call: Call) -> Sequence[Any]:
    """Return the dtype of the result for each operand."""
    return [call.dtype] * len(call.given)


def unchanged(call: Call) -> Sequence[Any]:
    """Return the dtypes of the operands."""
    return [spec.dtype for spec in call.given]


def common(call: Call) -> Sequence[Any]:
    """Return the common dtype of the operands for each of them."""
    return [np.result_type(*unchanged(call))] * len(call.given)


def booleans(call: Call) -> Sequence[Any]:
    """Return the boolean dtype for each operand."""
    return [np.bool_] * len(call.given)


_WEAK = {"i": int, "f": float, "c": complex}


def loop_of(ufunc: np.ufunc, given: Sequence[ArraySpec]) -> tuple[np.dtype[Any], ...]:
    """Return NumPy's dtypes for the converted operands and the results of a ufunc."""
    kinds = [_WEAK.get(spec.dtype.kind, spec.dtype) if spec.weak else spec.dtype for spec in given]
    return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))


def of_loop(call: Call) -> Sequence[Any]:
    """Return the dtypes of the operands in the loop of the ufunc."""
    return loop_of(call.primitive.function, call.given)[: len(call.given)]


def converted(dtypes: Dtypes, call: Call, values: Sequence[Any]) -> list[Any]:
    """Return operands as JAX arrays in the dtypes of a row."""
    return list(map(cast, values, dtypes(call)))


def alike(dtypes: Dtypes, package: Any = jnp, refused: str = "", **options: Any) -> Row:
    """Return the row of functions that JAX has under the same name, with the same parameters.

    Args:
        dtypes: the dtypes that the operands are converted to.
        package: the module of JAX.
        refused: kinds of dtypes of an operand that NumPy computes.
        options: other arguments of JAX's function.
    """

    def renamed(call: Call, *values: Any, **params: Any) -> Any:
        if any(spec.dtype.kind in refused for spec in call.given):
            return NotImplemented
        return getattr(package, call.name)(*converted(dtypes, call, values), **params, **options)

    return renamed


# Decompositions


def decomposed(call: Call, *values: Any, **params: Any) -> Any:
    """Return the results of the decomposition of a primitive; `NotImplemented` if it needs values, or the primitive itself.

    XLA cannot raise an error. For `Branches` that raise, the device computes the condition, and only if it is true calls
    NumPy on the host, which raises.
    """
    parts = call.primitive.decomposition
    if not isinstance(parts, Branches):
        return _traced(call, parts, values, params)
    if call.is_empty:
        return NotImplemented

    def branch(function: Any) -> Callable[[], Any]:
        if function is None:
            return lambda: cast(by_numpy(call, values, params, only_to_raise=True)[0], call.dtype)
        return lambda: cast(_traced(call, function, values, params), call.dtype)

    return lax.cond(_traced(call, parts.condition, values, params, is_whole=False), *map(branch, parts[1:]))


def _traced(call: Call, function: Any, values: Sequence[Any], params: dict[str, Any], *, is_whole: bool = True) -> Any:
    """Trace a NumPy function of the operands and replay it. Operands of ufuncs have the dtypes of NumPy's loop."""
    given = call.given
    if isinstance(call.primitive.function, np.ufunc):
        given = [ArraySpec(spec.shape, dtype) for spec, dtype in zip(given, of_loop(call), strict=True)]
    try:
        expressions = trace("jit", functools.partial(function, **params), given)
    except AbstractValueError:
        return NotImplemented
    if is_whole and [spec.shape for spec in expressions.results] != [spec.shape for spec in call.results]:
        return NotImplemented  # such as a batched second operand
    if any(equation.primitive is call.primitive for equation in expressions.equations):
        return NotImplemented
    found = replay(expressions, values)
    return found if is_whole and call.primitive.multiple else found[0]
