"""What a compiled function becomes, to look at: its list, its source, its cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from functad.compilation.lists import CompiledList
from functad.compilation.order import peak_bytes
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.records import inputs_of

P = ParamSpec("P")
Q = ParamSpec("Q")
S = ParamSpec("S")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Cost(NamedTuple):
    """What a list costs.

    Attributes:
        operations: the number of equations.
        bytes_moved: bytes that all equations read and write, if each works alone.
        peak_bytes: bytes of the values that live at one time, inputs included.
    """

    operations: int
    bytes_moved: int
    peak_bytes: int


class Both(NamedTuple):
    """A list before and after it was simplified."""

    before: Expressions
    after: Expressions


class Lowered:
    """A function that was traced for some arguments.

    Args:
        traced: the list as it was traced.
        program: what is compiled of it.

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
        """The list as it was traced, and as it is compiled."""
        return Both(self._traced, self._program.expressions)

    def source(self) -> str:
        """Return the text of what will run."""
        return str(self._program.compiled().source)

    def compile(self) -> Any:
        """Return the compiled program, a function from leaves to leaves."""
        return self._program.compiled()

    def cost(self) -> Cost:
        """Return how much is computed, moved and held."""
        own = self._program.expressions
        moved = 0
        for equation in own.equations:
            slots = [*equation.outputs, *inputs_of(equation)]
            moved += sum([own.specs[s].nbytes for s in slots])
            moved += sum([getattr(s.value, "nbytes", 8) for s in equation.inputs if isinstance(s, Constant)])
        return Cost(len(own.equations), moved, peak_bytes(own))


class CacheInfo(NamedTuple):
    """How often a compiled function was called and compiled.

    Attributes:
        hits: calls for which there was a compiled list.
        misses: calls for which the function was traced and compiled.
        size: the number of lists that are kept.
    """

    hits: int
    misses: int
    size: int


class CompiledFunction(Protocol[P, R_co]):
    """A function that `jit` returned."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Show the list that the function becomes for arguments like these, and the source of what will run."""

    def cache_info(self) -> CacheInfo:
        """Return how often the function was called and compiled."""

    def clear_cache(self) -> None:
        """Drop all compiled programs of the function, and set the counts of `cache_info` to zero."""

    def explain_recompile(self) -> str:
        """Say which argument, and what about it, made the last compilation necessary."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> CompiledFunction[P, R_co]: ...
    @overload
    def __get__(
        self: CompiledFunction[Concatenate[Any, S], R_co], instance: object, owner: Any = None
    ) -> Callable[S, R_co]: ...


class Compiles(Protocol[Q]):
    """`jit`: it takes a function and options, or options alone."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> CompiledFunction[..., Any]: ...
    @overload
    def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> CompiledFunction[P, R]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
