"""Programs on disk: a process that finds one needs no simplification, planning, text of LLVM or text of Python.

The key is a digest of the expression list as traced, the options, the processor, the sources of functad, and the versions of
the packages that a program calls. The file has the state of the program, pickled: the text and the names of its Python
functions, the signatures of its native functions, and the key of the machine code, which is another file of the directory.
Lists with functions or objects of the user are not stored. A program that cannot be pickled is not stored either.

Unpickling a file runs code, as machine code in the same directory does: see `functad.backends.native.disk`.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from functad.backends.careful import Again
from functad.backends.llvm.module import Machine, host
from functad.backends.native.called import addresses_of_called
from functad.backends.native.control.interrupts import python_functions
from functad.backends.native.disk import loaded_from_file, read_file, write_file
from functad.backends.native.products.blas import addresses_of
from functad.backends.native.program import LlvmProgram
from functad.expressions.expressions import Expressions

_TEXT = "__functad_text__"
"""The global of functions made from text that holds the text and the name of the function."""


def file_of(key: Any) -> str:
    """Return the name of the file of a program.

    Args:
        key: everything that identifies the list and the options. Equal keys have equal `repr`s.
    """
    machine = host()
    processor = machine.triple, machine.cpu, machine.features, machine.level
    return f"{hashlib.sha256(repr((key, processor, _versions(), _sources())).encode()).hexdigest()}.program"


@cache
def _versions() -> tuple[str, ...]:
    """Return the versions of Python and of the packages whose functions a program may call."""
    found = [sys.version]
    for package in ("functad", "numpy", "scipy", "llvmlite"):
        try:
            found.append(version(package))
        except PackageNotFoundError:
            found.append("")
    return tuple(found)


@cache
def _sources() -> str:
    """Return a digest of the sizes and times of the files of functad, so that a changed checkout finds no old program."""
    root, found = Path(sys.modules["functad"].__path__[0]), []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                own = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - twice as fast as `Path`
                found.append((folder[len(str(root)) :], name, own.st_size, own.st_mtime_ns))
    return hashlib.sha256(repr(found).encode()).hexdigest()


class _Pickler(pickle.Pickler):
    """Pickles functions made from text as their texts, and native functions and `again` by name."""

    def __init__(self, file: Any, natives: dict[int, str], again: Again | None) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._natives, self._again = natives, again

    def persistent_id(self, value: Any) -> Any:
        """Return the name of an object that the reader supplies."""
        if value is self._again and value is not None:
            return "again", ""
        name = self._natives.get(id(value))
        return None if name is None else ("native", name)

    def reducer_override(self, value: Any) -> Any:
        """Return how to make a function from its text."""
        if type(value) is not FunctionType or _TEXT not in value.__globals__:
            return NotImplemented
        space = value.__globals__
        rest = {k: v for k, v in space.items() if k not in ("__builtins__", _TEXT) and not _is_of_text(v, space)}
        return made_function, (*space[_TEXT], rest)


def _is_of_text(value: Any, space: dict[str, Any]) -> bool:
    """Return `True` for functions that the text defines, and for modules that it imports."""
    return type(value) is ModuleType or (type(value) is FunctionType and value.__globals__ is space)


def made_function(text: str, name: str, space: dict[str, Any]) -> Any:
    """Return the function `name` that a text defines, with `space` as its globals."""
    exec(compile(text, f"<functad.jit {name}>", "exec"), space)  # noqa: S102 - the text of a program in a trusted directory
    space[_TEXT] = text, name
    return space[name]


def write(name: str, program: Any, again: Again | None) -> None:
    """Write a program to the file `name` of the cache directory, if there is one and the program can be pickled."""
    if type(program) is not LlvmProgram:
        return
    natives = {id(function): own for own, function in program.natives.items()}
    file = io.BytesIO()
    try:
        _Pickler(file, natives, again).dump(program.state)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return
    head = program.code_key, program.signatures, sorted(program.imported), dict(program.called)
    write_file(name, pickle.dumps((head, file.getvalue())))


def read(name: str, expressions: Callable[[], Expressions], again: Again | None, checked: Any) -> LlvmProgram | None:
    """Return the program in the file `name` of the cache directory, or `None`.

    Args:
        name: the name of the file.
        expressions: returns the list that the backend would compile. Called if NumPy must compute a call.
        again: recomputes the results if one of the checked results contains NaN.
        checked: the positions of the results to check.
    """
    data = read_file(name)
    if data is None:
        return None
    try:
        return _restored(pickle.loads(data), expressions, again, checked, host())  # noqa: S301 - trusted
    except (ImportError, AttributeError):  # a package is missing
        return None


def _restored(
    data: Any, expressions: Callable[[], Expressions], again: Again | None, checked: Any, machine: Machine
) -> LlvmProgram | None:
    """Return the program of unpickled data; `None` if its machine code is missing, or a library that it calls."""
    (code, signatures, imported, called), state = data
    natives: dict[str, Any] = {}
    nbytes = len(state)
    if signatures:
        addresses = {**addresses_of(set(imported)), **python_functions(set(imported))}
        if not addresses.keys() >= set(imported):
            return None
        addresses |= addresses_of_called(machine, called)
        library = loaded_from_file(machine, code, list(signatures), addresses)
        if library is None:
            return None
        nbytes += library.nbytes
        natives = {own: library.function(own, *types, result=result) for own, (types, result) in signatures.items()}
    found = LlvmProgram.__new__(LlvmProgram)
    found.restore(_Unpickler(io.BytesIO(state), natives, again).load(), expressions, again, checked, nbytes)
    return found


class _Unpickler(pickle.Unpickler):
    """The reader of `_Pickler`."""

    def __init__(self, file: Any, natives: dict[str, Any], again: Again | None) -> None:
        super().__init__(file)
        self._natives, self._again = natives, again

    def persistent_load(self, own: Any) -> Any:
        """Return an object by its name."""
        kind, name = own
        return self._again if kind == "again" else self._natives[name]
