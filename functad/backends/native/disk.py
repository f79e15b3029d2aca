"""The compilation caches: loaded machine code in this process, and a directory of machine code that processes share.

The key is a digest of the module text, the processor and the versions of functad and LLVM. Functions of the loop IR number
their names, so equal functions have equal texts, and LLVM compiles them once. The key names a file in the directory. The file
begins with a digest of its name and contents; a damaged file is replaced. A file is written under a temporary name and then
renamed, so no process reads a partial file.

The directory also has the programs of `functad.backends.native.stored`, which refer to machine code by its key.

The cache contains code that will run. A directory that other users own or may write to is therefore not used:
`compilation_cache` raises an error, and the environment variable gives a warning. Permissions are checked at each use. The
system administrator (user 0) may own the directory.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from functad.backends.llvm.module import Library, Machine, binding
from functad.errors import InputError
from functad.places import here, warn
from functad.process import write_whole

_MAGIC = b"functad machine code 2\n"
_STATE: dict[str, Path | None] = {}
_VARIABLE = "FUNCTAD_COMPILATION_CACHE"
_NAMED: dict[str, Path] = {}
"""The absolute path for each value of the environment variable, resolved at its first use."""

_REPORTED: set[Path] = set()
"""Directories that have already caused a warning."""

_LIBRARIES: WeakValueDictionary[Any, Library] = WeakValueDictionary()
"""The loaded libraries, by key and by the addresses of the external functions that they call."""

_RECENT: deque[Library] = deque(maxlen=32)
"""The libraries that were loaded last. They stay loaded, so that a function which is compiled again at each use is not."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def compilation_cache(directory: str | os.PathLike[str] | None) -> None:
    """Cache programs in a directory, so that other processes need not compile the same expression lists again.

    A function is traced in each process. The digest of its expression list is the key of its program. A process that finds the
    program needs neither simplify nor compile the list. Lists with functions of the user (`custom_vjp`, `primitive`) or with
    more than 1 MB of constants are simplified in each process, and only their machine code is cached.

    By default the environment variable `FUNCTAD_COMPILATION_CACHE` names the directory. Without the variable there is no cache.
    The files of one expression list take some kilobytes. functad never deletes files; you may delete any of them at any time.

    A relative path is resolved once, against the current directory at that time.

    Args:
        directory: the directory. A missing directory is created with permissions for its owner only. functad runs the machine
            code in it, so the directory must belong to this user or to the system administrator, and no other user may have
            write permission. `None` turns the cache off.

    Raises:
        InputError: a file has this name, the directory cannot be created, or other users own it or may write to it.

    Warns:
        RuntimeWarning: (at the first compilation) other users own the directory in the environment variable, or may write to
            it. The directory is not used.

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
    if (reason := _unsafe(path)) is not None:
        raise InputError(f"compilation_cache, called at {here()}: {reason}")
    _STATE["directory"] = path


def _unsafe(path: Path) -> str | None:
    """Return the reason not to trust a directory, and the fix; `None` if it is safe or does not exist."""
    if not hasattr(os, "geteuid"):  # Windows: folders of a user are private, and modes mean nothing
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (number {found.st_uid}), and functad runs its code. Name a directory of yours."
    if found.st_mode & _OTHERS_WRITE:
        return f"other users may write to {path}, and functad runs the code in it. Take that right away: chmod go-w {path}."
    return None


def _directory() -> Path | None:
    """Return the cache directory; `None` if there is none or if it is unsafe."""
    if "directory" in _STATE:
        path = _STATE["directory"]
    else:
        named = os.environ.get(_VARIABLE)
        path = _NAMED.setdefault(named, Path(named).absolute()) if named else None
    if path is None or (reason := _unsafe(path)) is None:
        return path
    if path not in _REPORTED:
        _REPORTED.add(path)
        warn(RuntimeWarning(f"compiled code is not kept, at {here()}: {reason}"))
    return None


def loaded(machine: Machine, text: str, names: list[str], imported: Mapping[str, int]) -> Library:
    """Return the loaded functions of a module: those of an equal module, or from the directory, or compiled now.

    Args:
        machine: the target of the compilation.
        text: the text of the module.
        names: the functions that will be called.
        imported: the addresses of external functions that the module calls. They are never cached.
    """
    key = key_of(machine, text)
    return _loaded(machine, key, names, imported, lambda: _code(machine, text, key))  # type: ignore[return-value]


def loaded_from_file(machine: Machine, key: str, names: list[str], imported: Mapping[str, int]) -> Library | None:
    """Return the loaded functions of the module with a key; `None` if its machine code is not in the directory."""
    return _loaded(machine, key, names, imported, lambda: read_file(f"{key}.bin"))


def _loaded(
    machine: Machine, key: str, names: list[str], imported: Mapping[str, int], code: Callable[[], bytes | None]
) -> Library | None:
    own = key, tuple(names), tuple(sorted(imported.items()))
    library = _LIBRARIES.get(own)
    if library is None:
        found = code()
        if found is None:
            return None
        library = _LIBRARIES[own] = machine.loaded(found, names, imported)
        _RECENT.append(library)
    return library


def forget_libraries() -> None:
    """Unload all libraries without a program."""
    _RECENT.clear()


def _code(machine: Machine, text: str, key: str) -> bytes:
    """Return the machine code of a module, from the directory or compiled now."""
    code = read_file(f"{key}.bin")
    if code is None:
        code = machine.compiled(text)
        write_file(f"{key}.bin", code)
    return code


def is_on() -> bool:
    """Return `True` if there is a cache directory."""
    return _directory() is not None


def read_file(name: str) -> bytes | None:
    """Return the content of a file of the directory; `None` if there is no such file or no directory."""
    directory = _directory()
    return None if directory is None else _read(directory / name)


def write_file(name: str, content: bytes) -> None:
    """Write a file of the directory, if there is one."""
    directory = _directory()
    if directory is not None:
        _write(directory / name, content)


def key_of(machine: Machine, text: str) -> str:
    """Return the key of a module."""
    own = sys.modules["functad"].__version__  # a version may optimise the same text differently
    versions: tuple[Any, ...] = (own, machine.triple, machine.cpu, machine.features, machine.level, binding().llvm_version_info)
    return hashlib.sha256("\n".join([*map(str, versions), text]).encode()).hexdigest()


def _read(path: Path) -> bytes | None:
    """Return the code in a file; `None` if the file is missing or damaged."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # reading a FIFO would wait for its writer
                return None
            whole = file.read()
    except OSError:
        return None
    head, code = whole[: len(_MAGIC) + 32], whole[len(_MAGIC) + 32 :]
    return code if head == _MAGIC + _digest(path, code) else None


def _digest(path: Path, code: bytes) -> bytes:
    """Return the digest of the file name (the key) and the code."""
    return hashlib.sha256(path.name.encode() + b"\0" + code).digest()


def _write(path: Path, code: bytes) -> None:
    """Write a file; ignore failures, since the code is then compiled again next time."""
    with suppress(OSError):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write(_MAGIC + _digest(path, code) + code), private=True)
