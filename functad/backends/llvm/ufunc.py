"""An elementary function on arrays: a vectorised loop, compiled for this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from functad.backends.llvm.module import Machine, host
from functad.emitters.llvm import Text, joined
from functad.loops.elementary.table import ELEMENTARY, Definition, definition

KINDS = {"float64": "double", "float32": "float"}

BLOCK = 512
"""The number of elements computed by a quick formula before its validity is checked."""

LOOP = """
define internal {result} @{loop}(i64 %start, i64 %stop, ptr noalias %out{parameters}) alwaysinline nounwind {{
entry:
  %any = icmp slt i64 %start, %stop
  br i1 %any, label %body, label %done
body:
  %i = phi i64 [ %start, %entry ], [ %next, %body ]
  %seen = phi i1 [ false, %entry ], [ %found, %body ]
{loads}
{calls}
  %to = getelementptr {kind}, ptr %out, i64 %i
  store {kind} %value, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %body, label %done
done:
  %all = phi i1 [ false, %entry ], [ %found, %body ]
  ret {result} {returned}
}}
"""

PLAIN = """
define void @functad.ufunc(i64 %n, ptr noalias %out{parameters}) nounwind {{
  call void @everywhere(i64 0, i64 %n, ptr %out{arguments})
  ret void
}}
"""

BLOCKS = """
define void @functad.ufunc(i64 %n, ptr noalias %out{parameters}) nounwind {{
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %block, label %done
block:
  %start = phi i64 [ 0, %entry ], [ %end, %next ]
  %end = add i64 %start, {block}
  %short = icmp slt i64 %end, %n
  %stop = select i1 %short, i64 %end, i64 %n
  %again = call i1 @quickly(i64 %start, i64 %stop, ptr %out{arguments})
  br i1 %again, label %repeat, label %next
repeat:
  call void @everywhere(i64 %start, i64 %stop, ptr %out{arguments})
  br label %next
next:
  br i1 %short, label %block, label %done
done:
  ret void
}}
"""


def source(name: str, dtype: Any, *, fused: bool) -> str:
    """Return the LLVM module that computes a function on contiguous arrays.

    Args:
        name: the function, a key of `ELEMENTARY`.
        dtype: float64 or float32.
        fused: `True` if the processor has a fused multiply-add instruction.
    """
    kind = KINDS[np.dtype(dtype).name]
    row = ELEMENTARY[name]
    count = row.arguments
    places = {
        "kind": kind,
        "parameters": "".join(f", ptr noalias %a{i}" for i in range(count)),
        "arguments": "".join(f", ptr %a{i}" for i in range(count)),
        "loads": "\n".join(
            f"  %p{i} = getelementptr {kind}, ptr %a{i}, i64 %i\n  %x{i} = load {kind}, ptr %p{i}" for i in range(count)
        ),
        "block": BLOCK,
    }
    given = ", ".join(f"{kind} %x{i}" for i in range(count))
    whole = definition(name, kind, fused=fused)
    calls = f"  %value = call {kind} {whole.function.name}({given})\n  %found = or i1 %seen, false"
    text = LOOP.format(loop="everywhere", result="void", returned="", calls=calls, **places)
    if row.quick is None:
        return _text([whole]) + text + PLAIN.format(**places)
    quick, beyond = (definition(name, kind, fused=fused, form=form) for form in ("quick", "beyond"))
    calls = (
        f"  %value = call {kind} {quick.function.name}({given})\n"
        f"  %rare = call i1 {beyond.function.name}({given})\n  %found = or i1 %seen, %rare"
    )
    text += LOOP.format(loop="quickly", result="i1", returned="%all", calls=calls, **places)
    return _text([whole, quick, beyond]) + text + BLOCKS.format(**places)


def _text(parts: Sequence[Definition]) -> str:
    """Return the text of functions and their tables."""
    return joined([Text(part.function) for part in parts], [table for part in parts for table in part.tables]) + "\n"


@cache
def compile_ufunc(name: str, dtype: Any, machine: Machine | None = None) -> Callable[..., np.ndarray[Any, Any]]:
    """Compile a function on arrays.

    Args:
        name: the function, a key of `ELEMENTARY`.
        dtype: the dtype of arguments and result, float64 or float32.
        machine: the target of the compilation. Default: this machine.

    Returns:
        A function that broadcasts its array arguments and returns a new array, or writes to `out`.

    Raises:
        MissingPackageError: llvmlite is not installed.
    """
    machine = host() if machine is None else machine
    number = np.dtype(dtype)
    library = machine.loaded(machine.compiled(source(name, number, fused=machine.fused)), ["functad.ufunc"])
    pointers = [ctypes.c_void_p] * (ELEMENTARY[name].arguments + 1)
    native = library.function("functad.ufunc", ctypes.c_int64, *pointers)

    def ufunc(*arrays: Any, out: Any = None) -> np.ndarray[Any, Any]:
        given = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*[np.asarray(x, number) for x in arrays])]
        result = np.empty(np.broadcast_shapes(*[np.shape(x) for x in arrays]), number) if out is None else out
        native(result.size, result.ctypes.data, *[x.ctypes.data for x in given])
        return result

    return ufunc
