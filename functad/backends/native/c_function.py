"""An expression list as a C function that needs no Python, in an object file.

The native function of the list reads the data pointers of NumPy arrays. The C function gives it the same form: it puts each
pointer where an array object has its data pointer, in memory on the stack. LLVM inlines the native function, and this memory
disappears.

The careful list of a derivative is a second native function of the same module. The C function calls it if the first one found
a NaN. If native code cannot compute the careful list, the C function reports the NaN. The module has no threads, no signal
checks and no BLAS: products of matrices are loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from functad.backends.llvm.module import Machine, host
from functad.backends.native.arrays import Memory, plain_array
from functad.backends.native.blocks.roll import with_block_loops
from functad.backends.native.control.interrupts import ROOM
from functad.backends.native.divide import Divided
from functad.backends.native.expand import expanded
from functad.backends.native.module_text import ModuleText
from functad.backends.native.step import HEADER, LARGE, Parameter, Step
from functad.backends.native.writer import STACK
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.loops.build import KINDS, SIZES, Code
from functad.loops.ir import Store
from functad.loops.values import Value

FAILED, NO_MEMORY, NAN = 1, 2, 3
"""Results of the C function: a check of the arguments failed, the system is out of memory, or a derivative has a NaN."""

TARGETS = {
    "generic": "",
    "x86-64-v2": "",
    "x86-64-v3": "+avx2,+fma",
    "x86-64-v4": "+avx2,+fma,+avx512f",
}
"""The features of each `cpu` that decide which formulas native code uses. `native` is this processor."""

_GENERIC = {"x86_64": "x86-64", "amd64": "x86-64"}
"""LLVM's name of the oldest processor of an architecture; `generic` for the others."""


class NeedsPythonError(Exception):
    """The list has an equation that only NumPy can compute.

    Args:
        equation: the equation.
        expressions: the list that contains it.
    """

    def __init__(self, equation: Equation, expressions: Expressions) -> None:
        super().__init__()
        self.equation, self.expressions = equation, expressions


class ObjectCode(NamedTuple):
    """A C function, compiled.

    Attributes:
        code: the bytes of the object file.
        target: LLVM's name of the architecture and the processor.
        fails: the results of the C function that are possible, besides 0.
    """

    code: bytes
    target: str
    fails: Sequence[int]


def machine_for(cpu: str) -> Machine | None:
    """Return the target for a processor, a key of `TARGETS` or `native`; `None` if it has no such processor."""
    own = host()
    if cpu == "native":
        return Machine(own.cpu, own.features, loads=False)
    architecture = own.triple.partition("-")[0]
    if cpu not in TARGETS or (cpu != "generic" and _GENERIC.get(architecture) is None):
        return None
    return Machine(_GENERIC.get(architecture, cpu) if cpu == "generic" else cpu, TARGETS[cpu], loads=False)


def object_code(
    expressions: Expressions,
    careful: Expressions | None,
    checked: Sequence[int],
    name: str,
    names: Sequence[str],
    outputs: Sequence[str | None],
    machine: Machine,
) -> ObjectCode:
    """Return the machine code of a C function that computes a list.

    Args:
        expressions: the list.
        careful: the list to compute if a result has a NaN, or `None`. It may lack the last outputs.
        checked: the positions of the results to check for NaN.
        name: the name of the C function.
        names: the names of its pointers to the inputs.
        outputs: the names of its pointers to the outputs; `None` for an output that the caller does not receive.
        machine: the target of the compilation.

    Raises:
        NeedsPythonError: native code cannot compute an equation.
    """
    module = ModuleText(machine, alone=True)
    writer = _Writer(module, expressions, names, outputs)
    steps: list[Step] = []
    first = writer.native(expressions, steps, checked if careful is not None else ())
    again = None
    if careful is not None:
        with suppress(NeedsPythonError):
            again = writer.native(careful, steps, ())
    writer.write(first, again)
    entry = writer.code.function(f"@{name}", [("ptr", f"%given.{own}") for own in (*names, *outputs) if own is not None])
    module.add(writer.code, entry)
    return ObjectCode(machine.compiled(module.text()), f"{machine.triple}, {machine.cpu}", sorted(writer.fails))


class _Writer:
    """Writes the C function.

    Args:
        module: the module.
        expressions: the list.
        names: the names of the pointers to the inputs.
        outputs: the names of the pointers to the outputs; `None` for an output that the caller does not receive.

    Attributes:
        code: the function.
        fails: the results that report an error.
    """

    def __init__(
        self, module: ModuleText, expressions: Expressions, names: Sequence[str], outputs: Sequence[str | None]
    ) -> None:
        self.module, self.expressions = module, expressions
        self.code = Code(fused=module.machine.fused)
        self.fails: set[int] = set()
        self.given = [Value(self.code, f"%given.{name}", "ptr") for name in names]
        self.outputs = [None if name is None else Value(self.code, f"%given.{name}", "ptr") for name in outputs]
        self.status = self.code.allocate("i32", 1)
        self.heap: list[Value] = []

    def native(self, expressions: Expressions, steps: list[Step], checked: Sequence[int]) -> tuple[Expressions, Step | None]:
        """Return a list and the native function that computes it; `None` if the list has no equations.

        Raises:
            NeedsPythonError: native code cannot compute an equation.
        """
        own = expanded(with_block_loops(expressions))
        found = {s for s in map(own.outputs.__getitem__, checked) if type(s) is int}
        divided = Divided(own, self.module, steps, found)
        _refuse_python(divided)
        order = [item for item in divided.order if isinstance(item, Step)]
        assert len(order) <= 1, "a list without equations for NumPy is one native function"
        return own, order[0] if order else None

    def write(self, first: tuple[Expressions, Step | None], again: tuple[Expressions, Step | None] | None) -> None:
        """Write the function: the call of a list and, if a result has a NaN, a call of the careful list, or its report."""
        code = self.code
        code.store(self.status, 0, code.constant(0, "i32"))
        self._refuse_large(first)
        found = self._run(*first)
        if found is not None:
            with code.when(~found.equals(0)):
                if again is not None:
                    self._run(*again)
                else:
                    with code.when(code.load(self.status, 0, "i32").equals(0)):
                        self._fail(NAN)
        for pointer in self.heap:
            code.run("@free", code.load(pointer, 0, "ptr"))
        code.result = code.load(self.status, 0, "i32")

    def _fail(self, reason: int) -> None:
        """Write code that sets the result."""
        self.fails.add(reason)
        self.code.store(self.status, 0, self.code.constant(reason, "i32"))

    def _refuse_large(self, first: tuple[Expressions, Step | None]) -> None:
        """Write the check of the Python integers among the inputs, which native code supports up to a magnitude."""
        code = self.code
        for i, spec in enumerate(self.expressions.specs[: len(self.given)]):
            if spec.weak and KINDS[spec.dtype] == "i64":
                value = code.load(self.given[i], 0, "i64")
                with code.when((value < -LARGE) | (value >= LARGE)):
                    self._fail(FAILED)

    def _run(self, expressions: Expressions, step: Step | None) -> Value | None:
        """Write the computation of a list, and return whether a checked result has a NaN; `None` if nothing is checked."""
        code, found = self.code, None
        if step is not None and step.result is not None:
            found = code.allocate("i8", 1)
            code.store(found, 0, code.constant(0, "i8"))
        with code.when(code.load(self.status, 0, "i32").equals(0)):
            made = {} if step is None else self._called(step, found, expressions.outputs)
            for i, (source, target) in enumerate(zip(expressions.outputs, self.outputs, strict=False)):
                if target is not None:
                    self._give(self._source(source, made), target, expressions.results[i])
        return None if found is None else code.load(found, 0, "i8")

    def _source(self, source: int | Constant, made: dict[int, Memory]) -> Memory:
        """Return the memory of an output."""
        if isinstance(source, Constant):
            value, spec = plain_array(source.value), spec_of(source.value)
            return Memory(spec.shape, KINDS[spec.dtype], self.module.table(self.code, value))
        if source in made:
            return made[source]
        spec = self.expressions.specs[source]
        return Memory(spec.shape, KINDS[spec.dtype], self.given[source])

    def _give(self, memory: Memory, target: Value, spec: ArraySpec) -> None:
        """Write the copy of an output to the memory of the caller, unless it is there."""
        code = self.code
        if memory.pointer.name == target.name:
            return
        with code.loop(0, spec.size, straight=True) as i:
            position = i if memory.shape else memory.offset
            code.store(target, i, code.load(memory.pointer, position, memory.kind))

    def _called(self, step: Step, found: Value | None, sources: Sequence[int | Constant]) -> dict[int, Memory]:
        """Write the call of a native function, and return the memory of its results by slot.

        Args:
            step: the native function.
            found: memory for the result of the NaN check, or `None`.
            sources: the outputs of the list.
        """
        code = self.code
        given = [self._argument(parameter) for parameter in step.inputs]
        made: dict[int, Memory] = {}
        places = [self._place(parameter, step, sources) for parameter in step.outputs]
        for parameter, pointer in zip(step.outputs, places, strict=True):
            made[parameter.source] = Memory(parameter.spec.shape, parameter.kind, pointer)  # type: ignore[index]
        for slot, (number, offset) in step.places.items():
            parameter = step.outputs[number]
            made[slot] = Memory((), parameter.kind, places[number], (), offset)
        arguments = [*given, *[self._held(pointer) for pointer in places]]
        if step.space:
            arguments.append(self._held(self._room(step.space)))
        note = None
        if step.code.refused is not None:
            note = code.allocate("i64", ROOM // 8)
            for i in range(ROOM // 8):
                code.store(note, i, code.constant(0, "i64"))
            arguments.append(self._held(note))
        with code.when(code.load(self.status, 0, "i32").equals(0)):
            if found is None:
                code.run(f"@{step.name}", *arguments, inline="always")
            else:
                code.store(found, 0, code.run(f"@{step.name}", *arguments, kind="i8", inline="always"))
            if note is not None:
                reasons = [(0, FAILED), (2, NO_MEMORY)] if step.code.looks else [(0, FAILED)]
                for place, reason in reasons:
                    with code.when(~code.load(note, place, "i8").equals(0)):
                        self._fail(reason)
        return made

    def _argument(self, parameter: Parameter) -> Value:
        """Return an argument of a native function: a number, or an object that has a data pointer."""
        code, source = self.code, parameter.source
        constant = isinstance(source, Constant)
        pointer = self.module.table(code, plain_array(source.value)) if constant else self.given[source]  # type: ignore[union-attr,index]
        if not parameter.by_value:
            return self._held(pointer)
        return code.load(pointer, 0, "i8" if parameter.kind == "i1" else parameter.kind)

    def _held(self, pointer: Value) -> Value:
        """Return the address of memory that has a data pointer where the object of a NumPy array has it."""
        held = self.code.allocate("ptr", HEADER + 1)
        self.code.store(held, HEADER, pointer)
        return held

    def _place(self, parameter: Parameter, step: Step, sources: Sequence[int | Constant]) -> Value:
        """Return the memory for a result: memory of the caller if the caller receives exactly this array."""
        if parameter.source not in step.places:
            for source, target in zip(sources, self.outputs, strict=False):
                if target is not None and source == parameter.source:
                    return target
        return self._room(parameter.spec.size * SIZES[parameter.kind])

    def _room(self, size: int) -> Value:
        """Return the address of memory of a size in bytes: on the stack if it is small, else on the heap."""
        code = self.code
        if size <= STACK:
            return code.allocate("i64", -(-size // 8))
        held = code.allocate("ptr", 1)
        self.heap.append(held)
        code.entry.append(Store("ptr", held.name, "0", "null"))
        found = code.run("@malloc", code.constant(size, "i64"), kind="ptr")
        code.store(held, 0, found)
        with code.when(code.emit("eq", "i1", found, Value(code, "null", "ptr"))):
            self._fail(NO_MEMORY)
        return found


def _refuse_python(divided: Divided) -> None:
    """Raise an error for the first equation that native code cannot compute; the bodies of loops come first.

    Raises:
        NeedsPythonError: there is such an equation.
    """
    for number, item in enumerate(divided.order):
        if isinstance(item, Equation):
            for inner in divided.inner_lists(number):
                _refuse_python(inner)
            raise NeedsPythonError(item, divided.plan.expressions)
