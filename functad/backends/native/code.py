"""The instructions of one native function: blocks, loops, memory and calls, on top of the formulas of `Body`.

A value computed in a loop is valid only there, so each remembered value belongs to a scope. A value of the enclosing function
becomes an argument of the kernel at its first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.backends.llvm.elementary import ELEMENTARY, Definition, declared, definition
from functad.backends.llvm.values import Body, Value, where

KINDS: dict[np.dtype[Any], str] = {
    np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.bool_): "i1",
}
"""The LLVM types of the dtypes that native code supports."""

SIZES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i1": 1}
"""Bytes of an element."""

REALS = ("double", "float")

MOST_TOUCHED = 200
"""A barrier follows this many loads and stores: LLVM compares each with all earlier ones, in quadratic time."""

Index = Value | int
"""A position along an axis or in memory: an `int` if it is known at compile time, else a `Value`."""


class Code(Body):
    """The instructions of a native function.

    Attributes:
        outer: the function that calls this one. This function may use its values.
        loops: the number of enclosing loops that LLVM may vectorise.
        long_functions: the number of long functions inlined so far.
        allocations: the lines at the entry that reserve stack memory.
        reserved: the bytes of stack memory used by arrays.
        captured: the parameters for values of the outer function, by their names there.
        definitions: the inlined elementary functions, and the declarations of the called ones.
        called: the name and type of the called elementary functions, by symbol. They are compiled once for all modules.
        quick: `True` if elementary functions may use formulas that are invalid for rare arguments.
        rare: the flag on the stack that records a rare argument.
        refused: the address of the flags for the caller of the outermost function: NumPy must compute the list, or a signal
            handler raised, or memory is exhausted.
        refuses: `True` if code in the outermost function sets the first flag.
        looks: `True` if code in the outermost function sets another flag.
        returned: the type and name of the result of the function.
    """

    __slots__ = (
        "_journal", "_labels", "_touched", "allocations", "block", "called", "captured", "definitions", "long_functions",
        "looks", "loops", "outer", "quick", "rare", "refused", "refuses", "remembered", "reserved", "returned",
    )  # fmt: skip

    def __init__(self, *, fused: bool, outer: Code | None = None) -> None:
        super().__init__(fused=fused)
        self.outer = outer
        self.loops = 0
        self.long_functions = 0
        self.block = "entry"
        self.allocations: list[str] = []
        self.reserved = 0
        self.captured: dict[str, Value] = {}
        self.definitions: dict[str, Definition] = {} if outer is None else outer.definitions
        self.called: dict[str, tuple[str, str]] = {} if outer is None else outer.called
        self.quick = False
        self.rare: Value | None = None
        self.refused: Value | None = None
        self.refuses = self.looks = False
        self.remembered: dict[Any, Any] = {}
        self._journal: list[list[Any]] = [[]]
        self._labels = self._touched = 0
        self.returned = "void"

    # Instructions

    def emit(self, instruction: str, kind: str) -> Value:
        """Return the result of an instruction; append it unless the scope already contains it."""
        known = self._known.get(instruction)
        if known is None:
            known = self._known[instruction] = self.fresh(instruction, kind)
            self._journal[-1].append(instruction)
        return known

    def fresh(self, instruction: str, kind: str) -> Value:
        """Append an instruction that may give another result each time, such as a load."""
        value = Value(self, f"%v{len(self.lines)}", kind)
        self.lines.append(f"  {value.name} = {instruction}")
        return value

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def remember(self, key: Any, value: Any) -> Any:
        """Store `value` under `key` until the scope ends, and return it."""
        self.remembered[key] = value
        self._journal[-1].append(key)
        return value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a scope: values computed inside are forgotten at its end."""
        self._journal.append([])
        try:
            yield
        finally:
            for key in self._journal.pop():
                self._known.pop(key, None)
                self.remembered.pop(key, None)

    # Values

    def own(self, value: Value) -> Value:
        """Return a value as a value of this function; capture values of the outer function."""
        if value.body is self or not value.name.startswith("%"):
            return Value(self, value.name, value.kind)
        assert self.outer is not None
        given = self.outer.own(value)
        known = self.captured.get(given.name)
        if known is None:
            known = self.captured[given.name] = Value(self, f"%c{len(self.captured)}", given.kind)
        return known

    def cast(self, x: Value, kind: str) -> Value:
        """Convert a number to another type by NumPy's rules."""
        if x.kind == kind:
            return x
        if kind == "i1":
            return ~x.equals(0.0 if x.is_real else 0)
        if x.kind == "i1":
            return self.emit(f"{'uitofp' if kind in REALS else 'zext'} i1 {x.name} to {kind}", kind)
        if x.is_real and kind in REALS:
            return x.widened() if kind == "double" else x.narrowed()
        if kind in REALS:
            return self.emit(f"sitofp {x.kind} {x.name} to {kind}", kind)
        if x.is_real:
            return self._whole(x, kind)
        return self.emit(f"{'sext' if kind == 'i64' else 'trunc'} {x.kind} {x.name} to {kind}", kind)

    def _whole(self, x: Value, kind: str) -> Value:
        """Truncate to an integer; numbers out of range give the least integer, as on Intel processors."""
        limit = 2.0 ** (63 if kind == "i64" else 31)
        fits = (x >= -limit) & (x < limit)
        found = self.emit(f"fptosi {x.kind} {where(fits, x, 0.0).name} to {kind}", kind)
        return where(fits, found, -int(limit))

    def function(self, name: str, *arguments: Value) -> Value:
        """Call an elementary function on real numbers of one type."""
        kind = arguments[0].kind
        row = ELEMENTARY[name]
        given = ", ".join(f"{kind} {x.name}" for x in arguments)
        if not self.loops and not row.brief:
            parts = [declared(name, kind)]
            self.called[parts[0].symbol] = name, kind
        elif row.quick is not None and self.quick:
            beyond = definition(name, kind, fused=self.fused, form="beyond")
            self.definitions[beyond.symbol] = beyond
            self.long_functions += 1
            self._note_rare(self.emit(f"call i1 {beyond.symbol}({given})", "i1"))
            parts = [definition(name, kind, fused=self.fused, form="quick")]
        else:
            parts = [definition(name, kind, fused=self.fused)]
            self.long_functions += not row.brief
        for part in parts:
            self.definitions[part.symbol] = part
        return self.emit(f"call {kind} {parts[-1].symbol}({given})", kind)

    def _note_rare(self, found: Value) -> None:
        if self.rare is None:
            self.rare = self.allocate("i1", 1)
        self.store(self.rare, 0, self.load(self.rare, 0, "i1") | found)

    def refuse(self, found: Value) -> None:
        """Set the flag that NumPy must compute the list, or raise the error for its arguments, if `found` is true."""
        pointer = self.note()
        self.store(pointer, 0, self.load(pointer, 0, "i1") | found)

    def note(self, *, looks: bool = False) -> Value:
        """Return the address of the flags that report why there are no results.

        Args:
            looks: the flag reports the exception of a signal handler, or a lack of memory.
        """
        outermost = self
        while outermost.outer is not None:
            outermost = outermost.outer
        if outermost.refused is None:
            outermost.refused = Value(outermost, "%refused.data", "ptr")
        outermost.looks |= looks
        outermost.refuses |= not looks
        return self.own(outermost.refused)

    # Memory

    def allocate(self, kind: str, count: int) -> Value:
        """Reserve stack memory at the entry of the function, outside all loops."""
        name = f"%m{len(self.allocations)}"
        stored = "i8" if kind == "i1" else kind
        self.allocations.append(f"  {name} = alloca {stored}, i64 {count}, align 64")
        return Value(self, name, "ptr")

    def place(self, pointer: Value, index: Index, kind: str) -> Value:
        """Return the address of an element."""
        position = index.name if isinstance(index, Value) else index
        if type(position) is int and position == 0:
            return pointer
        stored = "i8" if kind == "i1" else kind
        return self.emit(f"getelementptr {stored}, ptr {pointer.name}, i64 {position}", "ptr")

    def load(self, pointer: Value, index: Index, kind: str) -> Value:
        """Load an element. As in NumPy, every nonzero byte of a boolean array is true."""
        self._touch()
        where_ = self.place(pointer, index, kind).name
        if kind == "i1":
            return self.emit(f"icmp ne i8 {self.fresh(f'load i8, ptr {where_}', 'i8').name}, 0", "i1")
        return self.fresh(f"load {kind}, ptr {where_}", kind)

    def store(self, pointer: Value, index: Index, value: Value) -> None:
        """Store an element."""
        self._touch()
        where_ = self.place(pointer, index, value.kind).name
        if value.kind == "i1":
            self.do(f"store i8 {self.emit(f'zext i1 {value.name} to i8', 'i8').name}, ptr {where_}")
        else:
            self.do(f"store {value.kind} {value.name}, ptr {where_}")

    def _touch(self) -> None:
        """Count the loads and stores of a block; emit a barrier after `MOST_TOUCHED`."""
        self._touched += 1
        if self._touched > MOST_TOUCHED and not self.loops:
            self.do('call void asm sideeffect "", "~{memory}"()')
            self._touched = 0

    # Integers that may be known at compile time

    def integer(self, index: Index) -> Value:
        """Return an index as a value."""
        return index if isinstance(index, Value) else self.constant(index, "i64")

    def linear(self, indices: Sequence[Index], strides: Sequence[int], offset: Index = 0) -> Index:
        """Return `offset + sum(index * stride)`; known terms are folded."""
        known, terms = 0, []
        if isinstance(offset, Value):
            terms.append(self.own(offset))
        else:
            known = offset
        for index, stride in zip(indices, strides, strict=True):
            if isinstance(index, Value):
                if stride:
                    terms.append(index if stride == 1 else index * stride)
            else:
                known += index * stride
        if not terms:
            return known
        total = terms[0] if not known else terms[0] + known
        for term in terms[1:]:
            total = total + term
        return total

    # Control flow

    def new_label(self, name: str) -> str:
        """Return an unused label."""
        self._labels += 1
        return f"{name}{self._labels}"

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.block = label
        self._touched = 0

    @contextmanager
    def loop(
        self, first: Index, stop: Index, *, step: int = 1, straight: bool = False, counted: bool = False
    ) -> Iterator[Value]:
        """Write the code inside as a loop over the indices from `first` up to, but excluding, `stop`.

        Args:
            first: the first index.
            stop: the end, which is excluded.
            step: the distance between indices.
            straight: the body has no branches, so LLVM may vectorise it. If the body calls long functions, a masked vector
                computes the remaining elements, instead of a second, scalar copy of the body.
            counted: the loop begins at 0 and its length is a multiple of several vectors.
        """
        head, body, latch, done = (self.new_label(name) for name in ("head", "body", "latch", "done"))
        before, first, stop = self.block, self.integer(first), self.integer(stop)
        self.do(f"br label %{head}")
        self.start(head)
        index = Value(self, f"%i{self._labels}", "i64")
        self.do(f"{index.name} = phi i64 [ {first.name}, %{before} ], [ {index.name}.next, %{latch} ]")
        self.do(f"{index.name}.more = icmp {'ne' if counted else 'slt'} i64 {index.name}, {stop.name}")
        self.do(f"br i1 {index.name}.more, label %{body}, label %{done}")
        self.start(body)
        self.loops += straight
        functions = self.long_functions
        with self.scope():
            yield index
        self.loops -= straight
        self.do(f"br label %{latch}")
        self.start(latch)
        self.do(f"{index.name}.next = add nsw i64 {index.name}, {step}")
        whole = straight and not counted and self.long_functions > functions
        self.do(f"br label %{head}{', !llvm.loop !0' if whole else ''}")
        self.start(done)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the code inside only if `condition` is true."""
        body, done = self.new_label("then"), self.new_label("done")
        self.do(f"br i1 {condition.name}, label %{body}, label %{done}")
        self.start(body)
        with self.scope():
            yield
        self.do(f"br label %{done}")
        self.start(done)

    def text(self, head: str) -> str:
        """Return the text of the whole function. `head` declares its name and parameters."""
        return "\n".join([f"{head} {{", "entry:", *self.allocations, *self.lines, f"  ret {self.returned}", "}"])
