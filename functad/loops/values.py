"""Operations of the loop IR, written with Python operators on values.

`a * b + c` appends two operations to the function of `a`. There are no branches: `where` selects. Equal operations are appended
once. The types are `double`, `float`, `i64`, `i32`, and `i1` for booleans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from functad.loops.ir import Load, Node, Op, Table, literal

REAL = {"double": "i64", "float": "i32"}
"""The types of real numbers, and the integer types of the same width."""

BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32}


class Body:
    """The nodes of one function, in order.

    Attributes:
        fused: `True` if the processor has a fused multiply-add instruction.
        short: `True` if polynomials need only the precision of float32.
        nodes: the nodes of the body that is being written.
        tables: the tables that the function reads, by name.
    """

    __slots__ = ("_count", "_known", "fused", "nodes", "short", "tables")

    def __init__(self, *, fused: bool, short: bool = False) -> None:
        self.fused = fused
        self.short = short
        self.nodes: list[Node] = []
        self.tables: dict[str, Table] = {}
        self._known: dict[Any, Value] = {}
        self._count = 0

    def fresh(self, kind: str) -> Value:
        """Return a value with a new name; the caller appends the node that defines it."""
        self._count += 1
        return Value(self, f"%v{self._count}", kind)

    def emit(self, name: str, kind: str, *operands: Value, of: str | None = None, loose: str = "") -> Value:
        """Return the result of an operation; append it unless the function already contains it.

        Args:
            name: the operation.
            kind: the type of the result.
            operands: the operands.
            of: the type of the operands; by default the type of the last one.
            loose: as in `Op`.
        """
        key = name, kind, operands[-1].kind if of is None else of, tuple([x.name for x in operands]), loose
        known = self._known.get(key)
        if known is None:
            known = self.keep(key, self.fresh(kind))
            self.nodes.append(Op(known.name, *key))
        return known

    def keep(self, key: Any, value: Value) -> Value:
        """Keep a value as the result of the operation `key`."""
        self._known[key] = value
        return value

    def constant(self, number: float, kind: str) -> Value:
        """Return a constant of a type."""
        return Value(self, literal(number, kind), kind)

    def call(self, name: str, *arguments: Value) -> Value:
        """Return the result of a function that processors compute in one instruction."""
        return self.emit(name, arguments[0].kind, *arguments)

    def table(self, name: str, numbers: Sequence[float]) -> str:
        """Add a table of float64 numbers, and return its symbol."""
        self.tables[f"@{name}"] = Table(f"@{name}", "double", tuple(numbers))
        return f"@{name}"

    def element(self, table: str, index: Value) -> Value:
        """Return an element of a table of float64 numbers."""
        key = table, index.name
        known = self._known.get(key)
        if known is None:
            known = self.keep(key, self.fresh("double"))
            self.nodes.append(Load(known.name, "double", table, index.name))
        return known


class Value:
    """The result of an instruction, a constant or an argument.

    Attributes:
        body: the function of the value.
        name: the name, or the literal of a constant.
        kind: the type.
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

    def _operation(self, name: str, other: Operand, *, turned: bool = False) -> Value:
        right = self.like(other)
        return self.body.emit(name, self.kind, *((right, self) if turned else (self, right)))

    def __add__(self, other: Operand) -> Value:
        return self._operation("add", other)

    def __radd__(self, other: float) -> Value:
        return self._operation("add", other, turned=True)

    def __sub__(self, other: Operand) -> Value:
        return self._operation("sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._operation("sub", other, turned=True)

    def __mul__(self, other: Operand) -> Value:
        return self._operation("mul", other)

    def __rmul__(self, other: float) -> Value:
        return self._operation("mul", other, turned=True)

    def __truediv__(self, other: Operand) -> Value:
        return self._operation("div", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._operation("div", other, turned=True)

    def __neg__(self) -> Value:
        if self.is_real:
            return self.body.emit("neg", self.kind, self)
        return 0 - self

    def __and__(self, other: Operand) -> Value:
        return self._operation("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._operation("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._operation("xor", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.kind == "i1" else -1)

    def __lshift__(self, other: int) -> Value:
        return self._operation("shl", other)

    def __rshift__(self, other: int) -> Value:
        """Shift right logically: without AVX-512, arithmetic shifts of 64-bit integers are not vectorised."""
        return self._operation("lshr", other)

    def _comparison(self, name: str, other: Operand) -> Value:
        return self.body.emit(name, "i1", self, self.like(other), of=self.kind)

    def __lt__(self, other: Operand) -> Value:
        return self._comparison("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._comparison("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._comparison("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._comparison("ge", other)

    def equals(self, other: Operand) -> Value:
        """Return the comparison for equality; `==` remains Python's."""
        return self._comparison("eq", other)

    def is_nan(self) -> Value:
        """Return the test for NaN."""
        return self._comparison("unordered", self)

    @property
    def is_spare(self) -> bool:
        """Return `True` if the value is float64 but the result will be rounded to float32."""
        return self.body.short and self.kind == "double"

    @property
    def bits(self) -> Value:
        """The bits of a real number as an integer."""
        return self.body.emit("bits", REAL[self.kind], self)

    @property
    def real(self) -> Value:
        """The real number with these bits."""
        return self.body.emit("real", {"i64": "double", "i32": "float"}[self.kind], self)

    def widened(self) -> Value:
        """Convert to float64."""
        return self.body.emit("convert", "double", self)

    def narrowed(self) -> Value:
        """Round to float32."""
        return self.body.emit("convert", "float", self)

    def __abs__(self) -> Value:
        return self.body.call("fabs", self)

    def sqrt(self) -> Value:
        """Return the correctly rounded square root."""
        return self.body.call("sqrt", self)

    def with_sign_of(self, other: Operand) -> Value:
        """Return the magnitude of this value with the sign of another."""
        return self.body.call("copysign", self, self.like(other))


Operand: TypeAlias = Value | float


def where(condition: Value, true: Operand, false: Operand) -> Value:
    """Select one of two values; both are computed."""
    if isinstance(true, Value):
        first, second = true, true.like(false)
    else:
        assert isinstance(false, Value)
        first, second = false.like(true), false
    return condition.body.emit("select", first.kind, condition, first, second)


def fused(a: Value, b: Operand, c: Operand) -> Value:
    """Return `a b + c`, rounded once if the processor has a fast fused multiply-add, else twice."""
    return a.body.call("fmuladd", a, a.like(b), a.like(c))


def larger(a: Value, b: Operand) -> Value:
    """Return the larger of two values; NaN if `a` is NaN."""
    return where(a < b, a.like(b), a)


def smaller(a: Value, b: Operand) -> Value:
    """Return the smaller of two values; NaN if `a` is NaN."""
    return where(a > b, a.like(b), a)
