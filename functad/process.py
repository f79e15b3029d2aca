"""The process that functad runs in: forks, threads, memory, files and imports.

Forks. The child of `os.fork` has one thread: the copy of the thread that called `os.fork`. A lock that another thread held at
that moment stays locked in the child, and the child waits for it forever. Every lock of the package is therefore registered
here. Python's import system has a lock for each module, and does not free it in the child. functad imports most of its modules
on first use, so `os.fork` waits until no other thread runs an import within functad.

Threads. A context variable has a temporary value per thread, which is restored after any exit, including interrupts. An
interrupt may arrive between any two instructions: between the set and the following `try`, or inside the `finally` that
restores the value. So the old value is read first, and is restored a second time if an exception was raised.

Memory. A derivative holds the arrays of its forward pass and frees all of them at its end. The allocator of the GNU C library
returns large freed blocks to the system, which maps and clears their pages again in the next call. It stops returning them
after the program has freed one larger block (malloc(3), M_MMAP_THRESHOLD: "dynamic adjustment").
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from importlib import import_module
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from functad.errors import MissingPackageError
from functad.places import here

if TYPE_CHECKING:
    from pathlib import Path

L = TypeVar("L")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DUMP = "FUNCTAD_DUMP"
"""The environment variable that prints a stage of each compilation: `pass`, `loops` or `llvm`."""

# Forks

LONGEST_IMPORT = 10.0
"""Seconds that `os.fork` waits for imports. The limit ends a deadlock with an import that waits for the forking thread."""

_HELD: list[Any] = []
_TAKEN: list[Any] = []


def renewed(lock: L, repair: Callable[[], object] = bool) -> L:
    """Return a lock that is free in the child of each fork.

    Use it for a lock that guards data such as a dictionary: they are consistent between any two instructions of Python.

    Args:
        lock: the lock.
        repair: called in the child if another thread held the lock.
    """
    own: Any = lock

    def renew() -> None:
        if own.acquire(blocking=False):  # it is free, or the forking thread holds it and releases it in the child
            own.release()
        else:
            own._at_fork_reinit()
            repair()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew)
    return lock


def held(lock: Any) -> None:
    """Let `os.fork` wait until no other thread holds a lock, and hold it while the process forks.

    Use it for a lock whose data are inconsistent while it is held, such as the objects of a library in C++.

    Args:
        lock: an instance of `threading.RLock`. If threads take two such locks in nested order, register the outer lock first.
    """
    if lock not in _HELD:
        _HELD.append(lock)


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - the name of its base class
    """`functools.cached_property` whose lock (in Python 3.11) is free in the child of a fork."""

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        super().__init__(func)
        if hasattr(self, "lock"):
            renewed(self.lock)


def _imports(frame: FrameType | None) -> bool:
    """Return `True` if a stack has an import within functad: the body of a module, or an import in a function."""
    importing = False
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        importing = importing or name == "importlib._bootstrap"
        if name.partition(".")[0] == "functad" and (importing or frame.f_code.co_name == "<module>"):
            return True
        frame = frame.f_back
    return False


def _before_fork() -> None:
    """Take the registered locks before a fork, at a moment when no other thread imports functad."""
    own, end = threading.get_ident(), time.monotonic() + LONGEST_IMPORT
    while True:
        for lock in _HELD:
            lock.acquire()
            _TAKEN.append(lock)
        others = [frame for thread, frame in sys._current_frames().items() if thread != own]
        if not any(map(_imports, others)) or time.monotonic() > end:
            return
        _after_fork()  # an import may need the locks
        time.sleep(0.001)


def _after_fork() -> None:
    """Release the locks that were taken."""
    while _TAKEN:
        _TAKEN.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


# Threads

_HERE = threading.local()


class ThreadVariable(Generic[T]):
    """A context variable whose values hold in the thread that set them, even if other threads copy its context.

    Args:
        name: the name of the variable.
        default: the value before the first `set`.
    """

    def __init__(self, name: str, *, default: T) -> None:
        self._default = default
        self._held: ContextVar[tuple[object, T]] = ContextVar(name, default=(None, default))

    def get(self) -> T:
        """Return the value that this thread has set, or the default."""
        thread, value = self._held.get()
        return value if thread is _thread() else self._default

    def set(self, value: T) -> Token[tuple[object, T]]:
        """Set the value for this thread and for copies of its context within the thread."""
        return self._held.set((_thread(), value))

    def reset(self, token: Token[tuple[object, T]]) -> None:
        """Restore the value before `set`."""
        self._held.reset(token)


def _thread() -> object:
    """Return an object that identifies this thread. Thread numbers can be reused by later threads."""
    try:
        return _HERE.thread
    except AttributeError:
        _HERE.thread = object()
        return _HERE.thread


def context_variable(name: str, *, default: T) -> ContextVar[T]:
    """Return a context variable for data of one thread: open tapes and traces, settings.

    In free-threaded Python, and with `thread_inherit_context`, threads start with a copy of the context of their parent thread.
    """
    inherited = getattr(sys.flags, "thread_inherit_context", False)  # since Python 3.14
    kind: Any = ThreadVariable if inherited else ContextVar
    return kind(name, default=default)  # type: ignore[no-any-return]


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Return a context manager that sets a context variable."""
    before = variable.get()
    try:
        try:
            variable.set(value)
            yield
        finally:
            variable.set(before)
    except BaseException:
        variable.set(before)
        raise


# Memory

_BLOCK_BYTES = 31 << 20
"""Slightly below 32 MiB, the largest block that moves the threshold."""


def keep_freed_memory() -> None:
    """Let the process keep freed memory for the next call, instead of returning it to the system.

    Call it once at the start of a program that repeatedly computes gradients with arrays of 128 KiB to 30 MiB. The gradient of
    a Gaussian mixture with arrays of 2 MB then takes about half of the time, because it needs no new pages.

    The function allocates a block of 31 MiB and frees it, untouched, in 10 us. From then on, the GNU C library (Linux) keeps up
    to 64 MiB of freed memory per thread in the whole process. The same happens when a program frees an array of this size. With
    other allocators the function has no effect. functad never calls it itself.

    Example:
        >>> import functad
        >>> functad.keep_freed_memory()
    """
    with suppress(MemoryError):  # a limit of the process may leave less memory
        np.empty(_BLOCK_BYTES, np.uint8)


# Files


def write_whole(path: Path, write: Callable[[IO[bytes]], object], *, private: bool = False) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    Args:
        path: the path of the file.
        write: a function that writes to the file object that it receives.
        private: `True` to make the file readable by its owner only.
    """
    import uuid  # noqa: PLC0415 - few programs write files

    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        try:
            temporary.touch(0o600 if private else 0o666, exist_ok=False)
            with temporary.open("wb") as file:
                write(file)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except BaseException:  # an interrupt may arrive before the `finally` has finished
        temporary.unlink(missing_ok=True)
        raise


# Imports


def by_name(value: Any, *modules: str | None) -> tuple[Any, tuple[str, str]] | None:
    """Return the result of `__reduce__` for an object that a module holds, by import; `None` if no module holds it.

    Modules that cloudpickle pickles by value, such as `__main__`, do not count: they differ in the reading process.

    Args:
        value: the object.
        modules: the names of the modules to search. In each, the qualified name of the object is tried first.
    """
    for module in modules:
        if _by_value(module):
            continue
        held = vars(sys.modules[module]) if module in sys.modules else {}
        names = [getattr(value, "__qualname__", ""), *[name for name, other in held.items() if other is value]]
        for name in names:
            try:
                if name and operator.attrgetter(name)(sys.modules[module]) is value:  # type: ignore[index]
                    return imported, (module, name)  # type: ignore[return-value]
            except (AttributeError, KeyError):
                continue
    return None


def _by_value(module: str | None) -> bool:
    """Return `True` if cloudpickle, or a copy of it in another package, is pickling objects of a module by value."""
    registered: Any = getattr(sys.modules.get("cloudpickle"), "list_registry_pickle_by_value", frozenset)()
    if module != "__main__" and module not in registered:
        return False
    frame: Any = sys._getframe(1)
    while frame is not None and "cloudpickle" not in str(frame.f_globals.get("__name__")).split("."):
        frame = frame.f_back
    return frame is not None


def imported(module: str, name: str) -> Any:
    """Return an object by module and name. The name may be qualified by classes: `C.f`."""
    return operator.attrgetter(name)(import_module(module))


def calling_module(frame: Any) -> str | None:
    """Return the name of the module of a frame's code."""
    return None if frame is None else frame.f_globals.get("__name__")


def optional(module: str, what: str, package: str = "SciPy", install: str = "'functad[scipy]'") -> Any:
    """Return a module of an optional package.

    Raises:
        MissingPackageError: the package is not installed; the message names the feature that needs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{what}, at {here()}, needs {package}: pip install {install}.") from error
