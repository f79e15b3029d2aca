"""Signal checks in long native loops, so that Ctrl-C and alarms end them.

Native code runs without the GIL. About every 50 ms, a long loop acquires the GIL and lets Python run pending signal handlers.
An exception of a handler is stored in the note of the call, and raised when native code has returned. Loops that certainly take
less than some tenths of a second do not check.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np

from functad.expressions.expressions import Expressions
from functad.loops.build import Code
from functad.loops.values import Value
from functad.places import here

PREFIX = "functad.python."
"""Prefix of the names of Python's C functions in native code."""

NAMES = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")

ROOM = 32
"""Size of a note in bytes.

Byte 0 is set if NumPy must compute the list, byte 1 if a handler raised, byte 2 if memory ran out. The three addresses of the
exception start at byte 8. If memory runs out, byte 0 is set too, which ends the enclosing loops.
"""

PERIOD = 2.0e7
"""Additions between two signal checks."""

SHORT = 8 * PERIOD
"""Loops with a cost of at most this many additions do not check for signals."""

UNKNOWN = PERIOD / 16
"""Assumed cost, in additions, of a loop with an unknown number of steps."""

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
"""LLVM function that checks for signals and returns 1 if the loop must end."""


def python_functions(names: Collection[str]) -> dict[str, int]:
    """Return the addresses of Python's C functions that are among `names`, by their names in native code."""
    own = [name for name in NAMES if PREFIX + name in names]
    return {PREFIX + name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in own}


def note_lack_of_memory(code: Code) -> None:
    """Write code that stores in the note that the system is out of memory."""
    code.refuse(code.constant(1, "i1"))
    note = code.note(looks=True)
    code.store(note, 2, code.constant(1, "i1"))


def raise_lack_of_memory() -> NoReturn:
    """Raise the error of a native `while_loop` derivative that ran out of memory.

    Raises:
        MemoryError: always.
    """
    raise MemoryError(
        f"the derivative of a while_loop in a compiled function, at {here()}, keeps values of each step, and there is no "
        f"memory for more of them. Use fewer steps, or functad.checkpoint_sequence, which computes steps again."
    )


def raise_noted(note: np.ndarray[Any, Any]) -> None:
    """Raise the exception that a signal handler raised while native code ran.

    Raises:
        BaseException: the exception of the handler.
    """
    restore = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyErr_Restore", ctypes.pythonapi))
    restore(*note[8:ROOM].view(np.uintp).tolist())


def looked(writer: Any) -> Value:
    """Write a signal check and return its flag: true if the loop must end."""
    code: Code = writer.code
    writer.module.support["@functad.look"] = LOOK
    writer.module.imported.update(PREFIX + name for name in NAMES)
    return code.run("@functad.look", code.note(looks=True), kind="i1")


class Watch:
    """Checks for signals after a fixed number of steps of a loop; a module without Python has no checks.

    Args:
        writer: the writer of the function with the loop.
        cost: the cost of a step, in additions.
    """

    def __init__(self, writer: Any, cost: float) -> None:
        code: Code = writer.code
        self.writer, self.every = writer, max(int(PERIOD / cost), 1)
        self.count, self.limit = code.allocate("i64", 1), code.allocate("i64", 1)
        code.store(self.count, 0, code.constant(0, "i64"))
        code.store(self.limit, 0, code.constant(self.every, "i64"))

    def step(self, loop: str) -> None:
        """Write the signal check at the end of a step; it leaves the loop with the label `loop` if the loop must end.

        The limit is constant between two checks, so LLVM compiles the steps between them as a loop without calls.
        """
        code: Code = self.writer.code
        if self.writer.module.alone:
            return
        count, limit = code.load(self.count, 0, "i64") + 1, code.load(self.limit, 0, "i64")
        code.store(self.count, 0, count)
        with code.when(count.equals(limit)):
            code.store(self.limit, 0, limit + self.every)
            code.leave(loop, looked(self.writer))


def cost_of(*lists: Expressions) -> float:
    """Return the approximate cost of running expression lists, in additions."""
    total = 1.0
    for equation in [e for each in lists for e in each.equations]:
        params: Any = equation.params
        if equation.primitive.lists == "scan":
            total += params["length"] * cost_of(params["body"])
        elif equation.primitive.lists == "branches":
            total += max(map(cost_of, params["branches"]))
        elif equation.primitive.lists == "loop":
            total += UNKNOWN
    return total + sum(_size(each) for each in lists)


def _size(expressions: Expressions) -> int:
    """Return the sum, over the equations, of the size of the largest input or output."""
    sizes = [spec.size for spec in expressions.specs]
    return sum(max([sizes[s] for s in (*e.inputs, *e.outputs) if type(s) is int], default=1) for e in expressions.equations)


def chunk_of(length: int, cost: float) -> int | None:
    """Return the number of steps between two signal checks of a loop; `None` if the loop is too short to check."""
    return None if length * cost <= SHORT else max(int(PERIOD / cost), 1)
