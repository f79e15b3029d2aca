"""The backend `llvm`: an expression list as native functions, with NumPy calls for unsupported equations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from functad.backends.careful import Again
from functad.backends.llvm.module import Machine, host
from functad.backends.native.blocks.roll import with_block_loops
from functad.backends.native.called import addresses_of_called
from functad.backends.native.control.interrupts import python_functions
from functad.backends.native.disk import key_of, loaded
from functad.backends.native.divide import Divided
from functad.backends.native.expand import expanded
from functad.backends.native.module_text import ModuleText
from functad.backends.native.plan import Loops
from functad.backends.native.products.blas import addresses_of
from functad.backends.native.step import Step
from functad.backends.numpy_source import NumpyProgram
from functad.backends.refusals import RefusedError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.primitives.entry import Primitive
from functad.process import DUMP, cached_property


class State(NamedTuple):
    """The parts of a program that run, which can be stored on disk.

    Attributes:
        source: the Python code that calls the native functions, with comments.
        program: this code as a program.
        alone: `True` if one native function is the whole program.
        function: the program as a function of the leaves, or `None`.
        strict: the same for arguments of exactly the compiled types.
        refuses: `True` if a call may raise `RefusedError`.
    """

    source: str
    program: NumpyProgram
    alone: bool
    function: Callable[..., Any] | None
    strict: Callable[..., Any] | None
    refuses: bool


class LlvmProgram:
    """An expression list as native functions.

    Args:
        expressions: the list.
        machine: the target of the compilation. Default: this processor.
        again: recomputes the results if one of the checked results contains NaN.
        checked: the positions of the results to check.
        overwritten: maps positions of results to positions of arguments. A result is written into the memory of its argument.

    Attributes:
        source: the Python code that calls the native functions, with a comment that describes each of them.
        text: the text of the LLVM module.
        function: the program as a function of the leaves.
        gives_numbers: `True` if results of shape `()` are never arrays.
        strict: `function` for arguments of exactly the compiled types; others raise `OtherArgumentsError`.
        state: the parts of the program that run.
        natives: the native functions, by name.
        signatures: the types of their arguments and results.
        code_key: the key of the machine code in the compilation cache.
        imported: the names of functions of other libraries that the machine code calls.
        called: the elementary functions that it calls, by symbol.
        nbytes: the bytes of the machine code and its text.
    """

    def __init__(
        self,
        expressions: Expressions,
        machine: Machine | None = None,
        again: Again | None = None,
        checked: Sequence[int] = (),
        overwritten: Mapping[int, int] | None = None,
    ) -> None:
        self._list: Callable[[], Expressions] = lambda: expressions
        self._fallback: NumpyProgram | None = None
        self._machine = host() if machine is None else machine
        self._module: Any = ModuleText(machine)
        self._steps: list[Step] = []
        self._again, self._checked = again, checked
        own = expanded(with_block_loops(expressions), lapack=True)
        found = {s for s in map(own.outputs.__getitem__, checked) if type(s) is int}
        places: Any = {own.outputs[i]: slot for i, slot in (overwritten or {}).items()}
        divided = Divided(own, self._module, self._steps, found, places)
        self.text = self._module.text()
        for stage, text in self.stages.items() if DUMP in os.environ else ():
            if os.environ[DUMP] == stage:
                sys.stderr.write(f"-- {stage}\n{text}\n")
        functions = self._compiled()
        listed = divided.listed(lambda step: _call(step, functions[step.name]))
        program = NumpyProgram(listed, again=again, checked=checked)
        alone = len(listed.equations) == 1 and divided.order == self._steps and self._is_one_call(listed)
        function, strict = self._alone(listed.outputs) if alone else (program.function, None)
        refuses = bool(divided.plan.large or any(step.refuses for step in self._steps))
        source = "\n".join([*map(described, self._steps), "", program.source])
        self._set(State(source, program, alone, function, strict, refuses))

    def _set(self, state: State) -> None:
        self.state = state
        self._program, self.source, self.gives_numbers = state.program, state.source, state.alone
        self.function, self.strict = state.function, state.strict
        if self.function is not None and state.refuses:
            self.function = self._guarded(self.function)
            self.strict = self._guarded(self.strict) if self.strict is not None else None

    def restore(
        self,
        state: State,
        expressions: Callable[[], Expressions],
        again: Again | None,
        checked: Sequence[int],
        nbytes: int,
    ) -> None:
        """Set the attributes of a program from its state. `expressions` returns the list, for calls that NumPy computes."""
        self._list, self._fallback, self._module, self.nbytes = expressions, None, None, nbytes
        self._again, self._checked = again, checked
        self._set(state)

    @cached_property
    def stages(self) -> dict[str, str]:
        """The text of the functions of the loop IR, and of the LLVM module."""
        if self._module is None:  # a program from disk
            return LlvmProgram(self._list(), again=self._again, checked=self._checked).stages
        return {"loops": "\n\n".join(map(str, self._module.functions)), "llvm": self.text}

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for input leaves. The caller owns the output arrays."""
        try:
            return self._program(leaves)
        except RefusedError:
            return self._by_numpy(leaves)

    def _by_numpy(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Compute the list with NumPy, which can raise the errors that native code cannot."""
        if self._fallback is None:
            self._fallback = NumpyProgram(self._list(), again=self._again, checked=self._checked)
        return self._fallback(leaves)

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that falls back to NumPy if native code rejects the arguments."""

        def guarded(*leaves: Any) -> Any:
            try:
                return function(*leaves)
            except RefusedError:
                return self._by_numpy(leaves)

        return guarded

    def _is_one_call(self, listed: Expressions) -> bool:
        """Return `True` if the only native function has exactly the inputs and the outputs of the list."""
        [equation] = listed.equations
        given = equation.inputs == tuple(range(len(listed.inputs)))
        return given and Constant not in map(type, listed.outputs) and sorted(listed.outputs) == sorted(equation.outputs)  # type: ignore[type-var]

    def _alone(self, results: Any) -> tuple[Any, Any]:
        """Return the only native function and its strict form, which is `None` if an argument is an integer."""
        [step] = self._steps
        native = self.natives[step.name]
        integers = any(parameter.by_value and parameter.number is None for parameter in step.inputs)
        quick = step.caller(native, results, again=self._again)
        return quick, None if integers else step.caller(native, results, strict=True, again=self._again)

    def _compiled(self) -> dict[str, Any]:
        """Compile the module, and return its functions as functions of NumPy arrays."""
        self.natives: dict[str, Any] = {}
        self.nbytes = len(self.text)
        self.signatures: dict[str, tuple[list[Any], Any]] = {}
        self.code_key, self.imported, self.called = "", self._module.imported, self._module.called
        if not self._steps:
            return {}
        names = [step.name for step in self._steps]
        own, machine = self._module.imported, self._machine
        imported = {**addresses_of(own), **python_functions(own), **addresses_of_called(machine, self._module.called)}
        library, self.code_key = loaded(machine, self.text, names, imported), key_of(machine, self.text)
        self.nbytes += library.nbytes
        self.signatures = {step.name: (step.types(), step.result) for step in self._steps}
        self.natives = {
            name: library.function(name, *types, result=result) for name, (types, result) in self.signatures.items()
        }
        return {step.name: step.caller(self.natives[step.name]) for step in self._steps}


class NativeCall(Primitive):
    """A native function as a primitive.

    Args:
        name: the name of the function.
        compute: the function.
    """

    is_native = True

    def __init__(self, name: str, compute: Any) -> None:
        super().__init__(
            compute,
            name=name,
            kind="general",
            names=(),
            compute=compute,
            vjps=(),
            doc="",
            samples=None,
            multiple=True,
            fresh=True,
            registered=False,
        )

    def __call__(self, *arrays: Any) -> Any:
        """Compute the results. A loop that NumPy runs calls the native functions of its body in this way."""
        return self.compute(*arrays)


def _call(step: Step, function: Any) -> Equation:
    """Return the equation that calls a native function."""
    call = NativeCall(step.name, function)
    return Equation(call, tuple([p.source for p in step.inputs]), {}, tuple(step.results))


def described(step: Step) -> str:
    """Return a comment that describes a native function."""
    plan = step.plan
    lines = [f"# {step.name}:" + (" by several threads:" if step.parallel else "")]
    for unit in step.units:
        if isinstance(unit, Loops):
            shape = " x ".join(map(str, unit.domain))
            made = [f"v{s}" for s in unit.stored] + [f"v{s} = {plan.equation(s).primitive.name}" for s in unit.reduced]
            lines.append(f"#   a loop over {shape}: {', '.join(made)}")
        else:
            lines.append(f"#   {', '.join(f'v{s}' for s in unit.outputs)} = {unit.primitive.name}")
    if step.exports:
        lines.append(f"#   {', '.join(f'v{s}' for s in step.exports)}")
    return "\n".join(lines)
