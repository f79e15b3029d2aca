"""Digests of expression lists: equal for equal lists in every process, different for different lists."""

from __future__ import annotations

import hashlib
import pickle
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.entry import Primitive

_BY_NAME = ("functad", "numpy", "scipy", "builtins", "operator", "math")
"""Packages whose functions are encoded by name only. The caller must add the versions of these packages to a cache key."""


def digest(expressions: Expressions) -> str:
    """Return a SHA-256 digest of the content of an expression list. Lists with equal digests compute the same function.

    The digest covers the names of primitives, parameters, the bytes of constants, shapes, dtypes and the structures of
    arguments and results. User functions enter with their code and closures. The digest depends neither on hash seeds nor on
    memory addresses. It does not include the versions of Python, NumPy and functad.

    Args:
        expressions: the list.

    Returns:
        64 hexadecimal digits.

    Raises:
        UnsupportedError: the list holds an object without a reproducible encoding, or a traced Tensor.

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
    """Encodes values as bytes. Shared and possibly long values are encoded as their own digest."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[bytes, Any]] = {}
        self.open: dict[int, int] = {}

    def encoded(self, value: Any) -> bytes:
        """Return an unambiguous encoding of a value."""
        kind = type(value)
        if kind in _LITERALS:
            return ascii(value).encode() + b";"
        if kind in (tuple, list):
            return self._sequence(kind.__name__, value)
        if kind is Constant:
            return self._sequence("constant", (value.value,))
        if kind is Equation:
            return self._sequence("equation", (value.primitive, value.inputs, value.params, value.outputs))
        if kind is slice:
            return self._sequence("slice", (value.start, value.stop, value.step))
        if kind in (dict, types.MappingProxyType):  # the order of string keys does not matter
            keys = sorted(value) if all(type(key) is str for key in value) else list(value)
            return self._sequence("dict", [part for key in keys for part in (key, value[key])])
        return self._digested(value)

    def _sequence(self, name: str, values: Iterable[Any]) -> bytes:
        parts = [self.encoded(value) for value in values]
        return b"%b%d(%b)" % (name.encode(), len(parts), b"".join(parts))

    def _digested(self, value: Any) -> bytes:
        """Return the digest of a shared or possibly long value. A recursive reference is encoded as its depth."""
        found = self.known.get(id(value))
        if found is not None:
            return found[0]
        if id(value) in self.open:
            return b"again%d;" % self.open[id(value)]
        self.open[id(value)] = len(self.open)
        parts = self._parts(value)
        del self.open[id(value)]
        made = hashlib.sha256(parts).digest()
        self.known[id(value)] = made, value  # keeps `value` alive, so that its id is not reused
        return made

    def _parts(self, value: Any) -> bytes:
        kind = type(value)
        if kind is ArraySpec:
            return self._sequence("spec", (value.shape, value.dtype, value.weak))
        if issubclass(kind, (np.ndarray, np.generic)):
            return self._array(value)
        if isinstance(value, np.dtype):
            return self._sequence("dtype", (value.str, value.descr if value.names else None))
        if isinstance(value, (set, frozenset)):
            return b"set" + b"".join(sorted(map(self.encoded, value)))
        if isinstance(value, Primitive):
            return self._primitive(value)
        if isinstance(value, np.ufunc):
            return self._sequence("ufunc", (value.__name__, value.nin, value.nout, value.types))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.CodeType):
            return self._sequence("code", [getattr(value, name) for name in _CODE])
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
        """Return the encoding of a primitive: its import path, and for a user primitive also its function."""
        made, arguments = value.__reduce__()[:2]  # raises if it was made for one call
        if isinstance(made, types.FunctionType) and made.__name__ == "imported":  # several modules may hold the function
            return self._sequence("primitive", (value.name, value.kind, value.function))
        own = None if value.owner is None else value.compute
        return self._sequence("primitive", (value.name, value.kind, made, arguments, own))

    def _function(self, value: types.FunctionType) -> bytes:
        """Return the encoding of a function: the name of a package function, the code and used globals of a user function."""
        name = value.__module__, value.__qualname__
        if (value.__module__ or "").partition(".")[0] in _BY_NAME and value.__closure__ is None:
            return self._sequence("function", (*name, value.__code__.co_firstlineno if "<" in value.__qualname__ else None))
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        used = {key: value.__globals__[key] for key in sorted(_names(value.__code__)) if key in value.__globals__}
        return self._sequence("function", (*name, value.__code__, value.__defaults__, value.__kwdefaults__, cells, used))

    def _reduced(self, value: Any) -> bytes:
        """Return the encoding of an object from its pickle representation."""
        found = value.__reduce_ex__(4)
        if type(found) is str:
            return self._sequence("global", (getattr(value, "__module__", None) or type(value).__module__, found))
        items = [list(part) if part is not None and number > 2 else part for number, part in enumerate(found)]
        return self._sequence("object", items)


_LITERALS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis)})
"""Types of values that their `repr` determines."""

_CODE = (
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount"),
    *("co_kwonlyargcount", "co_flags", "co_exceptiontable"),
)
"""The attributes of a code object that decide the results of its function."""


def _names(code: types.CodeType) -> set[str]:
    """Return the names that a code object and the functions defined in it read."""
    return set(code.co_names).union(*[_names(part) for part in code.co_consts if isinstance(part, types.CodeType)])
