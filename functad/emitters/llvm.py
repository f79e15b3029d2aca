"""The text of functions of the loop IR in LLVM's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functad.loops.ir import (
    FUNCTIONS,
    REALS,
    Allocate,
    Barrier,
    Block,
    Call,
    For,
    Function,
    If,
    Leave,
    Load,
    Loop,
    Node,
    Op,
    Store,
    Table,
    is_name,
    literal,
)

SUFFIX = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32"}
"""The type suffixes in the names of intrinsics."""

_OF_REALS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem", "neg": "fneg"}
_OF_INTEGERS = {"div": "sdiv", "rem": "srem"}
_REAL_COMPARISONS = {
    "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une", "unordered": "uno",
}  # fmt: skip
_INTEGER_COMPARISONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_WIDTHS = {"i1": 1, "i8": 8, "i32": 32, "i64": 64}

_INLINE = {"": "", "always": " alwaysinline", "never": " noinline"}

BARRIER = 'call void asm sideeffect "", "~{memory}"()'


class Text:
    """The text of one function.

    Args:
        function: the function.

    Attributes:
        lines: the lines of the body.
        needs: the declarations of the functions that the function calls, by symbol.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = ["entry:"]
        self.needs: dict[str, str] = {}
        self._block = "entry"
        self._count = 0
        self._body(function.body)

    def __str__(self) -> str:
        function = self.function
        apart = " noalias" if function.local else ""
        given = ", ".join(f"{kind}{apart if kind == 'ptr' else ''} {name}" for kind, name in function.parameters)
        kind, value = function.result or ("void", "")
        local = "internal " if function.local else ""
        head = f"define {local}{kind} {function.name}({given}){_INLINE[function.inline]} nounwind"
        return "\n".join([f"{head} {{", *self.lines, f"  ret {kind} {value}".rstrip(), "}"])

    def _do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def _start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self._block = label

    def _own(self, stem: str) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{stem}.{self._count}"

    def _body(self, body: Sequence[Node]) -> None:
        for node in body:
            if isinstance(node, Op):
                self._do(f"{node.result} = {self._operation(node)}")
            elif isinstance(node, Load):
                self._load(node)
            elif isinstance(node, Store):
                self._store(node)
            elif isinstance(node, Allocate):
                self._do(f"{node.result} = alloca {_stored(node.kind)}, i64 {node.length}, align 64")
            elif isinstance(node, Call):
                self._call(node)
            elif isinstance(node, For):
                self._for(node)
            elif isinstance(node, If):
                self._if(node)
            elif isinstance(node, (Block, Loop)):
                self._region(node)
            elif isinstance(node, Leave):
                self._leave(node)
            else:
                assert isinstance(node, Barrier)
                self._do(BARRIER)

    def _call(self, node: Call) -> None:
        operands = ", ".join(f"{kind} {operand}" for kind, operand in node.operands)
        result = f"{node.result} = " if node.result else ""
        self._do(f"{result}call {node.kind} {node.function}({operands}){_INLINE[node.inline]}")
        if node.function not in self.needs:
            kinds = ", ".join([kind for kind, _ in node.operands])
            effects = " willreturn memory(none)" if node.pure else ""
            self.needs[node.function] = f"declare {node.kind} {node.function}({kinds}) nounwind{effects}"

    def _operation(self, node: Op) -> str:
        """Return the instruction of an operation."""
        name, kind, of, operands = node.name, node.kind, node.of, node.operands
        loose = f" {node.loose}" if node.loose else ""
        if name in FUNCTIONS:
            symbol = f"@llvm.{name}.{SUFFIX[kind]}"
            self.needs[symbol] = f"declare {kind} {symbol}({', '.join([kind] * len(operands))})"
            return f"call {kind} {symbol}({', '.join(f'{kind} {x}' for x in operands)})"
        if name == "select":
            condition, first, second = operands
            return f"select i1 {condition}, {kind} {first}, {kind} {second}"
        if name == "address":
            return f"getelementptr {_stored(of)}, ptr {operands[0]}, i64 {operands[1]}"
        if name in _REAL_COMPARISONS:
            how = f"fcmp {_REAL_COMPARISONS[name]}" if of in REALS else f"icmp {_INTEGER_COMPARISONS[name]}"
            return f"{how} {of} {operands[0]}, {operands[1]}"
        if name == "convert":
            return f"{_conversion(of, kind)} {of} {operands[0]} to {kind}"
        if name in ("bits", "real"):
            return f"bitcast {of} {operands[0]} to {kind}"
        if name == "copy":
            return f"add {kind} {operands[0]}, 0"
        own = (_OF_REALS if kind in REALS else _OF_INTEGERS).get(name, name)
        return f"{own}{loose} {kind} {', '.join(operands)}"

    def _place(self, kind: str, buffer: str, position: str, stem: str) -> str:
        """Return the address of an element."""
        if position == "0":
            return buffer
        self._do(f"{stem} = getelementptr {_stored(kind)}, ptr {buffer}, i64 {position}")
        return stem

    def _load(self, node: Load) -> None:
        place = self._place(node.kind, node.buffer, node.position, f"{node.result}.place")
        if node.kind == "i1":
            self._do(f"{node.result}.byte = load i8, ptr {place}")
            self._do(f"{node.result} = icmp ne i8 {node.result}.byte, 0")
        else:
            self._do(f"{node.result} = load {node.kind}, ptr {place}")

    def _store(self, node: Store) -> None:
        own = self._own("%s") if node.position != "0" or node.kind == "i1" else ""
        place = self._place(node.kind, node.buffer, node.position, f"{own}.place")
        kind, value = node.kind, node.value
        if kind == "i1":
            kind = "i8"
            if is_name(value):
                self._do(f"{own}.byte = zext i1 {value} to i8")
                value = f"{own}.byte"
        self._do(f"store {kind} {value}, ptr {place}")

    def _for(self, node: For) -> None:
        index, stem = node.variable, node.variable[1:]
        self._do(f"br label %{stem}.head")
        before = self._block
        self._start(f"{stem}.head")
        self._do(f"{index} = phi i64 [ {node.first}, %{before} ], [ {index}.next, %{stem}.latch ]")
        self._do(f"{index}.more = icmp {'ne' if node.counted else 'slt'} i64 {index}, {node.stop}")
        self._do(f"br i1 {index}.more, label %{stem}.body, label %{stem}.done")
        self._start(f"{stem}.body")
        self._body(node.body)
        self._do(f"br label %{stem}.latch")
        self._start(f"{stem}.latch")
        self._do(f"{index}.next = add nsw i64 {index}, {node.step}")
        self._do(f"br label %{stem}.head{', !llvm.loop !0' if node.masked else ''}")
        self._start(f"{stem}.done")

    def _if(self, node: If) -> None:
        stem = self._own("if")
        self._do(f"br i1 {node.condition}, label %{stem}.then, label %{stem}.done")
        self._start(f"{stem}.then")
        self._body(node.body)
        self._do(f"br label %{stem}.done")
        self._start(f"{stem}.done")

    def _region(self, node: Block | Loop) -> None:
        """Write a block or a loop: `Leave` jumps to its end."""
        if isinstance(node, Loop):
            self._do(f"br label %{node.label}.again")
            self._start(f"{node.label}.again")
        self._body(node.body)
        self._do(f"br label %{node.label}.{'again' if isinstance(node, Loop) else 'end'}")
        self._start(f"{node.label}.end")

    def _leave(self, node: Leave) -> None:
        go = self._own("go")
        if node.condition:
            self._do(f"br i1 {node.condition}, label %{node.label}.end, label %{go}")
        else:
            self._do(f"br label %{node.label}.end")
        self._start(go)


def joined(texts: Sequence[Text], tables: Sequence[Table] = (), support: Mapping[str, str] | None = None) -> str:
    """Return the text of a module: tables, declarations, and functions.

    Args:
        texts: the functions; equal ones are written once.
        tables: the tables that the functions read.
        support: the text of functions that are not in the loop IR, by symbol; those that are called are written.
    """
    found = {text.function.name: text for text in texts}
    needs = {symbol: line for text in found.values() for symbol, line in text.needs.items() if symbol not in found}
    lines = [_of_table(table) for table in dict.fromkeys(tables)]
    lines += [(support or {}).get(symbol, line) for symbol, line in needs.items()]
    return "\n".join([*lines, *map(str, found.values())])


def _of_table(table: Table) -> str:
    """Return the definition of a table."""
    kind = _stored(table.kind)
    entries = ", ".join(f"{kind} {literal(number, table.kind)}" for number in table.numbers)
    return f"{table.name} = internal unnamed_addr constant [{len(table.numbers)} x {kind}] [{entries}], align 64"


def _stored(kind: str) -> str:
    """Return the type of an element in memory: a byte for a boolean."""
    return "i8" if kind == "i1" else kind


def _conversion(of: str, kind: str) -> str:
    """Return the instruction that converts a number to another type."""
    if of in REALS and kind in REALS:
        return "fpext" if kind == "double" else "fptrunc"
    if kind in REALS:
        return "uitofp" if of == "i1" else "sitofp"
    if of in REALS:
        return "fptosi"
    if _WIDTHS[kind] < _WIDTHS[of]:
        return "trunc"
    return "zext" if of == "i1" else "sext"
