"""A digest of an expression list: the same for the same list in every process, and another for any other list."""

from __future__ import annotations

import hashlib
import pickle
import struct
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.entry import Primitive

_BY_NAME = ("functad", "numpy", "scipy", "builtins", "operator", "math")
"""Packages whose functions are told by their names: which version of them is used is for the caller to add."""


def digest(expressions: Expressions) -> str:
    """Return a SHA-256 of all that an expression list says: two lists with the same digest compute the same.

    It is made of the names of primitives, parameters, the bytes of constants, shapes and dtypes, and of how arguments and
    results are put together; of functions of the user, of their code and what they close over. It depends neither on hash
    seeds nor on where objects are in memory. Versions of Python, NumPy and functad are no part of it.

    Args:
        expressions: the list.

    Returns:
        64 hexadecimal digits.

    Raises:
        UnsupportedError: the list holds an object that is told by its identity alone, or a Tensor that a trace follows.

    Example:
        >>> import numpy as np, functad
        >>> sine = functad.make_expressions(np.sin)
        >>> digest(sine(np.zeros(3))) == digest(sine(np.ones(3))), digest(sine(np.zeros(3))) == digest(sine(np.zeros(4)))
        (True, False)
    """
    try:
        return hashlib.sha256(_Encoder().encoded(expressions)).hexdigest()
    except (TypeError, AttributeError, ValueError, pickle.PicklingError, RecursionError) as error:
        raise UnsupportedError(
            f"digest of an expression list, at {here()}: it holds something that is the same in no other process ({error}). "
            f"Functions with rules are to be defined in a module, and Tensors to be arguments."
        ) from error


class _Encoder:
    """Writes values as bytes. What many equations have in common, and what is long, is written as its own digest."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[bytes, Any]] = {}
        self.open: dict[int, int] = {}

    def encoded(self, value: Any) -> bytes:
        """Return bytes that tell a value from all others."""
        kind = type(value)
        if kind is int:
            return b"i%d;" % value
        if kind is str:
            text = value.encode("utf-8", "surrogatepass")
            return b"s%d:%b" % (len(text), text)
        if value is None or value is Ellipsis or kind is bool:
            return repr(value).encode() + b";"
        if kind is float:
            return b"f" + struct.pack("<d", value)
        if kind is tuple or kind is list:
            return self._sequence(kind.__name__, value)
        if kind is Constant:
            return b"c" + self.encoded(value.value)
        if kind is Equation:
            parts = (value.primitive, value.inputs, value.params, value.outputs)
            return b"e" + b"".join(map(self.encoded, parts))
        if kind is slice:
            return self._sequence("slice", (value.start, value.stop, value.step))
        if kind in (dict, types.MappingProxyType):
            return self._mapping(value)
        return self._digested(value)

    def _sequence(self, name: str, values: Iterable[Any]) -> bytes:
        parts = [self.encoded(value) for value in values]
        return b"%b%d(%b)" % (name.encode(), len(parts), b"".join(parts))

    def _mapping(self, value: Mapping[Any, Any]) -> bytes:
        """Encode a mapping; the order of names does not matter."""
        keys = sorted(value) if all(type(key) is str for key in value) else list(value)
        return self._sequence("dict", [part for key in keys for part in (key, value[key])])

    def _digested(self, value: Any) -> bytes:
        """Return the digest of a value that was met before, or may be long; within itself, where that began."""
        found = self.known.get(id(value))
        if found is not None:
            return found[0]
        if id(value) in self.open:
            return b"again%d;" % self.open[id(value)]
        self.open[id(value)] = len(self.open)
        parts = self._parts(value)
        del self.open[id(value)]
        made = hashlib.sha256(parts).digest()
        self.known[id(value)] = made, value  # which is kept alive, so that no other gets its id
        return made

    def _parts(self, value: Any) -> bytes:
        kind = type(value)
        if kind is ArraySpec:
            return self._sequence("spec", (value.shape, value.dtype, value.weak))
        if issubclass(kind, (np.ndarray, np.generic)):
            return self._array(value)
        if isinstance(value, np.dtype):
            return self._sequence("dtype", (value.str, value.descr if value.names else None))
        if kind in (bytes, complex):
            return repr(value).encode()
        if isinstance(value, (set, frozenset)):
            return b"set" + b"".join(sorted(map(self.encoded, value)))
        if isinstance(value, Primitive):
            return self._primitive(value)
        if isinstance(value, np.ufunc):
            return self._sequence("ufunc", (value.__name__, value.nin, value.nout, value.types))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.CodeType):
            return self._sequence("code", (value.co_code, value.co_consts, value.co_names, value.co_varnames))
        if isinstance(value, type):
            return self._sequence("class", (value.__module__, value.__qualname__))
        if isinstance(value, types.ModuleType):
            return self._sequence("module", (value.__name__,))
        if isinstance(value, (types.BuiltinFunctionType, types.MethodType)) and not isinstance(
            value.__self__, types.ModuleType
        ):
            return self._sequence("method", (value.__name__, value.__self__))
        return self._reduced(value)

    def _array(self, value: Any) -> bytes:
        content = value.tolist() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
        return self._sequence("array", (type(value), value.dtype, value.shape)) + (
            content if type(content) is bytes else self.encoded(content)
        )

    def _primitive(self, value: Primitive) -> bytes:
        """Encode a primitive by how it is found again; one of the user's by what it computes, too."""
        made, arguments = value.__reduce__()[:2]  # raises if it was made for one call
        if isinstance(made, types.FunctionType) and made.__name__ == "imported":  # any of the modules that hold it
            return self._sequence("primitive", (value.name, value.kind, value.function))
        own = None if value.owner is None else value.compute
        return self._sequence("primitive", (value.name, value.kind, made, arguments, own))

    def _function(self, value: types.FunctionType) -> bytes:
        """Encode a function: one of a package by its name, one of the user by its code and what that uses."""
        name = value.__module__, value.__qualname__
        if (value.__module__ or "").partition(".")[0] in _BY_NAME and value.__closure__ is None:
            return self._sequence("function", (*name, value.__code__.co_firstlineno if "<" in value.__qualname__ else None))
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        used = {key: value.__globals__[key] for key in value.__code__.co_names if key in value.__globals__}
        return self._sequence("function", (*name, value.__code__, value.__defaults__, value.__kwdefaults__, cells, used))

    def _reduced(self, value: Any) -> bytes:
        """Encode an object by how it is pickled."""
        found = value.__reduce_ex__(4)
        if type(found) is str:
            return self._sequence("global", (getattr(value, "__module__", None) or type(value).__module__, found))
        items = [list(part) if part is not None and number > 2 else part for number, part in enumerate(found)]
        return self._sequence("object", items)
