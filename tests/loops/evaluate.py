"""An evaluator of the loop IR in Python, one node at a time: the meaning of the nodes, apart from any emitter."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from functad.loops import ir

TYPES = {"double": np.float64, "float": np.float32, "i64": np.int64, "i32": np.int32, "i8": np.int8, "i1": np.int8}
SIZES = {kind: np.dtype(own).itemsize for kind, own in TYPES.items()} | {"ptr": 8}


class Buffer:
    """Memory: bytes, and the addresses that are stored in it by their position."""

    def __init__(self, size: int, data: Any = None) -> None:
        self.bytes = np.zeros(size, np.uint8) if data is None else data
        self.addresses: dict[int, Any] = {}


class Address:
    """A position in a buffer."""

    def __init__(self, buffer: Buffer, offset: int = 0) -> None:
        self.buffer, self.offset = buffer, offset

    def moved(self, count: int) -> "Address":
        return Address(self.buffer, self.offset + int(count))

    def read(self, kind: str) -> Any:
        if kind == "ptr":
            return self.buffer.addresses[self.offset]
        found = self.buffer.bytes[self.offset : self.offset + SIZES[kind]].view(TYPES[kind])[0]
        return bool(found) if kind == "i1" else found

    def write(self, kind: str, value: Any) -> None:
        if kind == "ptr":
            self.buffer.addresses[self.offset] = value
        else:
            self.buffer.bytes[self.offset : self.offset + SIZES[kind]].view(TYPES[kind])[0] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.buffer is other.buffer and self.offset == other.offset

    __hash__ = None


class LeftError(Exception):
    """The signal that a block or loop ends."""


class Evaluator:
    """Evaluates the functions of a module.

    Args:
        functions: the functions, by symbol.
        tables: the tables that they read.
    """

    def __init__(self, functions: dict[str, ir.Function], tables: dict[str, ir.Table]) -> None:
        self.functions = functions
        self.tables = {
            name: Address(Buffer(0, np.array(table.numbers, TYPES[table.kind]).view(np.uint8)))
            for name, table in tables.items()
        }
        self.used: set[str] = set()

    def call(self, symbol: str, *arguments: Any) -> Any:
        """Call a function of the module."""
        function = self.functions[symbol]
        values = {name: value for (_, name), value in zip(function.parameters, arguments, strict=True)}
        self._run(function.body, values)
        return None if function.result is None else self._value(function.result[1], function.result[0], values)

    def _value(self, operand: str, kind: str, values: dict[str, Any]) -> Any:
        if operand.startswith("%"):
            return values[operand]
        if operand.startswith("@"):
            return self.tables[operand]
        if operand == "null":
            return None
        number = ir.number_of(operand, kind)
        return bool(number) if kind == "i1" else TYPES[kind](number)

    def _run(self, body: Any, values: dict[str, Any]) -> None:
        for node in body:
            self.used.add(type(node).__name__ if not isinstance(node, ir.Op) else node.name)
            given = [self._value(operand, kind, values) for kind, operand in ir.operands_of(node)]
            if isinstance(node, ir.Op):
                values[node.result] = self._operation(node, given)
            elif isinstance(node, ir.Load):
                values[node.result] = given[0].moved(given[1] * SIZES[node.kind]).read(node.kind)
            elif isinstance(node, ir.Store):
                given[0].moved(given[1] * SIZES[node.kind]).write(node.kind, given[2])
            elif isinstance(node, ir.Allocate):
                values[node.result] = Address(Buffer(node.length * SIZES[node.kind]))
            elif isinstance(node, ir.Call):
                found = self._called(node.function, given)
                if node.result:
                    values[node.result] = found
            elif isinstance(node, ir.For):
                for i in range(int(given[0]), int(given[1]), node.step):
                    self._run(node.body, values | {node.variable: np.int64(i)})
            elif isinstance(node, ir.If):
                if given[0]:
                    self._run(node.body, dict(values))
            elif isinstance(node, (ir.Block, ir.Loop)):
                self._region(node, values)
            elif isinstance(node, ir.Leave) and (not node.condition or given[0]):
                raise LeftError(node.label)

    def _region(self, node: Any, values: dict[str, Any]) -> None:
        try:
            while True:
                self._run(node.body, dict(values))
                if isinstance(node, ir.Block):
                    return
        except LeftError as left:
            if left.args[0] != node.label:
                raise

    def _called(self, symbol: str, given: Any) -> Any:
        if symbol in self.functions:
            return self.call(symbol, *given)
        if symbol.startswith("@llvm.memset"):
            place, value, size, _ = given
            place.buffer.bytes[place.offset : place.offset + int(size)] = value
            return None
        if symbol == "@realloc":
            old, size = given
            made = Buffer(int(size))
            if old is not None:
                made.bytes[: old.buffer.bytes.size] = old.buffer.bytes
            return Address(made)
        return {"@free": None, "@functad.look": False}[symbol]

    def _operation(self, node: ir.Op, given: Any) -> Any:
        name, kind = node.name, node.kind
        x, y = given[0], given[-1]
        if name == "select":
            return given[1] if x else y
        if name == "address":
            return x.moved(y * SIZES[node.of])
        if name in ir.COMPARISONS:
            return bool(_compared(name, x, y))
        if name in ("copy", "freeze"):
            return x
        if name == "convert":
            return _converted(x, kind)
        if name in ("bits", "real"):
            return np.array(x).view(TYPES[kind])[()]
        found = _FUNCTIONS[name](*given)
        return bool(found) if kind == "i1" else TYPES[kind](found)


def _converted(x: Any, kind: str) -> Any:
    if kind == "i1":
        return bool(int(x) & 1)
    return TYPES[kind](int(x)) if kind in ("i64", "i32", "i8") else TYPES[kind](x)


def _compared(name: str, x: Any, y: Any) -> Any:
    if name == "unordered":
        return x != x or y != y
    return {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name] if name[0] in "lg" else (x == y) == (name == "eq")


def _wrapped(function: Any) -> Any:
    """Return a function of integers whose result wraps around."""

    def wrapped(x: Any, y: Any) -> Any:
        if not isinstance(x, (np.integer, bool)):
            return None
        bits = 8 * np.dtype(type(x)).itemsize if not isinstance(x, bool) else 1
        found = function(int(x), int(y), (1 << bits) - 1) & ((1 << bits) - 1)
        return found - (1 << bits) if bits > 1 and found >> bits - 1 else found

    return wrapped


def _arithmetic(of_reals: Any, of_integers: Any) -> Any:
    whole = _wrapped(of_integers)
    return lambda x, y: of_reals(x, y) if isinstance(x, np.floating) else whole(x, y)


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_FUNCTIONS: dict[str, Any] = {
    "add": _arithmetic(np.add, lambda x, y, ones: x + y),
    "sub": _arithmetic(np.subtract, lambda x, y, ones: x - y),
    "mul": _arithmetic(np.multiply, lambda x, y, ones: x * y),
    "div": _arithmetic(np.divide, lambda x, y, ones: _quotient(x, y)),
    "rem": _arithmetic(np.fmod, lambda x, y, ones: x - y * _quotient(x, y)),
    "and": _wrapped(lambda x, y, ones: x & y),
    "or": _wrapped(lambda x, y, ones: x | y),
    "xor": _wrapped(lambda x, y, ones: x ^ y),
    "shl": _wrapped(lambda x, y, ones: x << y),
    "lshr": _wrapped(lambda x, y, ones: (x & ones) >> y),
    "ashr": _wrapped(lambda x, y, ones: x >> y),
    "udiv": _wrapped(lambda x, y, ones: (x & ones) // (y & ones)),
    "urem": _wrapped(lambda x, y, ones: (x & ones) % (y & ones)),
    "neg": np.negative,
    "fabs": np.abs,
    "sqrt": np.sqrt,
    "copysign": np.copysign,
    "fma": lambda a, b, c: _fused(a, b, c),
    "fmuladd": lambda a, b, c: _fused(a, b, c),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def _fused(a: Any, b: Any, c: Any) -> Any:
    """Return `a b + c`, rounded once."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c
    try:
        return type(a)(float(exact))
    except OverflowError:
        return type(a)(math.copysign(math.inf, exact))
