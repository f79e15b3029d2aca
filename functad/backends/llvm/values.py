"""The text of a function in LLVM IR, written with Python operators on values.

`a * b + c` appends two instructions to the body of `a`. There are no branches: `where` selects. Equal instructions are emitted
once. The types are LLVM types: `double`, `float`, `i64`, `i32`, and `i1` for booleans.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

REAL = {"double": "i64", "float": "i32"}
"""The types of real numbers, and the integer types of the same width."""

BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32}

SUFFIX = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32"}
"""The type suffixes in the names of intrinsics."""


class Body:
    """The instructions of one function, in order.

    Attributes:
        fused: `True` if the processor has a fused multiply-add instruction.
        short: `True` if polynomials need only the precision of float32.
        lines: the instructions.
        declarations: the declarations of intrinsics and tables that the function uses.
    """

    __slots__ = ("_known", "declarations", "fused", "lines", "short")

    def __init__(self, *, fused: bool, short: bool = False) -> None:
        self.fused = fused
        self.short = short
        self.lines: list[str] = []
        self.declarations: dict[str, None] = {}
        self._known: dict[str, Value] = {}

    def emit(self, instruction: str, kind: str) -> Value:
        """Return the result of an instruction; append it unless the body already contains it."""
        known = self._known.get(instruction)
        if known is None:
            known = self._known[instruction] = Value(self, f"%v{len(self.lines)}", kind)
            self.lines.append(f"  {known.name} = {instruction}")
        return known

    def constant(self, number: float, kind: str) -> Value:
        """Return a constant of a type."""
        return Value(self, literal(number, kind), kind)

    def call(self, intrinsic: str, *arguments: Value) -> Value:
        """Call an intrinsic with a result of the type of its arguments."""
        kind = arguments[0].kind
        name = f"@llvm.{intrinsic}.{SUFFIX[kind]}"
        self.declarations[f"declare {kind} {name}({', '.join(a.kind for a in arguments)})"] = None
        return self.emit(f"call {kind} {name}({', '.join(f'{a.kind} {a.name}' for a in arguments)})", kind)

    def table(self, name: str, numbers: Sequence[float]) -> str:
        """Declare an array of constant float64 numbers, and return its symbol."""
        entries = ", ".join(f"double {literal(number, 'double')}" for number in numbers)
        self.declarations[f"@{name} = internal unnamed_addr constant [{len(numbers)} x double] [{entries}]"] = None
        return f"@{name}"


def literal(number: float, kind: str) -> str:
    """Return a number as an LLVM literal; a real number as the bits of its `double` value."""
    if kind not in REAL:
        bits = BITS.get(kind, 1)
        return str((int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)) if bits > 1 else str(int(number))
    exact = struct.unpack("<f", struct.pack("<f", number))[0] if kind == "float" else float(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"


class Value:
    """The result of an instruction, a constant or an argument.

    Attributes:
        body: the function of the value.
        name: the name in the LLVM text.
        kind: the LLVM type.
    """

    __slots__ = ("body", "kind", "name")

    def __init__(self, body: Body, name: str, kind: str) -> None:
        self.body = body
        self.name = name
        self.kind = kind

    @property
    def is_real(self) -> bool:
        """Return `True` for a real number of either precision."""
        return self.kind in REAL

    def like(self, other: Operand) -> Value:
        """Return an operand as a value of this type."""
        return other if isinstance(other, Value) else self.body.constant(other, self.kind)

    def _operation(self, real: str, integer: str, other: Operand, *, turned: bool = False) -> Value:
        right = self.like(other)
        first, second = (right, self) if turned else (self, right)
        return self.body.emit(f"{real if self.is_real else integer} {self.kind} {first.name}, {second.name}", self.kind)

    def __add__(self, other: Operand) -> Value:
        return self._operation("fadd", "add", other)

    def __radd__(self, other: float) -> Value:
        return self._operation("fadd", "add", other, turned=True)

    def __sub__(self, other: Operand) -> Value:
        return self._operation("fsub", "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._operation("fsub", "sub", other, turned=True)

    def __mul__(self, other: Operand) -> Value:
        return self._operation("fmul", "mul", other)

    def __rmul__(self, other: float) -> Value:
        return self._operation("fmul", "mul", other, turned=True)

    def __truediv__(self, other: Operand) -> Value:
        return self._operation("fdiv", "sdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._operation("fdiv", "sdiv", other, turned=True)

    def __neg__(self) -> Value:
        if self.is_real:
            return self.body.emit(f"fneg {self.kind} {self.name}", self.kind)
        return 0 - self

    def __and__(self, other: Operand) -> Value:
        return self._operation("", "and", other)

    def __or__(self, other: Operand) -> Value:
        return self._operation("", "or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._operation("", "xor", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.kind == "i1" else -1)

    def __lshift__(self, other: int) -> Value:
        return self._operation("", "shl", other)

    def __rshift__(self, other: int) -> Value:
        """Shift right logically: without AVX-512, arithmetic shifts of 64-bit integers are not vectorised."""
        return self._operation("", "lshr", other)

    def _comparison(self, real: str, integer: str, other: Operand) -> Value:
        how = f"fcmp {real}" if self.is_real else f"icmp {integer}"
        return self.body.emit(f"{how} {self.kind} {self.name}, {self.like(other).name}", "i1")

    def __lt__(self, other: Operand) -> Value:
        return self._comparison("olt", "slt", other)

    def __le__(self, other: Operand) -> Value:
        return self._comparison("ole", "sle", other)

    def __gt__(self, other: Operand) -> Value:
        return self._comparison("ogt", "sgt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._comparison("oge", "sge", other)

    def equals(self, other: Operand) -> Value:
        """Return the comparison for equality; `==` remains Python's."""
        return self._comparison("oeq", "eq", other)

    def is_nan(self) -> Value:
        """Return the test for NaN."""
        return self._comparison("uno", "", self)

    @property
    def is_spare(self) -> bool:
        """Return `True` if the value is float64 but the result will be rounded to float32."""
        return self.body.short and self.kind == "double"

    @property
    def bits(self) -> Value:
        """The bits of a real number as an integer."""
        kind = REAL[self.kind]
        return self.body.emit(f"bitcast {self.kind} {self.name} to {kind}", kind)

    @property
    def real(self) -> Value:
        """The real number with these bits."""
        kind = {"i64": "double", "i32": "float"}[self.kind]
        return self.body.emit(f"bitcast {self.kind} {self.name} to {kind}", kind)

    def widened(self) -> Value:
        """Convert to float64."""
        return self.body.emit(f"fpext float {self.name} to double", "double")

    def narrowed(self) -> Value:
        """Round to float32."""
        return self.body.emit(f"fptrunc double {self.name} to float", "float")

    def __abs__(self) -> Value:
        return self.body.call("fabs", self)

    def sqrt(self) -> Value:
        """Return the correctly rounded square root."""
        return self.body.call("sqrt", self)

    def with_sign_of(self, other: Operand) -> Value:
        """Return the magnitude of this value with the sign of another."""
        return self.body.call("copysign", self, self.like(other))

    def at(self, table: str, length: int) -> Value:
        """Load the element of a table at this index."""
        where_ = self.body.emit(f"getelementptr [{length} x double], ptr {table}, i64 0, i64 {self.name}", "ptr")
        return self.body.emit(f"load double, ptr {where_.name}", "double")


Operand: TypeAlias = Value | float


def where(condition: Value, true: Operand, false: Operand) -> Value:
    """Select one of two values; both are computed."""
    if isinstance(true, Value):
        first, second = true, true.like(false)
    else:
        assert isinstance(false, Value)
        first, second = false.like(true), false
    text = f"select i1 {condition.name}, {first.kind} {first.name}, {second.kind} {second.name}"
    return condition.body.emit(text, first.kind)


def fused(a: Value, b: Operand, c: Operand) -> Value:
    """Return `a b + c`, rounded once if the processor has a fast fused multiply-add, else twice."""
    return a.body.call("fmuladd", a, a.like(b), a.like(c))


def larger(a: Value, b: Operand) -> Value:
    """Return the larger of two values; NaN if `a` is NaN."""
    return where(a < b, a.like(b), a)


def smaller(a: Value, b: Operand) -> Value:
    """Return the smaller of two values; NaN if `a` is NaN."""
    return where(a > b, a.like(b), a)
