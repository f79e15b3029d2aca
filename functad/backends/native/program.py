"""The backend `llvm`: an expression list as native functions, and as NumPy calls where it has what they do not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.llvm.module import host
from functad.backends.native.blas import addresses_of
from functad.backends.native.disk import loaded
from functad.backends.native.expand import expanded
from functad.backends.native.module_text import ModuleText
from functad.backends.native.plan import Loops, Plan
from functad.backends.native.step import Step
from functad.backends.numpy_source import NumpyProgram
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of

SHARED = 200_000.0
"""Loops that take as long as so many additions are shared by several threads."""


class LlvmProgram:
    """An expression list as native functions.

    Attributes:
        source: what runs: Python, in which native functions are called, with what each of them does.
        text: of the module of LLVM.
    """

    def __init__(self, expressions: Expressions) -> None:
        expressions = expanded(expressions)
        self._plan = Plan(expressions)
        self._module = ModuleText()
        self._steps: list[Step] = []
        self._order: list[Step | Equation] = []
        self._divide()
        self._write()
        self.text = self._module.text()
        functions = self._compiled()
        made = [self._as_equation(item, functions) if isinstance(item, Step) else item for item in self._order]
        listed = expressions.replace(equations=tuple(made))
        self._program = NumpyProgram(listed)
        alone = len(made) == 1 and self._order == self._steps
        self.function = self._alone(listed, functions) if alone else self._program.function
        self.source = "\n".join([*map(described, self._steps), "", self._program.source])

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for input leaves; arrays among them are nobody else's."""
        return self._program(leaves)

    def _alone(self, listed: Expressions, functions: dict[str, Any]) -> Any:
        """Return the only native function, if its arguments and results are those of the list."""
        [step] = self._steps
        [equation] = listed.equations
        if equation.inputs == tuple(range(len(listed.inputs))) and equation.outputs == listed.outputs:
            return functions[step.name]
        return self._program.function

    def _divide(self) -> None:
        """Divide the units into steps: native functions, loops for several threads, equations for NumPy."""
        plan, units, exported = self._plan, [], set()  # type: ignore[var-annotated]
        count = len(plan.expressions.inputs)

        def close(small: Sequence[int], parallel: bool = False) -> None:
            nonlocal units
            fresh = [s for s in dict.fromkeys(small) if s not in exported]
            if units or fresh:
                exported.update(fresh)
                step = Step(plan, self._module, len(self._steps) + 1, units, fresh, parallel)
                self._steps.append(step)
                self._order.append(step)
                units = []

        for unit in plan.units:
            if isinstance(unit, Equation) and plan.way(unit.outputs[0]) is None:
                close([s for s in inputs_of(unit) if s in plan.tiny])
                self._order.append(unit)
            elif isinstance(unit, Loops) and self._is_large(unit):
                close([])
                units = [unit]
                close([], parallel=True)
            else:
                units.append(unit)
        close([s for s in plan.expressions.outputs if type(s) is int and s >= count and s in plan.tiny])

    def _is_large(self, unit: Loops) -> bool:
        cost = 1.0 + len(unit.stored) + len(unit.reduced)
        return float(np.prod(unit.domain, dtype=float)) * cost >= SHARED

    def _write(self) -> None:
        """Write all steps, the last one first: it is known then what those before must give."""
        plan = self._plan
        wanted = {s for s in plan.expressions.outputs if type(s) is int}
        given = set(range(len(plan.expressions.inputs)))
        before: list[set[int]] = []
        for item in self._order:
            before.append(set(given))
            given.update(item.makes() if isinstance(item, Step) else item.outputs)
        for item, known in zip(reversed(self._order), reversed(before), strict=True):
            if isinstance(item, Step):
                item.write(known, wanted)
                wanted.update(p.source for p in item.inputs if type(p.source) is int)
            else:
                wanted.update(inputs_of(item))

    def _compiled(self) -> dict[str, Any]:
        """Compile the module, and return its functions as functions of NumPy's arrays."""
        if not self._steps:
            return {}
        machine = host()
        names = [step.name for step in self._steps]
        library = loaded(machine, self.text, names, addresses_of(self._module.imported))
        return {step.name: step.caller(library.function(step.name, *step.types())) for step in self._steps}

    def _as_equation(self, step: Step, functions: dict[str, Any]) -> Equation:
        call = NativeCall(step.name, functions[step.name])
        return Equation(call, tuple([p.source for p in step.inputs]), {}, tuple(step.results))  # type: ignore[arg-type]


class NativeCall:
    """A native function in the place of a primitive.

    Attributes:
        name: of the function.
        compute: the function.
    """

    multiple = True
    is_native = True
    inner = None
    owner = None
    views = None
    lists = ""

    def __init__(self, name: str, compute: Any) -> None:
        self.name = name
        self.compute = compute
        self.function = compute


def described(step: Step) -> str:
    """Say what a native function computes, as a comment."""
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
