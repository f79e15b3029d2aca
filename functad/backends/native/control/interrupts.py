"""Long loops let Python look at signals now and then, so that Ctrl-C and alarms end them.

Native code runs without the GIL. It takes it about every 50 ms, and asks Python to run the handlers of signals that have come.
What a handler raises is noted beside what says that NumPy must compute the list, and raised when native code has returned.
Loops that surely take less than some tenths of a second do not look.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np

from functad.backends.llvm.values import Value
from functad.backends.native.code import Code
from functad.control.branches import COND, SWITCH
from functad.control.loops import WHILE
from functad.control.scan import SCAN
from functad.expressions.expressions import Expressions
from functad.places import here

PREFIX = "functad.python."
"""What the names of Python's functions begin with in native code."""

NAMES = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")

ROOM = 32
"""Bytes of a note: NumPy must compute, a handler raised, memory is lacking, and from the eighth byte on the exception.

The exception is three addresses. A note of lacking memory also sets the first byte, which ends the loops around.
"""

PERIOD = 2.0e7
"""Additions between two looks."""

SHORT = 8 * PERIOD
"""Loops that take no longer than so many additions do not look."""

UNKNOWN = PERIOD / 16
"""How many additions a loop is taken for of which it is not known how many steps it has."""

LOOK = f"""declare i32 @{PREFIX}PyGILState_Ensure() nounwind memory(inaccessiblemem: readwrite)
declare void @{PREFIX}PyGILState_Release(i32) nounwind memory(inaccessiblemem: readwrite)
declare i32 @{PREFIX}PyErr_CheckSignals() nounwind memory(inaccessiblemem: readwrite)
declare void @{PREFIX}PyErr_Fetch(ptr, ptr, ptr) nounwind memory(argmem: readwrite, inaccessiblemem: readwrite)
define internal i1 @functad.look(ptr %note) cold noinline nounwind {{
  %flag = getelementptr i8, ptr %note, i64 1
  %before = load i8, ptr %flag
  %raised = icmp ne i8 %before, 0
  br i1 %raised, label %yes, label %ask
ask:
  %state = call i32 @{PREFIX}PyGILState_Ensure()
  %found = call i32 @{PREFIX}PyErr_CheckSignals()
  %calm = icmp eq i32 %found, 0
  br i1 %calm, label %go, label %keep
keep:
  %type = getelementptr i8, ptr %note, i64 8
  %value = getelementptr i8, ptr %note, i64 16
  %trace = getelementptr i8, ptr %note, i64 24
  call void @{PREFIX}PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  store i8 1, ptr %flag
  call void @{PREFIX}PyGILState_Release(i32 %state)
  br label %yes
go:
  call void @{PREFIX}PyGILState_Release(i32 %state)
  ret i1 false
yes:
  ret i1 true
}}"""
"""A function of native code that says whether a loop is to end."""


def python_functions(names: Collection[str]) -> dict[str, int]:
    """Return the addresses of those functions of Python's that are among some names of native code."""
    own = [name for name in NAMES if PREFIX + name in names]
    return {PREFIX + name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in own}


def note_lack_of_memory(code: Code) -> None:
    """Write a note that the system has no memory left."""
    code.refuse(code.constant(1, "i1"))
    note = code.note(looks=True)
    code.do(f"store i8 1, ptr {code.fresh(f'getelementptr i8, ptr {note.name}, i64 2', 'ptr').name}")


def raise_lack_of_memory() -> NoReturn:
    """Raise the error for a note of lacking memory.

    Raises:
        MemoryError: always.
    """
    raise MemoryError(
        f"the derivative of a while_loop in a compiled function, at {here()}, keeps values of each step, and there is no "
        f"memory for more of them. Use fewer steps, or functad.checkpoint_sequence, which computes steps again."
    )


def raise_noted(note: np.ndarray[Any, Any]) -> None:
    """Raise what the handler of a signal raised while native code ran.

    Raises:
        BaseException: that.
    """
    restore = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyErr_Restore", ctypes.pythonapi))
    restore(*note[8:ROOM].view(np.uintp).tolist())


def looked(writer: Any) -> Value:
    """Write a look at signals, and return whether the loop is to end."""
    code: Code = writer.code
    code.declarations[LOOK] = None
    writer.module.imported.update(PREFIX + name for name in NAMES)
    return code.fresh(f"call i1 @functad.look(ptr {code.note(looks=True).name})", "i1")


class Watch:
    """Looks at signals after every so many steps of a loop.

    Args:
        writer: of the function with the loop.
        cost: of a step, in additions.
    """

    def __init__(self, writer: Any, cost: float) -> None:
        code: Code = writer.code
        self.writer, self.every = writer, max(int(PERIOD / cost), 1)
        self.count, self.limit = code.allocate("i64", 1), code.allocate("i64", 1)
        code.store(self.count, 0, code.constant(0, "i64"))
        code.store(self.limit, 0, code.constant(self.every, "i64"))

    def step(self, done: str) -> None:
        """Write, at the end of a step, where a loop that is to end goes.

        The limit is the same for all steps up to a look, so that LLVM makes a loop of them in which nothing is called.
        """
        code: Code = self.writer.code
        count, limit = code.load(self.count, 0, "i64") + 1, code.load(self.limit, 0, "i64")
        code.store(self.count, 0, count)
        look, go = code.new_label("look"), code.new_label("go")
        code.do(f"br i1 {count.equals(limit).name}, label %{look}, label %{go}")
        code.start(look)
        code.store(self.limit, 0, limit + self.every)
        code.do(f"br i1 {looked(self.writer).name}, label %{done}, label %{go}")
        code.start(go)


def cost_of(*lists: Expressions) -> float:
    """Return about how many additions it takes as long as to run lists."""
    total = 1.0
    for equation in [e for each in lists for e in each.equations]:
        params: Any = equation.params
        if equation.primitive is SCAN:
            total += params["length"] * cost_of(params["body"])
        elif equation.primitive in (COND, SWITCH):
            total += max(map(cost_of, params["branches"]))
        elif equation.primitive is WHILE or equation.primitive.lists == "loop":
            total += UNKNOWN
    return total + sum(_size(each) for each in lists)


def _size(expressions: Expressions) -> int:
    """Return how many elements equations compute, or read if these are more."""
    sizes = [spec.size for spec in expressions.specs]
    return sum(max([sizes[s] for s in (*e.inputs, *e.outputs) if type(s) is int], default=1) for e in expressions.equations)


def chunk_of(length: int, cost: float) -> int | None:
    """Return after how many of its steps a loop looks at signals; `None` if it takes too little time."""
    return None if length * cost <= SHORT else max(int(PERIOD / cost), 1)
