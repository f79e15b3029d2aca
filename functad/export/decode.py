"""An expression list from untrusted JSON data: invalid data raise an error, and no code from the file runs."""

from __future__ import annotations

import math
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from functad.export.encode import FACTORIES, NUMBERS
from functad.export.names import primitive_of
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec
from functad.places import Named
from functad.primitives.entry import Primitive
from functad.primitives.indexing.write import Step
from functad.primitives.linalg.sparse_products import ConstantMatrix
from functad.rules.call import CallWithRules
from functad.rules.checkpoint import Segment
from functad.trees import LEAF, Structure

CHECKPOINT = "functad.checkpoint"
_DTYPE = re.compile(rf"[<>|=]?[{NUMBERS}]\d{{1,2}}")
_LIST = {"inputs", "specs", "equations", "outputs", "input_structure", "output_structure"}
_EQUATION = {"primitive", "inputs", "params", "outputs"}


class DamagedError(Exception):
    """The data of a file are not an expression list."""


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
        given = _object(data, _LIST, "a list")
        specs = tuple([self._spec(spec) for spec in _many(given["specs"], "specs")])
        inputs = tuple([_text(name, "an input") for name in _many(given["inputs"], "inputs")])
        if len(inputs) > len(specs):
            _fail(f"{len(inputs)} inputs have {len(specs)} specs")
        taken = _structure(self, given["input_structure"])
        returned = _structure(self, given["output_structure"])
        equations = tuple([self._equation(e, len(specs)) for e in _many(given["equations"], "equations")])
        outputs = tuple([self._source(source, len(specs)) for source in _many(given["outputs"], "outputs")])
        if taken.leaves != len(inputs) or returned.leaves != len(outputs):
            _fail("its arguments or results have another number of leaves than it has inputs or outputs")
        if not (taken.kind is tuple and [child.kind for child in taken.children] == [tuple, dict]):
            _fail("its arguments are none")
        return Expressions(inputs, equations, outputs, specs, taken, returned)

    def _equation(self, data: Any, slots: int) -> Equation:
        given = _object(data, _EQUATION, "an equation", optional={"inner"})
        name = _text(given["primitive"], "the name of a primitive")
        inputs = tuple([self._source(source, slots) for source in _many(given["inputs"], "inputs of an equation")])
        outputs = tuple([_count(slot, "a slot", slots) for slot in _many(given["outputs"], "outputs of an equation")])
        if type(given["params"]) is not dict:
            _fail("the parameters of an equation have no names")
        params = {key: self.value(value) for key, value in given["params"].items()}
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
            weak = {kind.__name__: dtype for kind, dtype in PYTHON_SCALARS.items()}
            return ArraySpec((), weak[data] if data in weak else _dtype(data), weak=True)
        dtype, *shape = _many(data, "a spec") or [None]
        return ArraySpec(self._shape(shape, own := _dtype(dtype)), own)

    def _shape(self, data: Any, dtype: np.dtype[Any]) -> tuple[int, ...]:
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
        [(what, inside)] = data.items()
        if what not in _VALUES:
            _fail(f"there are no values called {what[:40]!r}")
        return _VALUES[what](self, inside)

    def array(self, data: Any) -> Any:
        """Return an array by its number; a number with a shape is a broadcast array."""
        number, *shape = data if type(data) is list and data else [data]
        number = _count(number, "the number of an array", len(self._readers))
        if number not in self._arrays:
            self._arrays[number] = self._readers[number]()
        found = self._arrays[number]
        return np.broadcast_to(found, self._shape(shape, found.dtype)) if type(data) is list else found


class TooLargeError(DamagedError):
    """An array in a file is larger than the limit."""


def _fail(what: str, error: type[DamagedError] = DamagedError) -> NoReturn:
    raise error(what)


def _object(data: Any, keys: set[str], what: str, optional: Collection[str] = ()) -> Mapping[str, Any]:
    if type(data) is not dict or not keys <= data.keys() <= keys | {*optional}:
        _fail(f"{what} has not {', '.join(sorted(keys))}")
    return data


def _many(data: Any, what: str) -> Any:
    return data if type(data) is list else _fail(f"{what} are no array of JSON")


def _text(data: Any, what: str) -> str:
    return data if type(data) is str else _fail(f"{what} is no text")


def _count(data: Any, what: str, below: float = math.inf) -> int:
    """Return a nonnegative integer below `below`."""
    if type(data) is not int or not 0 <= data < below:
        _fail(f"{what} is {str(data)[:40]}")
    return data


def _dtype(data: Any) -> np.dtype[Any]:
    if type(data) is not str or not _DTYPE.fullmatch(data):
        _fail(f"{str(data)[:40]!r} is no dtype of numbers")
    return np.dtype(data)


def _primitive(name: str, arrays: int) -> Primitive:
    return primitive_of(name, arrays) or _fail(
        f"{name[:80]!r} is no primitive of functad, or of a package that is not installed"
    )


def _pair(data: Any, what: str) -> Any:
    return data if type(data) is list and len(data) == 2 else _fail(f"{what} are not two values")


def _number(decoder: Decoder, data: Any) -> Any:
    """Return a NumPy scalar."""
    if type(data) is int:
        found = decoder.array(data)
        return found[()] if found.shape == () else _fail("a number has several elements")
    dtype, value = _pair(data, "a number's parts")
    value = decoder.value(value)
    if type(value) not in PYTHON_SCALARS:
        _fail("a number is none")
    return _dtype(dtype).type(value)


def _complex(decoder: Decoder, data: Any) -> complex:
    parts = [decoder.value(part) for part in _pair(data, "the parts of a complex number")]
    return complex(*parts) if all(type(part) is float for part in parts) else _fail("a complex number is none")


def _float(decoder: Decoder, data: Any) -> float:
    return float(data) if data in ("inf", "-inf", "nan") else _fail("a number is none")


def _slice(decoder: Decoder, data: Any) -> slice:
    parts = [decoder.value(part) for part in _many(data, "the parts of a slice")]
    if len(parts) != 3 or not all(part is None or isinstance(part, (int, np.integer)) for part in parts):
        _fail("a slice is none")
    return slice(*parts)


def _dict(decoder: Decoder, data: Any) -> dict[Any, Any]:
    pairs = [_pair(pair, "key and value") for pair in _many(data, "the entries of a dict")]
    return {_key(decoder, key): decoder.value(value) for key, value in pairs}


def _key(decoder: Decoder, data: Any) -> Any:
    key = decoder.value(data)
    try:
        hash(key)
    except TypeError:
        _fail("a key cannot be hashed")
    return key


def _matrix(decoder: Decoder, data: Any) -> ConstantMatrix:
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
    made = getattr(sparse, kind)(tuple(parts), shape=decoder._shape(shape[:2], np.dtype(bool)))
    made.check_format(full_check=True)
    return ConstantMatrix(made)


def _step(decoder: Decoder, data: Any) -> Step:
    given = _many(data, "a step")
    if len(given) != 5 or type(given[1]) is not dict:
        _fail("a step is none")
    name, params, number, writeable, copied = given
    primitive = _primitive(_text(name, "the name of a primitive"), 1)
    if not primitive.views or type(writeable) is not bool or type(copied) is not bool:
        _fail("a step leads to no view")
    which = None if number is None else _count(number, "which result")
    return Step(primitive, {key: decoder.value(value) for key, value in params.items()}, which, writeable, copied)


_VALUES: dict[str, Callable[[Decoder, Any], Any]] = {
    "float": _float,
    "complex": _complex,
    "ellipsis": lambda decoder, data: Ellipsis if data is None else _fail("an ellipsis is none"),
    "slice": _slice,
    "list": lambda decoder, data: [decoder.value(part) for part in _many(data, "the parts of a list")],
    "dict": _dict,
    "dtype": lambda decoder, data: _dtype(data),
    "number": _number,
    "array": Decoder.array,
    "expressions": Decoder.expressions,
    "matrix": _matrix,
    "step": _step,
}


def _structure(decoder: Decoder, data: Any) -> Structure:
    """Return the decoded structure of tuples, lists, dicts and `None`."""
    if data == "*":
        return LEAF
    if data is None:
        return Structure(type(None), None, (), 0)
    if type(data) is not dict or len(data) != 1:
        _fail("a structure is none")
    [(kind, inside)] = data.items()
    if kind in ("tuple", "list"):
        children = tuple([_structure(decoder, child) for child in _many(inside, "the parts of a structure")])
        return Structure(tuple if kind == "tuple" else list, len(children), children, sum(c.leaves for c in children))
    factory = None
    if kind == "defaultdict":
        made, inside = _pair(inside, "the parts of a structure")
        factory = None if made is None else FACTORIES.get(made) or _fail("a defaultdict makes nothing")
    kinds = {"dict": dict, "OrderedDict": OrderedDict, "defaultdict": defaultdict}
    if kind not in kinds:
        _fail(f"there are no structures called {kind[:40]!r}")
    pairs = [_pair(pair, "key and value") for pair in _many(inside, "the entries of a structure")]
    keys = tuple([_key(decoder, key) for key, _ in pairs])
    if len(set(keys)) < len(keys):
        _fail("a structure has a key twice")
    children = tuple([_structure(decoder, child) for _, child in pairs])
    return Structure(kinds[kind], (keys, factory), children, sum(c.leaves for c in children))
