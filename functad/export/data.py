"""An expression list as JSON data and arrays, and the list of such data.

A slot is a number; a constant is `{"constant": value}`. Values with a JSON type are written directly, and a tuple is a JSON
array. Every other value is an object with one key, the name of its kind in `KINDS`.

Data may come from anyone: invalid data raise `DamagedError`, and no code of a file runs.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import CellType, EllipsisType, FunctionType
from typing import Any, NoReturn

import numpy as np

from functad.errors import StateError
from functad.export.names import name_of_primitive, primitive_of
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec
from functad.places import Named, here, is_own, line_of, name_of
from functad.primitives.entry import Primitive
from functad.primitives.indexing.write import Step
from functad.primitives.linalg.sparse_products import ConstantMatrix
from functad.rules.call import CallWithRules
from functad.rules.checkpoint import Segment
from functad.tracing.trace import Recorded, resolve
from functad.trees import LEAF, Structure

CHECKPOINT = "functad.checkpoint"
FACTORIES = {"list": list, "dict": dict, "tuple": tuple, "set": set, "int": int, "float": float}
"""The names of the permitted factories of a `defaultdict`."""

_CONTAINERS = {kind.__name__: kind for kind in (tuple, list, dict, OrderedDict, defaultdict)}
_WEAK = {kind.__name__: dtype for kind, dtype in PYTHON_SCALARS.items()}
_NUMBERS = "biufc"
_DTYPE = re.compile(rf"[<>|=]?[{_NUMBERS}]\d{{1,2}}")
_EXACT = 16
"""Bytes of the largest NumPy scalars that JSON represents exactly: complex numbers of two float64."""


class DamagedError(Exception):
    """The data of a file are not an expression list."""


class TooLargeError(DamagedError):
    """An array in a file is larger than the limit."""


class Encoder:
    """Encodes expression lists.

    Attributes:
        arrays: the arrays of the list; the data refer to them by number.
    """

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._where = ""  # the place of the current value, for messages

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
        found: dict[str, Any] = {
            "primitive": name or CHECKPOINT,
            "inputs": [self._source(source, f"an argument of {primitive.name}") for source in equation.inputs],
            "params": {key: self.value(value, f"{key}= of {primitive.name}") for key, value in equation.params.items()},
            "outputs": list(equation.outputs),
        }
        if inner is not None:
            found["inner"] = {"list": self.expressions(inner[0]), "results": inner[1]}
        return found

    def _source(self, source: int | Constant, where: str) -> Any:
        return {"constant": self.value(source.value, where)} if isinstance(source, Constant) else source

    def value(self, value: Any, where: str = "") -> Any:
        """Return a parameter or a constant as JSON data.

        Args:
            value: the value.
            where: the place of the value, for messages. Default: the place of the value that contains it.

        Raises:
            StateError: the value cannot be encoded.
        """
        self._where = where or self._where
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is tuple:
            return [self.value(part) for part in value]
        if isinstance(value, Recorded):
            below = resolve(value)
            if isinstance(below, Recorded):
                raise StateError(
                    f"a list that uses a Tensor of an enclosing trace, as {self._where}, cannot be saved, at {here()}: make it "
                    f"an argument of the function."
                )
            return self.value(below)
        base = next((base for base in (np.dtype, np.generic) if issubclass(kind, base)), kind)
        for name, (own, encode, _) in KINDS.items():
            if own is base and getattr(getattr(value, "dtype", value), "kind", "f") in _NUMBERS:
                return {name: encode(self, value)}
        return _refuse_value(value, self._where)

    def array(self, array: Any) -> Any:
        """Return the number of an array; for a broadcast array number and shape, because repeated elements are written once."""
        axes = zip(array.shape, array.strides, strict=True)
        small = array[tuple([slice(None) if stride or n < 2 else slice(1) for n, stride in axes])]
        number, _ = self._numbers.setdefault(id(array), (len(self.arrays), array))  # the reference keeps its `id` unique
        if number == len(self.arrays):
            self.arrays.append(small)
        return number if small.shape == array.shape else [number, *array.shape]

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
        if kind in _CONTAINERS.values():
            keys = [self.value(key, "a key of an argument or result") for key in structure.data[0]]
            pairs = [list(pair) for pair in zip(keys, children, strict=True)]
            if kind is not defaultdict:
                return {kind.__name__: pairs}
            made = [name for name, factory in FACTORIES.items() if factory is structure.data[1]]
            if made or structure.data[1] is None:
                return {"defaultdict": [made[0] if made else None, pairs]}
        raise StateError(
            f"a list whose arguments or results are in a {kind.__name__} cannot be saved, at {here()}: to read it, Python "
            f"would run code of that class. Take and return tuples, lists and dicts."
        )


def _spec(spec: ArraySpec) -> Any:
    """Return a spec as JSON data: dtype and shape; for a weak spec the Python type with this dtype, or else the dtype."""
    if not spec.weak:
        return [spec.dtype.str, *spec.shape]
    return next((name for name, dtype in _WEAK.items() if dtype == spec.dtype), spec.dtype.str)


def _inner(primitive: Any) -> tuple[Expressions, int] | None:
    """Return the inner list of a checkpoint and the number of its own results; `None` for user code."""
    rules = getattr(primitive, "rules", None)
    if rules is None or rules.inner is None:
        return None
    return rules.inner, getattr(getattr(rules.value, "__self__", None), "count", len(rules.inner.outputs))


class Decoder:
    """Decodes expression lists.

    Args:
        arrays: functions without arguments that read the arrays, by number.
        limit: the maximum size of a value in bytes.
    """

    def __init__(self, arrays: Sequence[Callable[[], Any]], limit: int) -> None:
        self._readers = arrays
        self._limit = limit
        self._arrays: dict[int, Any] = {}

    def expressions(self, data: Any) -> Expressions:
        """Return the decoded list; `Expressions.check` checks that its equations fit together.

        Raises:
            DamagedError: the data are not a list.
        """
        keys = {"inputs", "specs", "equations", "outputs", "input_structure", "output_structure"}
        given = _object(data, keys, "a list")
        specs = tuple([self._spec(spec) for spec in _many(given["specs"], "specs")])
        inputs = tuple([_text(name, "an input") for name in _many(given["inputs"], "inputs")])
        if len(inputs) > len(specs):
            _fail(f"{len(inputs)} inputs have {len(specs)} specs")
        taken, returned = self._structure(given["input_structure"]), self._structure(given["output_structure"])
        equations = tuple([self._equation(e, len(specs)) for e in _many(given["equations"], "equations")])
        outputs = tuple([self._source(source, len(specs)) for source in _many(given["outputs"], "outputs")])
        if taken.leaves != len(inputs) or returned.leaves != len(outputs):
            _fail("its arguments or results have another number of leaves than it has inputs or outputs")
        if not (taken.kind is tuple and [child.kind for child in taken.children] == [tuple, dict]):
            _fail("its arguments are none")
        return Expressions(inputs, equations, outputs, specs, taken, returned)

    def _equation(self, data: Any, slots: int) -> Equation:
        given = _object(data, {"primitive", "inputs", "params", "outputs"}, "an equation", optional={"inner"})
        name = _text(given["primitive"], "the name of a primitive")
        inputs = tuple([self._source(source, slots) for source in _many(given["inputs"], "inputs of an equation")])
        outputs = tuple([_count(slot, "a slot", slots) for slot in _many(given["outputs"], "outputs of an equation")])
        params = self.params(given["params"])
        if (name == CHECKPOINT) != ("inner" in given):
            _fail(f"{name} has a list, or has none")
        primitive = self._checkpoint(given["inner"]) if name == CHECKPOINT else _primitive(name, len(inputs))
        return Equation(primitive, inputs, params, outputs)

    def _checkpoint(self, data: Any) -> Primitive:
        given = _object(data, {"list", "results"}, "a checkpoint")
        inner = self.expressions(given["list"])
        segment = Segment(Named("checkpoint"), inner, _count(given["results"], "a number of results", len(inner.outputs) + 1))
        return CallWithRules(segment.rules())

    def _source(self, data: Any, slots: int) -> int | Constant:
        if type(data) is dict:
            return Constant(self.value(_object(data, {"constant"}, "a constant")["constant"]))
        return _count(data, "a slot", slots)

    def _spec(self, data: Any) -> ArraySpec:
        if type(data) is str:
            return ArraySpec((), _WEAK[data] if data in _WEAK else _dtype(data), weak=True)
        dtype, *shape = _many(data, "a spec") or [None]
        return ArraySpec(self.shape(shape, own := _dtype(dtype)), own)

    def shape(self, data: Any, dtype: np.dtype[Any]) -> tuple[int, ...]:
        """Return the decoded shape of an array; raise if the array is larger than the limit."""
        shape = tuple([_count(n, "a length") for n in data])
        if len(shape) > 64 or math.prod([max(n, 1) for n in shape]) * dtype.itemsize > self._limit:
            _fail(f"an array of {dtype} and shape {shape} is larger than {self._limit} bytes", TooLargeError)
        return shape

    def value(self, data: Any) -> Any:
        """Return the decoded parameter or constant.

        Raises:
            DamagedError: the data are not a value.
        """
        kind = type(data)
        if data is None or kind in (bool, int, float, str):
            return data
        if kind is list:
            return tuple(map(self.value, data))
        if kind is not dict or len(data) != 1:
            _fail("a value is none")
        [(kind_name, inside)] = data.items()
        if kind_name not in KINDS:
            _fail(f"there are no values called {kind_name[:40]!r}")
        return KINDS[kind_name][2](self, inside)

    def params(self, data: Any) -> dict[str, Any]:
        """Return decoded parameters by their names."""
        if type(data) is not dict:
            _fail("the parameters of an equation have no names")
        return {key: self.value(value) for key, value in data.items()}

    def values(self, data: Any, name: str) -> list[Any]:
        """Return the decoded values of an array of JSON."""
        return [self.value(part) for part in _many(data, name)]

    def key(self, data: Any) -> Any:
        """Return the decoded key of a dict."""
        key = self.value(data)
        try:
            hash(key)
        except TypeError:
            _fail("a key cannot be hashed")
        return key

    def array(self, data: Any) -> Any:
        """Return an array by its number; a number with a shape is a broadcast array."""
        number, *shape = data if type(data) is list and data else [data]
        number = _count(number, "the number of an array", len(self._readers))
        if number not in self._arrays:
            self._arrays[number] = self._readers[number]()
        found = self._arrays[number]
        return np.broadcast_to(found, self.shape(shape, found.dtype)) if type(data) is list else found

    def _structure(self, data: Any) -> Structure:
        """Return the decoded structure of tuples, lists, dicts and `None`."""
        if data == "*":
            return LEAF
        if data is None:
            return Structure(type(None), None, (), 0)
        if type(data) is not dict or len(data) != 1:
            _fail("a structure is none")
        [(name, inside)] = data.items()
        kind = _CONTAINERS.get(name) or _fail(f"there are no structures called {name[:40]!r}")
        if kind in (tuple, list):
            children = tuple([self._structure(child) for child in _many(inside, "the parts of a structure")])
            return Structure(kind, len(children), children, sum(c.leaves for c in children))
        factory = None
        if kind is defaultdict:
            made, inside = _pair(inside, "the parts of a structure")
            factory = None if made is None else FACTORIES.get(made) or _fail("a defaultdict makes nothing")
        pairs = [_pair(pair, "key and value") for pair in _many(inside, "the entries of a structure")]
        keys = tuple([self.key(key) for key, _ in pairs])
        if len(set(keys)) < len(keys):
            _fail("a structure has a key twice")
        children = tuple([self._structure(child) for _, child in pairs])
        return Structure(kind, (keys, factory), children, sum(c.leaves for c in children))


# Checked parts of data


def _fail(reason: str, error: type[DamagedError] = DamagedError) -> NoReturn:
    raise error(reason)


def _object(data: Any, keys: set[str], name: str, optional: Collection[str] = ()) -> Mapping[str, Any]:
    if type(data) is not dict or not keys <= data.keys() <= keys | {*optional}:
        _fail(f"{name} has not {', '.join(sorted(keys))}")
    return data


def _many(data: Any, name: str) -> Any:
    return data if type(data) is list else _fail(f"{name} are no array of JSON")


def _pair(data: Any, name: str) -> Any:
    return data if type(data) is list and len(data) == 2 else _fail(f"{name} are not two values")


def _text(data: Any, name: str) -> str:
    return data if type(data) is str else _fail(f"{name} is no text")


def _count(data: Any, name: str, below: float = math.inf) -> int:
    """Return a nonnegative integer below `below`."""
    if type(data) is not int or not 0 <= data < below:
        _fail(f"{name} is {str(data)[:40]}")
    return data


def _dtype(data: Any) -> np.dtype[Any]:
    if type(data) is not str or not _DTYPE.fullmatch(data):
        _fail(f"{str(data)[:40]!r} is no dtype of numbers")
    return np.dtype(data)


def _primitive(name: str, arrays: int) -> Primitive:
    return primitive_of(name, arrays) or _fail(
        f"{name[:80]!r} is no primitive of functad, or of a package that is not installed"
    )


# Kinds of values


def _decoded_float(decoder: Decoder, data: Any) -> float:
    return float(data) if data in ("inf", "-inf", "nan") else _fail("a number is none")


def _decoded_complex(decoder: Decoder, data: Any) -> complex:
    parts = decoder.values(_pair(data, "the parts of a complex number"), "the parts of a complex number")
    return complex(*parts) if all(type(part) is float for part in parts) else _fail("a complex number is none")


def _decoded_slice(decoder: Decoder, data: Any) -> slice:
    parts = decoder.values(data, "the parts of a slice")
    if len(parts) != 3 or not all(part is None or isinstance(part, (int, np.integer)) for part in parts):
        _fail("a slice is none")
    return slice(*parts)


def _decoded_dict(decoder: Decoder, data: Any) -> dict[Any, Any]:
    pairs = [_pair(pair, "key and value") for pair in _many(data, "the entries of a dict")]
    return {decoder.key(key): decoder.value(value) for key, value in pairs}


def _encoded_number(encoder: Encoder, value: Any) -> Any:
    """Return dtype and value of a NumPy scalar, or the number of an array if JSON does not represent it exactly."""
    fits = value.dtype.itemsize <= (_EXACT if value.dtype.kind == "c" else _EXACT // 2)
    return [value.dtype.str, encoder.value(value.item())] if fits else encoder.array(np.asarray(value))


def _decoded_number(decoder: Decoder, data: Any) -> Any:
    if type(data) is int:
        found = decoder.array(data)
        return found[()] if found.shape == () else _fail("a number has several elements")
    dtype, value = _pair(data, "a number's parts")
    value = decoder.value(value)
    if type(value) not in PYTHON_SCALARS:
        _fail("a number is none")
    return _dtype(dtype).type(value)


def _encoded_matrix(encoder: Encoder, value: ConstantMatrix) -> dict[str, Any]:
    matrix = value.matrix
    if type(matrix) is np.ndarray:
        return {"dense": encoder.array(matrix)}
    rows = matrix if matrix.format in ("csr", "csc") else matrix.tocsr()
    parts = [encoder.array(np.asarray(part)) for part in (rows.data, rows.indices, rows.indptr)]
    return {"sparse": [type(rows).__name__, *parts, *rows.shape]}


def _decoded_matrix(decoder: Decoder, data: Any) -> ConstantMatrix:
    """Return a constant matrix; the indices of a sparse matrix are checked."""
    if type(data) is dict and data.keys() == {"dense"}:
        dense = decoder.array(data["dense"])
        return ConstantMatrix(dense) if dense.ndim == 2 else _fail("a matrix has not two axes")
    kind, values, indices, pointers, *shape = _many(_object(data, {"sparse"}, "a matrix")["sparse"], "a matrix") + [None] * 4
    if kind not in ("csr_array", "csc_array", "csr_matrix", "csc_matrix"):
        _fail("a matrix is none")
    from scipy import sparse  # noqa: PLC0415 - optional; only files with a sparse matrix need it

    parts = [decoder.array(part) for part in (values, indices, pointers)]
    if any(part.ndim != 1 for part in parts) or any(part.dtype.kind not in "iu" for part in parts[1:]):
        _fail("the parts of a sparse matrix are none")
    made = getattr(sparse, kind)(tuple(parts), shape=decoder.shape(shape[:2], np.dtype(bool)))
    made.check_format(full_check=True)
    return ConstantMatrix(made)


def _encoded_step(encoder: Encoder, step: Step) -> list[Any]:
    params = {key: encoder.value(part) for key, part in step.params.items()}
    return [name_of_primitive(step.primitive), params, step.number, step.writeable, step.copied]


def _decoded_step(decoder: Decoder, data: Any) -> Step:
    given = _many(data, "a step")
    if len(given) != 5:
        _fail("a step is none")
    name, params, number, writeable, copied = given
    primitive = _primitive(_text(name, "the name of a primitive"), 1)
    if not primitive.views or type(writeable) is not bool or type(copied) is not bool:
        _fail("a step leads to no view")
    return Step(
        primitive, decoder.params(params), None if number is None else _count(number, "which result"), writeable, copied
    )


KINDS: dict[str, tuple[type, Callable[[Encoder, Any], Any], Callable[[Decoder, Any], Any]]] = {
    "float": (float, lambda encoder, value: repr(value), _decoded_float),
    "complex": (complex, lambda encoder, value: [encoder.value(value.real), encoder.value(value.imag)], _decoded_complex),
    "ellipsis": (
        EllipsisType,
        lambda encoder, value: None,
        lambda _, data: Ellipsis if data is None else _fail("an ellipsis is none"),
    ),
    "slice": (slice, lambda encoder, value: [*map(encoder.value, (value.start, value.stop, value.step))], _decoded_slice),
    "list": (
        list,
        lambda encoder, value: [*map(encoder.value, value)],
        lambda decoder, data: decoder.values(data, "the parts of a list"),
    ),
    "dict": (dict, lambda encoder, value: [[*map(encoder.value, pair)] for pair in value.items()], _decoded_dict),
    "dtype": (np.dtype, lambda encoder, value: value.str, lambda decoder, data: _dtype(data)),
    "number": (np.generic, _encoded_number, _decoded_number),
    "array": (np.ndarray, Encoder.array, Decoder.array),
    "expressions": (Expressions, Encoder.expressions, Decoder.expressions),
    "matrix": (ConstantMatrix, _encoded_matrix, _decoded_matrix),
    "step": (Step, _encoded_step, _decoded_step),
}
"""The kinds of values that JSON does not have: the name in a file, the type, the encoding and the decoding."""


# Messages about values that a file does not hold


def _refuse_function(equation: Equation) -> NoReturn:
    function = _users([equation.primitive.function, *equation.params.values()])
    name = equation.primitive.name
    if function is None:
        owners = [value.name for value in equation.params.values() if isinstance(getattr(value, "name", None), str)]
        refused = " of ".join([f"a list with {name}", *owners])
    else:
        refused = f"a list with a call of {name}, whose function {name_of(function)} is defined at {_line(function)},"
    raise StateError(
        f"{refused} cannot be saved, at {here()}: a file holds no code. Pickle the list where "
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
