"""One native function of a program: machine code for a part of the plan, and its Python caller."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.native.arrays import Array, Held, Memory, plain_array
from functad.backends.native.control.interrupts import ROOM, raise_lack_of_memory, raise_noted
from functad.backends.native.kernel import Nest
from functad.backends.native.module_text import ModuleText
from functad.backends.native.plan import Loops, Plan
from functad.backends.native.writer import Writer
from functad.backends.refusals import OtherArgumentsError, RefusedError
from functad.expressions.expressions import Constant, source_spec
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.ir import REALS, Load, Op
from functad.loops.values import Value
from functad.primitives.entry import ENTRIES

HANDLE = ctypes.sizeof(ctypes.c_void_p)
"""Bytes of an address."""

HEADER = object.__basicsize__ // HANDLE
"""The offset of the data pointer in a NumPy array object, in addresses."""

TUPLE_HEADER = tuple.__basicsize__ // HANDLE
"""The offset of the first element in a tuple object, in addresses."""

LARGE = 2**31
"""Native code rejects Python integers from this magnitude on: they may not fit the dtype of an array."""

MOST_ARGUMENTS = 200
"""More arguments are packed into one tuple of arrays and an array of numbers per dtype; ctypes accepts 1,024."""

UNROLLED = 8
"""The NaN check is unrolled for arrays of up to this many elements: LLVM takes 4 ms to compile a loop."""

_BY_VALUE: dict[str, Any] = {
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i1": ctypes.c_uint8,
}


class Parameter:
    """An argument of a native function.

    Attributes:
        source: the slot or constant.
        spec: the spec of the source.
        name: the name in the function.
        by_value: `True` for a number, `False` for an array.
    """

    def __init__(self, source: int | Constant, spec: ArraySpec, name: str, *, by_value: bool) -> None:
        self.source = source
        self.spec = spec
        self.name = name
        self.kind = KINDS[spec.dtype]
        self.by_value = by_value

    @property
    def declared(self) -> tuple[str, str]:
        """The type and the name of the parameter."""
        return (_passed(self.kind) if self.by_value else "ptr"), self.name

    @property
    def ctype(self) -> Any:
        """The ctypes type."""
        return _BY_VALUE[self.kind] if self.by_value else ctypes.py_object

    @property
    def number(self) -> type | None:
        """The Python or NumPy type of scalars of a floating-point dtype, else `None`."""
        return None if self.spec.dtype.kind != "f" else float if self.spec.weak else self.spec.dtype.type


class Step:
    """A part of a plan, as one native function.

    Args:
        plan: the plan.
        module: the module that contains the function.
        number: the number of the step.
        units: the units that the step runs.
        exports: the small arrays that the step returns.
        parallel: `True` if the only unit is a loop that several threads share.
    """

    def __init__(
        self, plan: Plan, module: ModuleText, number: int, units: Sequence[Any], exports: Sequence[int], parallel: bool
    ) -> None:
        self.plan = plan
        self.module = module
        self.name = f"{module.prefix}native_{number}"
        self.units = units
        self.exports = list(exports)
        self.parallel = parallel
        self.inputs: list[Parameter] = []
        self.outputs: list[Parameter] = []
        self.results: list[int] = []
        self.numbers: list[int] = []
        self.places: dict[int, tuple[int, int]] = {}
        self.space = 0
        self.extent = 0

    def makes(self) -> list[int]:
        """Return the slots that the step can return."""
        found = list(self.exports)
        for unit in self.units:
            found += [*unit.stored, *unit.reduced] if isinstance(unit, Loops) else unit.outputs
        return found

    def write(
        self,
        given: Collection[int],
        wanted: Collection[int],
        checked: Collection[int] = (),
        overwritten: Mapping[int, int] | None = None,
    ) -> None:
        """Write the function.

        Args:
            given: the slots that are available before the step.
            wanted: the slots that are needed after the step.
            checked: the slots of results to check for NaN. The native function returns whether it found one.
            overwritten: maps slots of results to inputs. A result is written into the memory of its input.
        """
        code = Code(fused=self.module.machine.fused)
        self.code = code
        made = [s for s in self.makes() if s in wanted]
        self.results = made
        self.numbers = [s for s in made if self._spec(s).shape == () and not self.parallel]
        self.overwritten = {s: source for s, source in (overwritten or {}).items() if s in made}
        arrays = [s for s in made if s not in self.numbers and s not in self.overwritten]
        self.outputs = [Parameter(s, self._spec(s), f"%o{i}", by_value=False) for i, s in enumerate(arrays)]
        targets = {p.source: self._opened(p) for p in self.outputs}
        for dtype in dict.fromkeys(self._spec(s).dtype for s in self.numbers):
            targets |= self._together(dtype)  # type: ignore[arg-type]
        given_arrays: dict[int, Any] = {source: self._outside(source) for source in self.overwritten.values()}
        targets |= {s: given_arrays[source] for s, source in self.overwritten.items()}
        writer = Writer(self.plan, code, self.module, (), targets, self._outside, given)  # type: ignore[arg-type]
        writer.arrays |= given_arrays
        writer.ready |= given_arrays.keys()
        self.module.workspace = self._workspace
        if self.parallel:
            self._write_shared(writer, targets)  # type: ignore[arg-type]
        else:
            writer.run(self.units)
            writer.hold(self.exports)
            for slot in self.exports:
                if slot in targets:
                    writer.copy(writer.array(slot), targets[slot])
            self._search([targets[s] for s in made if s in checked and targets[s].kind in REALS])
        self.inputs.sort(key=lambda p: (0, p.source) if type(p.source) is int else (1, 0))  # in slot order, constants last
        parameters = [("i64", name) for name in ("%first", "%stop", "%part")] if self.parallel else []
        parameters += self._unpacked() if self.crowded else [p.declared for p in (*self.inputs, *self.outputs)]
        if self.space:
            parameters.append(("ptr", "%space"))
        if code.refused is not None:
            parameters.append(("ptr", "%refused"))
            own = "%part" if self.parallel else "0"  # one flag per thread, since threads could overwrite a shared one
            code.entry += [
                Load("%refused.all", "ptr", "%refused", str(HEADER)),
                Op("%refused.data", "address", "ptr", "i8", ("%refused.all", own)),
            ]
        self.module.add(code, code.function(f"@{self.name}", parameters, local=self.module.alone))

    def _search(self, results: Sequence[Memory]) -> None:
        """Write the NaN check of results; the native function returns its outcome, which adds no time to the call.

        One function serves all arrays of a dtype, so that LLVM compiles one loop. For one or two arrays, separate loops are
        faster.
        """
        code = self.code
        if not results:
            return
        found = code.allocate("i1", 1)
        code.store(found, 0, Value(code, "0", "i1"))
        large = [memory for memory in results if math.prod(memory.shape) > UNROLLED]
        for memory in results:
            size = math.prod(memory.shape)
            if size <= UNROLLED:
                for i in range(size):
                    value = code.load(memory.pointer, memory.offset if memory.shape == () else i, memory.kind)
                    code.store(found, 0, code.load(found, 0, "i1") | value.is_nan())
            elif len(large) <= 2:
                _search_array(code, found, memory, size)
            else:
                inner = Code(fused=code.fused, outer=code)
                length = code.emit("copy", "i64", code.constant(size, "i64"))  # a parameter, so that all sizes share a function
                _search_array(inner, found, memory, inner.own(length))
                self.module.call(code, inner, inline=False)
        code.result = code.load(found, 0, "i8")

    @property
    def result(self) -> Any:
        """The ctypes type of the result; `None` if there is none."""
        return None if self.code.result is None else ctypes.c_uint8

    @property
    def crowded(self) -> bool:
        """Return `True` if there are so many arguments that they are packed."""
        return len(self.inputs) + len(self.outputs) > MOST_ARGUMENTS and not self.module.alone

    def _packed(self) -> tuple[list[int], dict[np.dtype[Any], list[int]]]:
        """Return the positions of the arguments packed into the tuple of arrays, and of the numbers by dtype."""
        arrays: list[int] = []
        numbers: dict[np.dtype[Any], list[int]] = {}
        for i, parameter in enumerate((*self.inputs, *self.outputs)):
            if parameter.by_value:
                numbers.setdefault(parameter.spec.dtype, []).append(i)
            else:
                arrays.append(i)
        return arrays, numbers

    def _unpacked(self) -> list[tuple[str, str]]:
        """Return the parameters of a function with packed arguments, and unpack them at the entry."""
        arrays, numbers = self._packed()
        every = [*self.inputs, *self.outputs]
        nodes = [Load(every[i].name, "ptr", "%arrays", str(TUPLE_HEADER + place)) for place, i in enumerate(arrays)]
        for n, (dtype, places) in enumerate(numbers.items()):
            kind = _passed(KINDS[dtype])
            nodes.append(Load(f"%numbers{n}.data", "ptr", f"%numbers{n}", str(HEADER)))
            nodes += [Load(every[i].name, kind, f"%numbers{n}.data", str(place)) for place, i in enumerate(places)]
        self.code.entry[:0] = nodes
        return [("ptr", name) for name in self._bundles()]

    def _bundles(self) -> list[str]:
        """Return the names of the packed arguments."""
        return ["%arrays", *[f"%numbers{n}" for n in range(len(self._packed()[1]))]]

    def _together(self, dtype: np.dtype[Any]) -> dict[int, Memory]:
        """Return memory for the numbers of a dtype, in one array: allocating an array takes as long as a short function."""
        own = [s for s in self.numbers if self._spec(s).dtype == dtype]
        parameter = Parameter(own[0], ArraySpec((len(own),), dtype), f"%o{len(self.outputs)}", by_value=False)
        self.outputs.append(parameter)
        memory = self._opened(parameter)
        self.places |= {s: (len(self.outputs) - 1, i) for i, s in enumerate(own)}
        return {s: Memory((), memory.kind, memory.pointer, (), i) for i, s in enumerate(own)}

    def _write_shared(self, writer: Writer, targets: dict[int, Memory]) -> None:
        """Write a loop that threads share; each thread has its own memory for reductions of the first axis."""
        [unit] = self.units
        code = self.code
        writer.hold(writer.plan.read_by(unit))
        inner = Code(fused=code.fused, outer=code)
        part = Value(code, "%part", "i64")
        memory = {s: self._own_part(writer, s, targets.get(s), part) for s in (*unit.stored, *unit.reduced)}
        nest = Nest(writer, unit, memory, inner)
        self.apart = [p.source for p in self.outputs if type(p.source) is int and self.plan.is_split(p.source)]
        self.extent = nest.write((inner.own(Value(code, "%first", "i64")), inner.own(Value(code, "%stop", "i64"))))
        self.module.call(code, inner)

    def _own_part(self, writer: Writer, slot: int, target: Memory | None, part: Value) -> Memory:
        """Return the memory of a result, or of the thread's partial result if the reduction is split."""
        if target is None:
            return writer.memory(slot)
        if not self.plan.is_split(slot):
            return target
        size = self.plan.expressions.specs[slot].size
        return Memory(target.shape, target.kind, target.pointer, target.strides, part * size)

    def _spec(self, source: int | Constant) -> ArraySpec:
        return source_spec(source, self.plan.expressions.specs)

    def _outside(self, source: int | Constant) -> Array:
        """Add an input parameter, and return its array."""
        spec = self._spec(source)
        parameter = Parameter(source, spec, f"%a{len(self.inputs)}", by_value=spec.shape == ())
        self.inputs.append(parameter)
        if not parameter.by_value:
            return self._opened(parameter)
        value = Value(self.code, parameter.name, parameter.kind)
        if parameter.kind == "i1":
            self.code.entry.append(Op(f"{parameter.name}.true", "convert", "i1", "i8", (parameter.name,)))
            value = Value(self.code, f"{parameter.name}.true", "i1")
        return Held((), parameter.kind, [value])

    def _opened(self, parameter: Parameter) -> Memory:
        """Return the memory of a NumPy array argument; the entry reads its data pointer."""
        name = parameter.name
        self.code.entry.append(Load(f"{name}.data", "ptr", name, str(HEADER)))
        return Memory(parameter.spec.shape, parameter.kind, Value(self.code, f"{name}.data", "ptr"))

    def _workspace(self, size: int) -> Value:
        """Return the address of memory that the caller allocates."""
        start, self.space = self.space, self.space + (size + 63) // 64 * 64
        if start == 0:
            self.code.entry.append(Load("%space.data", "ptr", "%space", str(HEADER)))
        name = f"%space.{start}"
        self.code.entry.append(Op(name, "address", "ptr", "i8", ("%space.data", str(start))))
        return Value(self.code, name, "ptr")

    @property
    def refuses(self) -> bool:
        """Whether a call may raise `RefusedError`: native code rejects the arguments, or a Python integer is too large."""
        return self.code.refused is not None or any(p.by_value and p.spec.weak and p.kind == "i64" for p in self.inputs)

    def types(self) -> list[Any]:
        """Return the ctypes types of all arguments."""
        head = [ctypes.c_int64] * 3 if self.parallel else []
        last = bool(self.space) + (self.code.refused is not None)
        own = [ctypes.py_object for _ in self._bundles()] if self.crowded else [p.ctype for p in (*self.inputs, *self.outputs)]
        return [*head, *own, *[ctypes.py_object] * last]

    def caller(
        self,
        native: Callable[..., Any],
        results: Sequence[int] | None = None,
        strict: bool = False,
        again: Any = None,
    ) -> Callable[..., Any]:
        """Return a function of NumPy arrays and numbers that allocates the results and calls the native function.

        Args:
            native: the native function.
            results: the slots of the results, in the order to return.
            strict: arguments that need a conversion raise `OtherArgumentsError`.
            again: recomputes the results, given results and arguments, if the native function finds NaN.
        """
        space: dict[str, Any] = {"call": native, "empty": np.empty, "fitted": fitted, "ndarray": np.ndarray}
        space["OtherArgumentsError"] = OtherArgumentsError
        lines, given = [], []
        for i, parameter in enumerate(self.inputs):
            name = f"a{i}"
            given.append(name)
            if parameter.by_value:
                if strict:
                    space[f"n{i}"], space[f"d{i}"] = parameter.number, parameter.spec.dtype
                    is_array = f"type({name}) is ndarray and {name}.dtype is d{i} and {name}.shape == ()"
                    other = f"type({name}) is not n{i}" + ("" if parameter.spec.weak else f" and not ({is_array})")
                    lines += [f"if {other}:", "    raise OtherArgumentsError"]
                elif parameter.kind in ("i64", "i32", "i1"):
                    lines.append(f"{name} = {'bool' if parameter.kind == 'i1' else 'int'}({name})")
                    if parameter.spec.weak and parameter.kind == "i64":
                        space["RefusedError"] = RefusedError
                        lines += [f"if not {-LARGE} <= {name} < {LARGE}:", "    raise RefusedError"]
                continue
            space[f"d{i}"], space[f"s{i}"] = parameter.spec.dtype, parameter.spec.shape
            memory = f"{name}.flags.carray" if strict else f"{name}.flags.c_contiguous or not {name}.flags.aligned"
            lines += [
                f"if type({name}) is not ndarray or {name}.dtype is not d{i} or {name}.shape != s{i} or not {memory}:",
                "    raise OtherArgumentsError" if strict else f"    {name} = fitted({name}, s{i}, d{i})",
            ]
        lines += self._calls(given, space)
        arrays = {p.source: f"o{i}{_as_number(p.spec)}" for i, p in enumerate(self.outputs)}
        places = {p.source: f"a{i}" for i, p in enumerate(self.inputs)}
        arrays |= {s: places[source] for s, source in self.overwritten.items()}
        values = [self._number(s) if s in self.places else arrays[s] for s in results or self.results]
        result = f"({', '.join(values)}{',' if len(values) == 1 else ''})"
        if again is not None and self.result is not None:
            space["again"] = again
            lines = [f"found = {line}" if line.startswith("call(") else line for line in lines]
            lines += ["if found:", f"    return again({result}, ({', '.join([*given, ''])}))"]
        lines.append(f"return {result}")
        text = f"def {self.name}({', '.join(given)}):\n" + "\n".join(f"    {line}" for line in lines)
        exec(compile(text, f"<functad.jit {self.name}>", "exec"), space)  # noqa: S102 - the text was made above
        space["__functad_text__"] = text, self.name
        found: Callable[..., Any] = space[self.name]
        return found

    def _number(self, slot: int) -> str:
        """Return the expression that reads a result from the array of the numbers of its dtype."""
        array, place = self.places[slot]
        return f"o{array}.item({place})" if self._spec(slot).weak else f"o{array}[{place}]"

    def _calls(self, given: Sequence[str], space: dict[str, Any]) -> list[str]:
        """Return the lines that allocate the results and call the native function."""
        lines = []
        if self.parallel:
            from functad.backends.native.threads import parts, shared  # noqa: PLC0415 - small programs need none

            space |= {"parts": parts, "shared": shared}
            lines.append(f"ranges = parts({self.extent})")
        for i, parameter in enumerate(self.outputs):
            space[f"r{i}"], space[f"t{i}"] = parameter.spec.shape, parameter.spec.dtype
            apart = self.parallel and parameter.source in self.apart
            lines.append(f"o{i} = empty({'(len(ranges), *r' + str(i) + ')' if apart else f'r{i}'}, t{i})")
        arguments = [*given, *[f"o{i}" for i in range(len(self.outputs))]]
        if self.crowded:
            arrays, numbers = self._packed()
            lines.append(f"arrays = ({', '.join([arguments[i] for i in arrays])},)")
            for n, (dtype, places) in enumerate(numbers.items()):
                space |= {"array": np.array, f"n{n}": dtype}
                lines.append(f"numbers{n} = array(({', '.join([arguments[i] for i in places])},), n{n})")
            arguments = [name.removeprefix("%") for name in self._bundles()]
        if self.space:
            lines.append(f"space = empty({self.space}, 'u1')")
            arguments.append("space")
        check = []
        if self.code.refused is not None:
            space |= {"zeros": np.zeros, "RefusedError": RefusedError}
            lines.append(f"refused = zeros({'len(ranges)' if self.parallel else ROOM if self.code.looks else 1}, 'u1')")
            arguments.append("refused")
            check = ["if refused.any():" if self.parallel else "if refused[0]:", "    raise RefusedError"]
            if self.code.looks:
                space |= {"raise_noted": raise_noted, "raise_lack_of_memory": raise_lack_of_memory}
                memory = ["if refused[2]:", "    raise_lack_of_memory()"]
                check = ["if refused[1]:", "    raise_noted(refused)", *memory, *check]
        if not self.parallel:
            return [*lines, f"call({', '.join(arguments)})", *check]
        lines += [f"shared(call, ranges, ({', '.join(arguments)},))", *check]
        for i, parameter in enumerate(self.outputs):
            if parameter.source in self.apart:
                space[f"whole{i}"] = _whole(self.plan.equation(parameter.source).primitive.function)
                lines.append(f"o{i} = whole{i}(o{i}, 0)")
                if parameter.spec.shape == ():
                    lines.append(f"o{i} = t{i}.type(o{i})")
        return lines


def _passed(kind: str) -> str:
    """Return the type in which a number is passed: a byte for a boolean."""
    return "i8" if kind == "i1" else kind


def _as_number(spec: ArraySpec) -> str:
    """Return the suffix that converts a result of shape `()` to a Python number or a NumPy scalar."""
    return "" if spec.shape else ".item()" if spec.weak else "[()]"


def _whole(function: Any) -> Callable[..., Any]:
    """Return the function that combines the partial results of threads."""
    ufunc = getattr(ENTRIES.get(function), "reduces", None)
    return function if ufunc is None else ufunc.reduce  # type: ignore[no-any-return]


def fitted(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array in the form that native code reads: C-contiguous, aligned, in native byte order.

    Raises:
        RefusedError: the array holds Python integers beyond int64.
        TypeError: the array has another shape or dtype.
    """
    array = np.require(plain_array(value), None, ["C", "A"])
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == np.object_:
        raise RefusedError
    if array.shape != shape or array.dtype != dtype:
        raise TypeError(f"compiled code for {ArraySpec(shape, dtype)} was given {ArraySpec(array.shape, array.dtype)}")
    return np.asarray(array)


def _search_array(code: Code, found: Value, memory: Memory, size: Index) -> None:
    """Set the flag `found` if a contiguous array contains NaN."""
    own = code.allocate("i1", 1)
    code.store(own, 0, Value(code, "0", "i1"))
    with code.loop(0, size, straight=True) as i:
        value = code.load(code.own(memory.pointer), i, memory.kind)
        code.store(own, 0, code.load(own, 0, "i1") | value.is_nan())
    known = code.own(found)
    code.store(known, 0, code.load(known, 0, "i1") | code.load(own, 0, "i1"))
