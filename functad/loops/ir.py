"""The nodes of the loop IR, their text, and their check.

A `Function` has parameters and a body: a list of nodes that run in order. Nodes compute named values, read and write elements
of buffers, and hold the bodies of loops and branches. A name is defined once. A body may use the names that are defined before
it, in itself and in the bodies around it.

| node | meaning |
|---|---|
| `Op` | an operation on numbers or addresses |
| `Load`, `Store` | read or write an element of a buffer |
| `Reduce` | an element of a buffer that becomes the sum, product, ... of the values of all iterations of the nest |
| `Allocate` | a buffer on the stack |
| `Call` | a call of another function |
| `For` | a loop over an index; `vector` loops have no branches and no order of iterations except for sums |
| `If` | a branch |
| `Block`, `Loop` | a body that `Leave` may end; a `Loop` repeats its body until then |
| `Leave` | the end of an enclosing `Block` or `Loop`, under a condition |
| `Barrier` | loads and stores are not moved across it |

Operands are names, which begin with `%`, or literals. The literal of a real number is its bits as a float64 in hexadecimal
digits, so that no digit is lost. `i1`, `i32`, `i64`, `float`, `double` and `ptr` are the types.

A position in a buffer is computed by `add` and `mul` from loop indices and numbers. `affine` returns it as a sum of indices
with coefficients.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

REALS = ("double", "float")
"""The types of real numbers."""

ARITHMETIC = ("add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "urem")
"""Operations of two operands of the type of the result."""

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "unordered": "is NaN or"}
"""Comparisons of two operands of type `of`; the result is `i1`. All are false for NaN, except `ne` and `unordered`."""

FUNCTIONS = ("fabs", "sqrt", "copysign", "fma", "fmuladd", "floor", "ceil", "trunc", "nearbyint", "maximum", "minimum")
"""Functions of real numbers that processors compute in one instruction."""

CHANGES = ("convert", "bits", "real", "neg", "freeze", "copy")
"""Operations of one operand: to another type, to the bits and back, the negative, and the same value."""


REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
"""The reductions, by the names of NumPy's functions."""


class Op(NamedTuple):
    """An operation.

    Attributes:
        result: the name of the result.
        name: the operation.
        kind: the type of the result.
        of: the type of the operands.
        operands: names and literals.
        loose: the rewrites of real arithmetic that are allowed: `reassoc`, `contract`, `nsz`.
    """

    result: str
    name: str
    kind: str
    of: str
    operands: tuple[str, ...]
    loose: str = ""


class Load(NamedTuple):
    """The element of a buffer at a position, as a value of type `kind`. Every nonzero byte is a true `i1`."""

    result: str
    kind: str
    buffer: str
    position: str


class Store(NamedTuple):
    """A write of a value to the position of a buffer."""

    kind: str
    buffer: str
    position: str
    value: str


class Reduce(NamedTuple):
    """A value in a nest of loops, which is reduced over the iterations with the same position in a buffer.

    After the nest, the element of the buffer is the reduction of these values, in any order and with any grouping that keeps
    the error bounds of NumPy. `functad.loops.reductions` replaces the node by loads, operations and stores.

    Attributes:
        how: one of `REDUCTIONS`.
        kind: the type of the value and the element.
        buffer, position: as in `Store`.
        value: the value of the iteration.
    """

    how: str
    kind: str
    buffer: str
    position: str
    value: str


class Allocate(NamedTuple):
    """A buffer of `length` elements on the stack."""

    result: str
    kind: str
    length: int


class Call(NamedTuple):
    """A call of a function.

    Attributes:
        result: the name of the result; empty if there is none.
        kind: the type of the result, or `void`.
        function: the symbol of the function.
        operands: pairs of a type and a name or literal.
        pure: the result depends on the operands only, and the call has no other effect.
        inline: `always` or `never`; empty if the emitter decides.
    """

    result: str
    kind: str
    function: str
    operands: tuple[tuple[str, str], ...]
    pure: bool = False
    inline: str = ""


class For(NamedTuple):
    """A loop over an index, from `first` up to, but excluding, `stop`.

    Attributes:
        variable: the name of the index.
        first, stop: names or literals of type `i64`.
        step: the distance between indices.
        body: the nodes of an iteration.
        vector: iterations may run together in vector lanes.
        masked: a masked vector computes the remaining iterations of a `vector` loop.
        counted: the loop begins at 0, and its length is a multiple of several vectors.
    """

    variable: str
    first: str
    stop: str
    step: int
    body: tuple[Node, ...]
    vector: bool = False
    masked: bool = False
    counted: bool = False


class If(NamedTuple):
    """Nodes that run if a condition is true."""

    condition: str
    body: tuple[Node, ...]


class Block(NamedTuple):
    """Nodes that run once, until a `Leave` with the same label."""

    label: str
    body: tuple[Node, ...]


class Loop(NamedTuple):
    """Nodes that run again and again, until a `Leave` with the same label."""

    label: str
    body: tuple[Node, ...]


class Leave(NamedTuple):
    """The end of the enclosing block or loop `label`, if the condition is true; without a condition, always."""

    label: str
    condition: str = ""


class Barrier(NamedTuple):
    """A point that loads and stores are not moved across."""


Node: TypeAlias = Op | Load | Store | Reduce | Allocate | Call | For | If | Block | Loop | Leave | Barrier


class Table(NamedTuple):
    """A buffer of constant numbers of a type; its name is a symbol."""

    name: str
    kind: str
    numbers: tuple[float, ...]


class Function(NamedTuple):
    """A function.

    Attributes:
        name: the symbol.
        parameters: pairs of a type and a name.
        body: the nodes.
        result: the type and the name of the result; `None` if there is none.
        local: only functions of the same module call the function, with buffers that share no memory.
        inline: as in `Call`.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    body: tuple[Node, ...]
    result: tuple[str, str] | None = None
    local: bool = False
    inline: str = ""

    def __str__(self) -> str:
        given = ", ".join(f"{name[1:]}:{kind}" for kind, name in self.parameters)
        lines = [f"{self.name[1:]}({given}):", *_lines(self.body, "  ")]
        if self.result is not None:
            lines.append(f"  return {_shown(self.result[1], self.result[0])}")
        return "\n".join(lines)


def literal(number: float, kind: str) -> str:
    """Return the literal of a number of a type."""
    if kind in REALS:
        exact = struct.unpack("<f", struct.pack("<f", number))[0] if kind == "float" else float(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    bits = {"i64": 64, "i32": 32}.get(kind, 1)
    return str((int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)) if bits > 1 else str(int(number))


def number_of(text: str, kind: str) -> float:
    """Return the number of a literal."""
    if kind in REALS:
        return float(struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0])
    return int(text)


def is_name(operand: str) -> bool:
    """Return `True` for a name or the symbol of a table, `False` for a literal."""
    return operand[:1] in ("%", "@")


def walk(body: Sequence[Node]) -> Iterator[Node]:
    """Yield all nodes, those in bodies included, in order."""
    for node in body:
        yield node
        if isinstance(node, (For, If, Block, Loop)):
            yield from walk(node.body)


# Text


def _shown(operand: str, kind: str) -> str:
    """Return an operand as text for readers: a name without its sign, or a number."""
    if is_name(operand):
        return operand[1:]
    return repr(number_of(operand, kind)) if kind in REALS else operand


def _lines(body: Sequence[Node], indent: str) -> Iterator[str]:
    """Yield the lines of nodes."""
    for node in body:
        if isinstance(node, For):
            step = f" step {node.step}" if node.step != 1 else ""
            how = ", vector" if node.vector else ""
            yield f"{indent}for {node.variable[1:]} in {_shown(node.first, 'i64')}..{_shown(node.stop, 'i64')}{step}{how}:"
        elif isinstance(node, If):
            yield f"{indent}if {_shown(node.condition, 'i1')}:"
        elif isinstance(node, (Block, Loop)):
            yield f"{indent}{'block' if isinstance(node, Block) else 'loop'} {node.label}:"
        else:
            yield indent + _line(node)
            continue
        yield from _lines(node.body, indent + "  ")


def _line(node: Node) -> str:
    """Return the text of a node without a body."""
    if isinstance(node, Op):
        operands = [_shown(operand, node.of) for operand in node.operands]
        if node.name == "select":
            operands[0] = _shown(node.operands[0], "i1")
        loose = f" ({node.loose})" if node.loose else ""
        return f"{node.result[1:]}:{node.kind} = {node.name} {', '.join(operands)}{loose}"
    if isinstance(node, Load):
        return f"{node.result[1:]}:{node.kind} = {_shown(node.buffer, 'ptr')}[{_shown(node.position, 'i64')}]"
    if isinstance(node, Store):
        return f"{_shown(node.buffer, 'ptr')}[{_shown(node.position, 'i64')}] = {_shown(node.value, node.kind)}:{node.kind}"
    if isinstance(node, Reduce):
        target = f"{_shown(node.buffer, 'ptr')}[{_shown(node.position, 'i64')}]"
        return f"{target} = {node.how} of {_shown(node.value, node.kind)}:{node.kind}"
    if isinstance(node, Allocate):
        return f"{node.result[1:]}:ptr = {node.length} x {node.kind} on the stack"
    if isinstance(node, Call):
        call = f"{node.function[1:]}({', '.join(_shown(operand, kind) for kind, operand in node.operands)})"
        return f"{node.result[1:]}:{node.kind} = {call}" if node.result else call
    if isinstance(node, Leave):
        return f"leave {node.label}" + (f" if {_shown(node.condition, 'i1')}" if node.condition else "")
    return "barrier"


# Checks and analysis


class MalformedError(ValueError):
    """The error for a function that breaks a rule of the loop IR."""


def check(function: Function) -> None:
    """Check the rules of the loop IR.

    Raises:
        MalformedError: a name is used before its definition or defined twice, an operation has the wrong number or type of
            operands, or a `Leave` names no enclosing body. The message shows the node.
    """
    kinds = {name: kind for kind, name in function.parameters}
    every = set(kinds)

    def used(name: str, kind: str, node: Node, known: dict[str, str]) -> None:
        if name.startswith("%") and known.get(name) != kind:
            found = f"is of type {known[name]}" if name in known else "is not defined here"
            raise MalformedError(f"{function.name}: {name} of type {kind} {found}: {_line(node)}")

    def visit(body: Sequence[Node], known: dict[str, str], labels: tuple[str, ...]) -> None:
        for node in body:
            for kind, name in operands_of(node):
                used(name, kind, node, known)
            if isinstance(node, Leave) and node.label not in labels:
                raise MalformedError(f"{function.name}: no body {node.label} around: {_line(node)}")
            if isinstance(node, Op):
                _check_count(function, node)
            if isinstance(node, Reduce) and node.how not in REDUCTIONS:
                raise MalformedError(f"{function.name}: no reduction {node.how}: {_line(node)}")
            made = result_of(node)
            if made is not None:
                kind, name = made
                if name in every:
                    raise MalformedError(f"{function.name}: {name} is defined twice")
                every.add(name)
            if isinstance(node, (For, If, Block, Loop)):
                inner = dict(known) if made is None else {**known, made[1]: made[0]}
                visit(node.body, inner, (*labels, node.label) if isinstance(node, (Block, Loop)) else labels)
            elif made is not None:
                known[made[1]] = made[0]

    visit(function.body, kinds, ())


def _check_count(function: Function, node: Op) -> None:
    """Check the name of an operation and the number of its operands."""
    count = len(node.operands)
    if node.name in ARITHMETIC or node.name in COMPARISONS or node.name == "address":
        right = count == 2
    elif node.name in FUNCTIONS:
        right = count == {"copysign": 2, "maximum": 2, "minimum": 2, "fma": 3, "fmuladd": 3}.get(node.name, 1)
    else:
        right = (node.name in CHANGES and count == 1) or (node.name == "select" and count == 3)
    if not right:
        raise MalformedError(f"{function.name}: {node.name} does not take {count} operands: {_line(node)}")


def result_of(node: Node) -> tuple[str, str] | None:
    """Return the type and the name that a node defines, for a loop its index; `None` if it defines none."""
    if isinstance(node, (Op, Load)):
        return node.kind, node.result
    if isinstance(node, Allocate):
        return "ptr", node.result
    if isinstance(node, For):
        return "i64", node.variable
    return (node.kind, node.result) if isinstance(node, Call) and node.result else None


def operands_of(node: Node) -> list[tuple[str, str]]:
    """Return pairs of the type and the text of the operands of a node, without its body."""
    if isinstance(node, Op):
        if node.name == "select":
            return [("i1", node.operands[0]), *[(node.of, operand) for operand in node.operands[1:]]]
        if node.name == "address":
            return [("ptr", node.operands[0]), ("i64", node.operands[1])]
        return [(node.of, operand) for operand in node.operands]
    if isinstance(node, Load):
        return [("ptr", node.buffer), ("i64", node.position)]
    if isinstance(node, (Store, Reduce)):
        return [("ptr", node.buffer), ("i64", node.position), (node.kind, node.value)]
    if isinstance(node, Call):
        return list(node.operands)
    if isinstance(node, For):
        return [("i64", node.first), ("i64", node.stop)]
    if isinstance(node, If) or (isinstance(node, Leave) and node.condition):
        return [("i1", node.condition)]
    return []


def renamed(node: Node, names: dict[str, str], suffix: str) -> Node:
    """Return a node with other names for its operands, and a suffix for the names and labels that it defines.

    Args:
        node: the node.
        names: the new names. The names that the node defines are added.
        suffix: the suffix.
    """

    def new(name: str) -> str:
        names[name] = name + suffix
        return name + suffix

    def of(name: str) -> str:
        return names.get(name, name)

    if isinstance(node, Op):
        operands = tuple([names.get(name, name) for name in node.operands])
        return node._replace(result=new(node.result), operands=operands)
    if isinstance(node, Load):
        return node._replace(buffer=of(node.buffer), position=of(node.position), result=new(node.result))
    if isinstance(node, (Store, Reduce)):
        return node._replace(buffer=of(node.buffer), position=of(node.position), value=of(node.value))
    if isinstance(node, Call):
        operands_ = tuple([(kind, of(name)) for kind, name in node.operands])
        return node._replace(operands=operands_, result=new(node.result) if node.result else "")
    if isinstance(node, Allocate):
        return node._replace(result=new(node.result))
    if isinstance(node, Leave):
        return node._replace(label=of(node.label), condition=of(node.condition))
    if isinstance(node, Barrier):
        return node
    if isinstance(node, For):
        node = node._replace(first=of(node.first), stop=of(node.stop), variable=new(node.variable))
    elif isinstance(node, If):
        node = node._replace(condition=of(node.condition))
    else:
        node = node._replace(label=new(node.label))
    return node._replace(body=tuple([renamed(own, names, suffix) for own in node.body]))


def affine(position: str, made: dict[str, Op]) -> tuple[dict[str, int], int] | None:
    """Return a position as a sum of names with coefficients, and a number; `None` if it is not such a sum.

    Args:
        position: the name or literal of an `i64`.
        made: the operations by the name of their result. Names that are not in it, such as loop indices, are terms.
    """
    if not is_name(position):
        return {}, int(position)
    node = made.get(position)
    if node is None:
        return {position: 1}, 0
    if node.name not in ("add", "sub", "mul") or node.kind != "i64":
        return {position: 1}, 0
    first, second = [affine(operand, made) for operand in node.operands]
    if first is None or second is None:
        return None
    (one, own), (other, number) = first, second
    if node.name == "mul":
        if one and other:
            return None
        terms, factor = (one, number) if one else (other, own)
        return {name: n * factor for name, n in terms.items() if n * factor}, own * number
    sign = -1 if node.name == "sub" else 1
    total = dict(one)
    for name, n in other.items():
        total[name] = total.get(name, 0) + sign * n
    return {name: n for name, n in total.items() if n}, own + sign * number
