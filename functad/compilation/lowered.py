"""`Lowered`: the expression list, the source, the cost and the object file of a compiled function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from functad.compilation.lists import CompiledList
from functad.compilation.object_file import write_object_file
from functad.compilation.passes import after_each_pass, simplified
from functad.compilation.passes.schedule import peak_bytes
from functad.errors import InputError, UnsupportedError
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.records import inputs_of
from functad.places import call_of, here

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
        compiler: the options and the programs of the function.
        key: the key of the kind of the arguments.
        entry: the compiled function, or its paths, for this kind of arguments.
        traced: the list of the function, or of one path.
        program: the program of this list.
        again: traces the function again; `None` for a path, which is valid for some values only.

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

    def __init__(
        self,
        compiler: Any,
        key: Any,
        entry: Any,
        traced: Expressions,
        program: CompiledList,
        again: Callable[[], Expressions] | None,
    ) -> None:
        self._compiler, self._key, self._entry, self._again = compiler, key, entry, again
        self._traced, self._program = traced, program

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

    def compile(self) -> Compiled:
        """Return the compiled function. It takes arguments of the same structure, shapes and dtypes, and never compiles again.

        Example:
            >>> import numpy as np, functad
            >>> total = functad.jit(lambda p: {"sum": np.sum(p["x"])}).lower({"x": np.ones(3)}).compile()
            >>> total({"x": np.arange(3.0)})
            {'sum': np.float64(3.0)}
        """
        self._program.compiled()
        return Compiled(self._compiler, self._key, self._entry, self._program)

    def object_file(self, path: str | os.PathLike[str], name: str | None = None, cpu: str = "generic") -> tuple[Path, Path]:
        """Write the function as an object file and a C header, for programs without Python. Needs llvmlite.

        The C function takes one pointer per array or number of the arguments, named after its path, then one per result.
        Arrays are contiguous and in C order; numbers are arrays of one element. The function returns 0, or a positive number if
        a check failed. The header lists the pointers with shapes and dtypes, and these numbers.

        Constants are part of the file. Variables that the function reads are further arguments; values that it assigns to them
        are further results.

        Args:
            path: the path of the files, without or with the suffix `.o`. The header has the suffix `.h`.
            name: the name of the C function. Default: the name of the file.
            cpu: `"generic"`, any processor of the architecture of this one; `"native"`, this processor; or `"x86-64-v2"`,
                `"x86-64-v3"`, `"x86-64-v4"`, levels of x86-64 processors.

        Returns:
            The paths of the object file and of the header.

        Raises:
            UnsupportedError: the function needs an operation that native code leaves to NumPy, or branches on values. The
                message names the operation, its line and the fix.
            InputError: the name is not an identifier of C, `cpu` is unknown, or the function reads Tensors of other transforms.
            MissingPackageError: llvmlite is not installed.

        Example:
            >>> import pathlib, tempfile, numpy as np, functad
            >>> def energy(q):
            ...     return np.sum(q["length"] ** 2) / 2
            >>> lowered = functad.jit(functad.grad(energy)).lower({"length": np.ones(3)})
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _, header = lowered.object_file(pathlib.Path(folder, "force"))
            ...     header.read_text().splitlines()[-6]
            'int force(const double *q_length, double *out_length);'
        """
        if self._again is None:
            raise UnsupportedError(
                f"{call_of('object_file', self._compiler.f)}: the function takes a path that depends on values. The C function "
                f"can take no other. Choose between values with np.where(condition, a, b), between computations with "
                f"functad.cond, and repeat with functad.while_loop."
            )
        return write_object_file(self._compiler.f, self._entry, self._again, Path(path), name, cpu)

    def cost(self) -> Cost:
        """Return the number of operations, the bytes moved and the peak memory of the compiled list."""
        own = self._program.expressions
        moved = 0
        for equation in own.equations:
            slots = [*equation.outputs, *inputs_of(equation)]
            moved += sum([own.specs[s].nbytes for s in slots])
            moved += sum([getattr(s.value, "nbytes", 8) for s in equation.inputs if isinstance(s, Constant)])
        return Cost(len(own.equations), moved, peak_bytes(own))


class Compiled:
    """A compiled function for one kind of arguments.

    Args:
        compiler: the options and the programs of the function.
        key: the key of the kind of the arguments.
        entry: the compiled function, or its paths, for this kind of arguments.
        program: the compiled list.
    """

    def __init__(self, compiler: Any, key: Any, entry: Any, program: CompiledList) -> None:
        self._compiler, self._key, self._entry, self._program = compiler, key, entry, program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Raises:
            InputError: the structure, a shape, a dtype or a static argument is another one. The message names it.
        """
        return self._compiler.run(self._entry, self._key, args, kwargs)

    @property
    def program(self) -> Any:
        """The program of the backend, a function from input leaves to output leaves."""
        return self._program.compiled()


class _Counts(NamedTuple):
    hits: int
    misses: int
    size: int


class CacheInfo(_Counts):
    """Counts of calls and compilations of a compiled function, as a tuple of three numbers.

    Attributes:
        hits: the number of calls that found a compiled list.
        misses: the number of calls that traced and compiled the function.
        size: the number of compiled lists that the function keeps.
    """

    _guards: Sequence[Sequence[object]] = ()

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of a function that branches on values: for each path, the lines that asked for values, and the values."""
        return tuple([tuple(map(str, guards)) for guards in self._guards])


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
