"""An expression list as JSON data, and its arrays.

A slot is a number; a constant is `{"constant": value}`. Values with a JSON type are written directly, and a tuple is a JSON
array. Every other value is an object with one key, the kind of the value.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from types import CellType, FunctionType
from typing import Any, NoReturn

import numpy as np

from functad.errors import StateError
from functad.export.names import name_of_primitive
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec
from functad.places import here, is_own, line_of, name_of
from functad.primitives.indexing.write import Step
from functad.primitives.linalg.sparse_products import ConstantMatrix
from functad.tracing.trace import Recorded, resolve
from functad.trees import Structure

FACTORIES = {"list": list, "dict": dict, "tuple": tuple, "set": set, "int": int, "float": float}
"""The names of the permitted factories of a `defaultdict`."""

NUMBERS = "biufc"
_EXACT = 16
"""Bytes of the largest NumPy scalars that JSON represents exactly: complex numbers of two float64."""


class Encoder:
    """Encodes expression lists.

    Attributes:
        arrays: the arrays of the list; the data refer to them by number.
    """

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._numbers: dict[int, tuple[int, Any]] = {}

    def expressions(self, expressions: Expressions) -> dict[str, Any]:
        """Return a list as JSON data.

        Raises:
            StateError: a part of the list cannot be encoded; the message names it.
        """
        return {
            "inputs": list(expressions.inputs),
            "specs": [_spec(spec) for spec in expressions.specs],
            "equations": [self._equation(equation) for equation in expressions.equations],
            "outputs": [self._source(source, "the result") for source in expressions.outputs],
            "input_structure": self._structure(expressions.input_structure),
            "output_structure": self._structure(expressions.output_structure),
        }

    def _equation(self, equation: Equation) -> dict[str, Any]:
        primitive = equation.primitive
        name = name_of_primitive(primitive)
        inner = _inner(primitive) if name is None else None
        if name is None and inner is None:
            _refuse_function(equation)
        where = f"an argument of {primitive.name}"
        found: dict[str, Any] = {
            "primitive": name or "functad.checkpoint",
            "inputs": [self._source(source, where) for source in equation.inputs],
            "params": {key: self.value(value, f"{key}= of {primitive.name}") for key, value in equation.params.items()},
            "outputs": list(equation.outputs),
        }
        if inner is not None:
            found["inner"] = {"list": self.expressions(inner[0]), "results": inner[1]}
        return found

    def _source(self, source: int | Constant, where: str) -> Any:
        return {"constant": self.value(source.value, where)} if isinstance(source, Constant) else source

    def value(self, value: Any, where: str) -> Any:
        """Return a parameter or a constant as JSON data.

        Raises:
            StateError: the value cannot be encoded.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self.value(value.real, where), self.value(value.imag, where)]}
        if value is Ellipsis:
            return {"ellipsis": None}
        if kind is slice:
            return {"slice": [self.value(part, where) for part in (value.start, value.stop, value.step)]}
        if kind in (tuple, list):
            parts = [self.value(part, where) for part in value]
            return parts if kind is tuple else {"list": parts}
        if kind is dict:
            return {"dict": [[self.value(key, where), self.value(part, where)] for key, part in value.items()]}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> Any:
        if isinstance(value, Recorded):
            below = resolve(value)
            if isinstance(below, Recorded):
                raise StateError(
                    f"a list that uses a Tensor of an enclosing trace, as {where}, cannot be saved, at {here()}: make it an "
                    f"argument of the function."
                )
            return self.value(below, where)
        if isinstance(value, np.dtype) and value.kind in NUMBERS:
            return {"dtype": value.str}
        if issubclass(type(value), np.generic) and value.dtype.kind in NUMBERS:
            fits = value.dtype.itemsize <= (_EXACT if value.dtype.kind == "c" else _EXACT // 2)
            return {"number": [value.dtype.str, self.value(value.item(), where)] if fits else self._array(np.asarray(value))}
        if type(value) is np.ndarray and value.dtype.kind in NUMBERS:
            return {"array": self._array(value)}
        if isinstance(value, Expressions):
            return {"expressions": self.expressions(value)}
        if isinstance(value, ConstantMatrix):
            return {"matrix": self._matrix(value.matrix)}
        if isinstance(value, Step):
            params = {key: self.value(part, where) for key, part in value.params.items()}
            return {"step": [name_of_primitive(value.primitive), params, value.number, value.writeable, value.copied]}
        return _refuse_value(value, where)

    def _array(self, array: Any) -> Any:
        """Return the number of an array; for a broadcast array number and shape, because repeated elements are written once."""
        axes = zip(array.shape, array.strides, strict=True)
        small = array[tuple([slice(None) if stride or n < 2 else slice(1) for n, stride in axes])]
        number, _ = self._numbers.setdefault(id(array), (len(self.arrays), array))  # the reference keeps its `id` unique
        if number == len(self.arrays):
            self.arrays.append(small)
        return number if small.shape == array.shape else [number, *array.shape]

    def _matrix(self, matrix: Any) -> dict[str, Any]:
        if type(matrix) is np.ndarray:
            return {"dense": self._array(matrix)}
        rows = matrix if matrix.format in ("csr", "csc") else matrix.tocsr()
        parts = [self._array(np.asarray(part)) for part in (rows.data, rows.indices, rows.indptr)]
        return {"sparse": [type(rows).__name__, *parts, *rows.shape]}

    def _structure(self, structure: Structure) -> Any:
        """Return a structure as JSON data; a leaf is `"*"`."""
        kind = structure.kind
        if kind is None:
            return "*"
        if kind is type(None):
            return None
        children = [self._structure(child) for child in structure.children]
        if kind in (tuple, list):
            return {kind.__name__: children}
        if kind in (dict, OrderedDict, defaultdict):
            where = "a key of an argument or result"
            keys = [self.value(key, where) for key in structure.data[0]]
            pairs = [list(pair) for pair in zip(keys, children, strict=True)]
            if kind is not defaultdict:
                return {kind.__name__: pairs}
            made = [name for name, factory in FACTORIES.items() if factory is structure.data[1]]
            if made or structure.data[1] is None:
                return {"defaultdict": [made[0] if made else None, pairs]}
        raise StateError(
            f"a list whose arguments or results are in a {kind.__name__} cannot be saved, at {here()}: reading it would run "
            f"code of that class. Take and return tuples, lists and dicts."
        )


def _spec(spec: ArraySpec) -> Any:
    """Return a spec as JSON data: dtype and shape; for a weak spec the Python type with this dtype, or else the dtype."""
    if not spec.weak:
        return [spec.dtype.str, *spec.shape]
    return next((kind.__name__ for kind, dtype in PYTHON_SCALARS.items() if dtype == spec.dtype), spec.dtype.str)


def _inner(primitive: Any) -> tuple[Expressions, int] | None:
    """Return the inner list of a checkpoint and the number of its own results; `None` for user code."""
    rules = getattr(primitive, "rules", None)
    if rules is None or rules.inner is None:
        return None
    return rules.inner, getattr(getattr(rules.value, "__self__", None), "count", len(rules.inner.outputs))


def _refuse_function(equation: Equation) -> NoReturn:
    function = _users([equation.primitive.function, *equation.params.values()])
    name = equation.primitive.name
    if function is None:
        owners = [value.name for value in equation.params.values() if isinstance(getattr(value, "name", None), str)]
        what = " of ".join([f"a list with {name}", *owners])
    else:
        what = f"a list with a call of {name}, whose function {name_of(function)} is defined at {_line(function)},"
    raise StateError(
        f"{what} cannot be saved, at {here()}: how it is computed is code, which a file does not hold. Pickle the list where "
        f"those who read it have the code too, or leave the call out."
    )


def _refuse_value(value: Any, where: str) -> NoReturn:
    dtype = f" of {value.dtype}" if issubclass(type(value), (np.ndarray, np.generic)) else ""
    function = _users([value])
    at = "" if function is None else f", {name_of(function)}, defined at {_line(function)},"
    raise StateError(
        f"a list that holds a {type(value).__name__}{dtype}{at} as {where} cannot be saved, at {here()}: only numbers, arrays "
        f"of numbers and other lists are written to a file."
    )


def _users(values: Iterable[Any], depth: int = 6) -> Any:
    """Return the first user function among values, or in attributes and closures of functad's functions; `None` without one."""
    found = list(values)
    for value in found if depth else ():
        if isinstance(value, FunctionType) and not is_own(value):
            return value
    inside: list[Any] = []
    for value in found:
        inside += [getattr(value, name) for name in ("__wrapped__", "func", "function", "f") if name in _attributes(value)]
        inside += [content for cell in getattr(value, "__closure__", None) or () for content in _contents(cell)]
    return _users(inside, depth - 1) if inside and depth else None


def _contents(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not assigned yet
        return []


def _attributes(value: Any) -> set[str]:
    """Return the names of the attributes of an object; none for classes, numbers, strings, tuples and arrays."""
    if isinstance(value, type) or type(value) in (int, float, str, tuple, np.ndarray):
        return set()
    return {*dir(type(value)), *getattr(value, "__dict__", ())}


def _line(function: FunctionType) -> str:
    return line_of(function.__code__, -1)
