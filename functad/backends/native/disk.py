"""Machine code kept in a directory, for other processes and later ones.

A file is named by a digest of the text of a module, of the processor, and of the versions that made it; it begins with a digest
of its name and contents. What is damaged is written anew. A file is written under another name first and then renamed, so
that no process sees a part of one. It is machine code that will run: the directory must be one that nobody else may write to.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from functad.backends.llvm.module import Library, Machine, binding
from functad.errors import InputError
from functad.files import write_whole
from functad.places import here

_MAGIC = b"functad machine code 2\n"
_STATE: dict[str, Path | None] = {}
_VARIABLE = "FUNCTAD_COMPILATION_CACHE"


def compilation_cache(directory: str | os.PathLike[str] | None) -> None:
    """Keep machine code in a directory, so that other processes need not compile the same lists again.

    Without a call the environment variable `FUNCTAD_COMPILATION_CACHE` names the directory; if it is not set, nothing is kept.
    The code of one list takes some kilobytes. Files are never deleted by functad; any of them may be deleted at any time.

    Args:
        directory: the directory, which is made if it does not exist. Machine code is run from it, so nobody else should be able
            to write there. `None` keeps nothing.

    Raises:
        InputError: there is a file of this name, or the directory cannot be made.

    Example:
        >>> import tempfile, numpy as np, functad
        >>> functad.compilation_cache(tempfile.mkdtemp())
        >>> float(functad.jit(lambda x: np.sum(x * x))(np.ones(3)))
        3.0
        >>> functad.compilation_cache(None)
    """
    if directory is None:
        _STATE["directory"] = None
        return
    path = Path(directory).absolute()
    try:
        path.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"compilation_cache, called at {here()}: {path} is no directory and cannot be made one: {error}."
        ) from error
    _STATE["directory"] = path


def _directory() -> Path | None:
    if "directory" in _STATE:
        return _STATE["directory"]
    named = os.environ.get(_VARIABLE)
    return Path(named) if named else None


def loaded(machine: Machine, text: str, names: list[str], imported: Mapping[str, int]) -> Library:
    """Return the functions of a module, compiled or from the directory of machine code.

    Args:
        machine: what to compile for.
        text: of the module.
        names: of the functions that will be called.
        imported: addresses of functions that the module calls, which are never kept.
    """
    directory = _directory()
    if directory is None:
        return machine.loaded(machine.compiled(text), names, imported)
    path = directory / f"{_key(machine, text)}.bin"
    code = _read(path)
    if code is None:
        code = machine.compiled(text)
        _write(path, code)
    return machine.loaded(code, names, imported)


def _key(machine: Machine, text: str) -> str:
    own = sys.modules["functad"].__version__  # by which code is optimised otherwise
    versions: tuple[Any, ...] = (own, machine.triple, machine.cpu, machine.features, machine.level, binding().llvm_version_info)
    return hashlib.sha256("\n".join([*map(str, versions), text]).encode()).hexdigest()


def _read(path: Path) -> bytes | None:
    """Return the code in a file; `None` if there is none, or it is damaged."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # to read a FIFO would wait for its writer
                return None
            whole = file.read()
    except OSError:
        return None
    head, code = whole[: len(_MAGIC) + 32], whole[len(_MAGIC) + 32 :]
    return code if head == _MAGIC + _digest(path, code) else None


def _digest(path: Path, code: bytes) -> bytes:
    """Return a digest of the key, which is the name of the file, and of the code."""
    return hashlib.sha256(path.name.encode() + b"\0" + code).digest()


def _write(path: Path, code: bytes) -> None:
    """Write a file, if that is possible: where it is not, the code is compiled again next time."""
    with suppress(OSError):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write(_MAGIC + _digest(path, code) + code), private=True)
