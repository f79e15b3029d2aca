"""`Lowered`: the expression list, the source and the cost of a compiled function, for inspection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from functad.compilation.lists import CompiledList
from functad.compilation.passes import after_each_pass, simplified
from functad.compilation.passes.schedule import peak_bytes
from functad.errors import InputError
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.records import inputs_of
from functad.places import here

P = ParamSpec("P")
Q = ParamSpec("Q")
S = ParamSpec("S")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Cost(NamedTuple):
    """The cost of an expression list.

    Attributes:
        operations: the number of equations.
        bytes_moved: the bytes that all equations read and write, without fusion.
        peak_bytes: the maximal number of bytes of all values alive at one time, inputs included.
    """

    operations: int
    bytes_moved: int
    peak_bytes: int


class Both(NamedTuple):
    """A list before and after simplification."""

    before: Expressions
    after: Expressions


class Lowered:
    """A function, traced and compiled for some arguments.

    Args:
        traced: the list as traced.
        program: the compiled list.

    Example:
        >>> import numpy as np, functad
        >>> lowered = functad.jit(lambda x: np.sin(x) + np.sin(x), backend="numpy").lower(1.0)
        >>> lowered.expressions.after
        { lambda x:float[].
          a:float64[] = sin x
          b:float64[] = add a a
          return b }
        >>> print(lowered.source())
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def run(x):
            v1 = np.sin(x)
            v2 = v1 + v1
            del v1
            return (v2,)
        <BLANKLINE>
    """

    def __init__(self, traced: Expressions, program: CompiledList) -> None:
        self._traced = traced
        self._program = program

    def __repr__(self) -> str:
        before, after = [len(each.equations) for each in self.expressions]
        return (
            f"Lowered({before:,} operations as traced, {after:,} as compiled; `.expressions` has them, `.source()` what runs, "
            f"`.cost()` what it takes)"
        )

    @property
    def expressions(self) -> Both:
        """The list as traced and as compiled."""
        return Both(self._traced, self._program.expressions)

    def source(self) -> str:
        """Return the source of the compiled program."""
        return str(self._program.compiled().source)

    def dump(self, stage: str = "passes") -> str:
        """Return the text of the function at a stage of the compilation.

        Args:
            stage: `"passes"`, the expression list before the first pass and after each pass that changed it. The lists inside
                loops and branches take the same passes, so the text has them too. `"loops"`, the functions of the loop IR, and
                `"llvm"`, the LLVM module that they become; the backend `llvm` has these stages.

        Raises:
            InputError: the backend has no such stage.
        """
        program, parts = self._program, list[str]()
        if stage != "passes":
            stages: dict[str, str] = getattr(program.compiled(), "stages", {})
            if stage not in stages:
                known = ", ".join(map(repr, ["passes", *stages]))
                raise InputError(
                    f"the backend {program.backend.name!r} has no stage {stage!r}, at {here()}. There are {known}."
                )
            return stages[stage]
        with after_each_pass(lambda name, own: parts.append(f"-- {name}\n{own}")):
            simplified(program.forms.expressions, program.exact, fused=program.backend.fuses)
        return "\n".join(parts)

    def compile(self) -> Any:
        """Return the compiled program, a function from input leaves to output leaves."""
        return self._program.compiled()

    def cost(self) -> Cost:
        """Return the number of operations, the bytes moved and the peak memory of the compiled list."""
        own = self._program.expressions
        moved = 0
        for equation in own.equations:
            slots = [*equation.outputs, *inputs_of(equation)]
            moved += sum([own.specs[s].nbytes for s in slots])
            moved += sum([getattr(s.value, "nbytes", 8) for s in equation.inputs if isinstance(s, Constant)])
        return Cost(len(own.equations), moved, peak_bytes(own))


class CacheInfo(NamedTuple):
    """Counts of calls and compilations of a compiled function.

    Attributes:
        hits: the number of calls that found a compiled list.
        misses: the number of calls that traced and compiled the function.
        size: the number of compiled lists that the function keeps.
    """

    hits: int
    misses: int
    size: int


class CompiledFunction(Protocol[P, R_co]):
    """A function that `jit` returned."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Return the expression list for such arguments, with the source and the cost of the compiled program."""

    def cache_info(self) -> CacheInfo:
        """Return the numbers of calls with and without a compiled program."""

    def clear_cache(self) -> None:
        """Drop all compiled programs of the function, and reset the counts of `cache_info` to zero."""

    def explain_recompile(self) -> str:
        """Return a message that names the argument that caused the last compilation, and its change."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> CompiledFunction[P, R_co]: ...
    @overload
    def __get__(
        self: CompiledFunction[Concatenate[Any, S], R_co], instance: object, owner: Any = None
    ) -> Callable[S, R_co]: ...


class Compiles(Protocol[Q]):
    """The type of `jit`, which takes a function and options, or options alone."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> CompiledFunction[..., Any]: ...
    @overload
    def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> CompiledFunction[P, R]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
