"""The builder of a function of the loop IR: loops, branches, memory and calls, on top of the operations of `Body`.

A value computed in a loop is valid only there, so each remembered value belongs to a scope. A value of the enclosing function
becomes an argument of the kernel at its first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.loops.elementary.table import ELEMENTARY, Definition, called_symbol, definition
from functad.loops.ir import REALS, Allocate, Barrier, Block, Call, For, Function, If, Leave, Load, Loop, Node, Reduce, Store
from functad.loops.values import Body, Value, where

KINDS: dict[np.dtype[Any], str] = {
    np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.bool_): "i1",
}
"""The types of the dtypes that native code supports."""

SIZES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i1": 1}
"""Bytes of an element."""

MOST_TOUCHED = 200
"""A barrier follows this many loads and stores: LLVM compares each with all earlier ones, in quadratic time."""

Index = Value | int
"""A position along an axis or in memory: an `int` if it is known at compile time, else a `Value`."""


class Code(Body):
    """The builder of a function.

    Attributes:
        outer: the function that calls this one. This function may use its values.
        vectors: the number of enclosing loops that may run in vector lanes.
        long_functions: the number of long functions inlined so far.
        entry: the nodes at the start of the function, which reserve stack memory and read arguments.
        reserved: the bytes of stack memory used by arrays.
        captured: the parameters for values of the outer function, by their names there.
        definitions: the inlined elementary functions, by symbol.
        called: the name and type of the called elementary functions, by symbol. They are compiled once for all modules.
        refused: the address of the flags for the caller of the outermost function: NumPy must compute the list, or a signal
            handler raised, or memory is exhausted.
        refuses: `True` if code in the outermost function sets the first flag.
        looks: `True` if code in the outermost function sets another flag.
        result: the result of the function, if it has one.
        changes: the number of changes of elements in place so far, by the name of the buffer.
    """

    __slots__ = (
        "_journal", "_touched", "called", "captured", "changes", "definitions", "entry", "long_functions", "looks", "outer",
        "refused", "refuses", "remembered", "reserved", "result", "vectors",
    )  # fmt: skip

    def __init__(self, *, fused: bool, outer: Code | None = None) -> None:
        super().__init__(fused=fused)
        self.outer = outer
        self.vectors = 0
        self.long_functions = 0
        self.entry: list[Node] = []
        self.reserved = 0
        self.captured: dict[str, Value] = {}
        self.definitions: dict[str, Definition] = {} if outer is None else outer.definitions
        self.called: dict[str, tuple[str, str]] = {} if outer is None else outer.called
        self.refused: Value | None = None
        self.refuses = self.looks = False
        self.remembered: dict[Any, Any] = {}
        self.changes: dict[str, int] = {}
        self._journal: list[list[Any]] = [[]]
        self._touched = 0
        self.result: Value | None = None

    # Operations

    def keep(self, key: Any, value: Value) -> Value:
        """Keep a value as the result of the operation `key` until the scope ends."""
        self._known[key] = value
        self._journal[-1].append(key)
        return value

    def pure_call(self, function: str, kind: str, arguments: Sequence[Value]) -> Value:
        """Call a function of numbers; append the call unless the scope already contains it."""
        operands = tuple([(x.kind, x.name) for x in arguments])
        key = function, operands
        known = self._known.get(key)
        if known is None:
            known = self.keep(key, self.fresh(kind))
            self.nodes.append(Call(known.name, kind, function, operands, pure=True))
        return known

    def run(self, function: str, *arguments: tuple[str, str] | Value, kind: str = "void", inline: str = "") -> Value:
        """Call a function that may read or write memory; arguments are values, or types with literals."""
        operands = tuple([(x.kind, x.name) if isinstance(x, Value) else x for x in arguments])
        found = Value(self, "", kind) if kind == "void" else self.fresh(kind)
        self.nodes.append(Call(found.name, kind, function, operands, inline=inline))
        return found

    def remember(self, key: Any, value: Any) -> Any:
        """Store `value` under `key` until the scope ends, and return it."""
        self.remembered[key] = value
        self._journal[-1].append(key)
        return value

    def forget(self, pointer: Value) -> None:
        """Forget the elements read from a buffer, because some of them have changed."""
        self.changes[pointer.name] = self.changes.get(pointer.name, 0) + 1

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
            return self.emit("convert", kind, x)
        if x.is_real and kind in REALS:
            return x.widened() if kind == "double" else x.narrowed()
        if x.is_real and kind not in REALS:
            return self._whole(x, kind)
        return self.emit("convert", kind, x)

    def _whole(self, x: Value, kind: str) -> Value:
        """Truncate to an integer; numbers out of range give the least integer, as on Intel processors."""
        limit = 2.0 ** (63 if kind == "i64" else 31)
        fits = (x >= -limit) & (x < limit)
        found = self.emit("convert", kind, where(fits, x, 0.0))
        return where(fits, found, -int(limit))

    def elementary(self, name: str, *arguments: Value) -> Value:
        """Call an elementary function on real numbers of one type."""
        kind = arguments[0].kind
        row = ELEMENTARY[name]
        if not self.vectors and not row.brief:
            symbol = called_symbol(name, kind)
            self.called[symbol] = name, kind
            return self.pure_call(symbol, kind, arguments)
        self.long_functions += not row.brief
        own = definition(name, kind, fused=self.fused)
        self.definitions[own.function.name] = own
        return self.pure_call(own.function.name, kind, arguments)

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
        name = f"%m{len(self.entry)}"
        self.entry.append(Allocate(name, kind, count))
        return Value(self, name, "ptr")

    def place(self, pointer: Value, index: Index, kind: str) -> Value:
        """Return the address of an element."""
        if type(index) is int and index == 0:
            return pointer
        return self.emit("address", "ptr", pointer, self.integer(index), of=kind)

    def load(self, pointer: Value, index: Index, kind: str) -> Value:
        """Load an element. As in NumPy, every nonzero byte of a boolean array is true."""
        self._touch()
        found = self.fresh(kind)
        self.nodes.append(Load(found.name, kind, pointer.name, _text(index)))
        return found

    def store(self, pointer: Value, index: Index, value: Value) -> None:
        """Store an element."""
        self._touch()
        self.nodes.append(Store(value.kind, pointer.name, _text(index), value.name))

    def reduce(self, how: str, pointer: Value, index: Index, value: Value) -> None:
        """Reduce a value over the iterations with the same element."""
        self.nodes.append(Reduce(how, value.kind, pointer.name, _text(index), value.name))

    def _touch(self) -> None:
        """Count the loads and stores of a block; append a barrier after `MOST_TOUCHED`."""
        self._touched += 1
        if self._touched > MOST_TOUCHED and not self.vectors:
            self.nodes.append(Barrier())
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

    @contextmanager
    def body(self) -> Iterator[list[Node]]:
        """Collect the nodes that are written inside, and yield their list; open a scope for them."""
        around, self.nodes, self._touched = self.nodes, [], 0
        try:
            with self.scope():
                yield self.nodes
        finally:
            self.nodes, self._touched = around, 0

    @contextmanager
    def loop(
        self, first: Index, stop: Index, *, step: int = 1, straight: bool = False, counted: bool = False
    ) -> Iterator[Value]:
        """Write the code inside as a loop over the indices from `first` up to, but excluding, `stop`.

        Args:
            first: the first index.
            stop: the end, which is excluded.
            step: the distance between indices.
            straight: the body has no branches, so the loop may run in vector lanes. If the body calls long functions, a masked
                vector computes the remaining elements, instead of a second, scalar copy of the body.
            counted: the loop begins at 0 and its length is a multiple of several vectors.
        """
        low, high, functions = _text(first), _text(stop), self.long_functions
        index = Value(self, self.fresh("i64").name.replace("%v", "%i"), "i64")
        self.vectors += straight
        with self.body() as nodes:
            yield index
        self.vectors -= straight
        masked = straight and not counted and self.long_functions > functions
        self.nodes.append(For(index.name, low, high, step, tuple(nodes), straight, masked, counted))

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the code inside only if `condition` is true."""
        with self.body() as nodes:
            yield
        self.nodes.append(If(condition.name, tuple(nodes)))

    @contextmanager
    def block(self) -> Iterator[str]:
        """Run the code inside once, and yield the label with which `leave` ends it."""
        label = self.fresh("").name.replace("%v", "block")
        with self.body() as nodes:
            yield label
        self.nodes.append(Block(label, tuple(nodes)))

    @contextmanager
    def repeat(self) -> Iterator[str]:
        """Run the code inside again and again, and yield the label with which `leave` ends it."""
        label = self.fresh("").name.replace("%v", "loop")
        with self.body() as nodes:
            yield label
        self.nodes.append(Loop(label, tuple(nodes)))

    def leave(self, label: str, condition: Value | None = None) -> None:
        """End the enclosing block or loop with a label, if `condition` is true."""
        self.nodes.append(Leave(label, "" if condition is None else condition.name))
        self._touched = 0

    def function(self, name: str, parameters: Sequence[tuple[str, str]], *, local: bool = False) -> Function:
        """Return the whole function.

        Args:
            name: the symbol.
            parameters: pairs of a type and a name.
            local: only functions of the module call the function, with buffers that share no memory.
        """
        result = None if self.result is None else (self.result.kind, self.result.name)
        return Function(name, tuple(parameters), (*self.entry, *self.nodes), result, local=local)


def _text(index: Index) -> str:
    """Return the name or literal of an index."""
    return index.name if isinstance(index, Value) else str(index)
