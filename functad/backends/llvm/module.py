"""Modules of LLVM: text that is optimised and compiled for this machine, loaded, and called through ctypes.

LLVM's objects are not made for several threads at once, so that one lock guards them all; compiled code needs none, and runs
with the GIL released. `os.fork` waits for the lock, so LLVM's objects are whole in the child. What keeps machine code loaded is
`Library`: code lives as long as one of its functions does.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from functad.forks import held
from functad.importable import optional

_LOCK = threading.RLock()
held(_LOCK)
_NUMBERS = itertools.count()


def binding() -> Any:
    """Return llvmlite's interface to LLVM, which is optional.

    Raises:
        MissingPackageError: llvmlite is not installed.
    """
    llvm = optional("llvmlite.binding", "The backend `llvm`", package="llvmlite", install="'functad[jit]'")
    _hold_at_fork(llvm)
    return llvm


@lru_cache(maxsize=1)
def _hold_at_fork(llvm: Any) -> None:
    """Let `os.fork` wait for llvmlite's own lock too, which finalizers take without `_LOCK`."""
    own = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)
    if own is not None:
        held(own)


class Machine:
    """The processor that code is compiled for.

    Attributes:
        triple: what LLVM calls such machines.
        cpu: the name of the processor.
        features: what it can do, as LLVM lists it.
        level: how much LLVM optimises, 0 to 3. At 0 code is compiled four times as fast: what is checked by the thousand is.
        fused: it multiplies and adds in one instruction.
        masked: it reads and writes a part of a vector in one instruction.
    """

    def __init__(self, cpu: str | None = None, features: str | None = None, level: int = 3) -> None:
        llvm = binding()
        self.level = level
        with _LOCK:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self.triple: str = llvm.get_process_triple()
            self.cpu: str = llvm.get_host_cpu_name() if cpu is None else cpu
            self.features: str = llvm.get_host_cpu_features().flatten() if features is None else features
            target = llvm.Target.from_triple(self.triple)
            self._machine = target.create_target_machine(cpu=self.cpu, features=self.features, opt=level, reloc="pic", jit=True)
            self._linker: Linker | None = None
        architecture = self.triple.partition("-")[0]
        self.masked: bool = "+avx2" in self.features.split(",")
        self.fused: bool = "+fma" in self.features.split(",") or architecture in {"aarch64", "arm64", "ppc64le", "s390x"}

    def optimised(self, text: str) -> Any:
        """Return a module of LLVM made from text, with its loops vectorised.

        Raises:
            RuntimeError: the text is not LLVM's language; LLVM says where.
        """
        llvm = binding()
        with _LOCK:
            module = llvm.parse_assembly(text, llvm.create_context())  # a context keeps constants, so the shared one would grow
            module.triple = self.triple
            module.data_layout = str(self._machine.target_data)
            module.verify()
            options = llvm.create_pipeline_tuning_options(speed_level=self.level)
            options.loop_vectorization = self.level > 0
            options.slp_vectorization = False  # it takes half of the time, and gains nothing in loops
            options.loop_unrolling = False  # beyond vectors; what is short is written out before
            passes = llvm.create_pass_builder(self._machine, options)
            with _disposed(llvm.create_new_module_pass_manager()) as inlining:  # first: inlined functions need not be optimised
                inlining.add_always_inliner_pass()
                inlining.add_global_dead_code_eliminate_pass()
                inlining.run(module, passes)
            with _disposed(passes.getModulePassManager()) as pipeline:
                pipeline.run(module, passes)
            return module

    def assembly(self, text: str) -> str:
        """Return the instructions of the processor that text becomes."""
        with _LOCK:
            return str(self._machine.emit_assembly(self.optimised(text)))

    def compiled(self, text: str) -> bytes:
        """Return the machine code that text becomes, as the bytes of an object file."""
        with _LOCK:
            return bytes(self._machine.emit_object(self.optimised(text)))

    def loaded(self, code: bytes, names: Sequence[str], imported: Mapping[str, int] | None = None) -> Library:
        """Load machine code and find functions in it.

        Args:
            code: the bytes of an object file, compiled for this machine.
            names: the functions that will be called.
            imported: the addresses of functions that the code calls, by the names that it has for them.
        """
        llvm = binding()
        with _LOCK:
            _unload()
            linker = self._linker
            if linker is None or linker.loads == LOADS:
                linker = self._linker = Linker(llvm.create_lljit_compiler(self._machine))
            linker.loads += 1
            builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
            for name, address in (imported or {}).items():
                builder.import_symbol(name, address)
            for name in names:
                builder.export_symbol(name)
            tracker = builder.link(linker.lljit, f"functad.{next(_NUMBERS)}")
            library = Library(tracker, {name: tracker[name] for name in names})
            weakref.finalize(library, _DROPPED.append, (linker, tracker)).atexit = False
            return library


LOADS = 8
"""Libraries that one linker loads.

A linker keeps 11 kB of each library that was unloaded, until it is closed. With a linker each, libraries would take 170 kB in
place of 55, and loading 0.7 ms in place of 0.2.
"""


class Linker:
    """An LLJIT of LLVM, which is closed when the last of its libraries is unloaded.

    Attributes:
        lljit: the LLJIT.
        loads: the number of libraries that it has loaded.
    """

    def __init__(self, lljit: Any) -> None:
        self.lljit = lljit
        self.loads = 0


_DROPPED: deque[tuple[Linker, Any]] = deque()
"""Libraries without references, which are unloaded when the next library is loaded. The tuples keep the linkers, which must be
closed last.

The garbage collector appends to it in any thread, without a lock: an interrupt right after the acquisition would leave the lock
taken, and no other thread could compile any more.
"""


def _unload() -> None:
    """Unload the libraries that have no references. `_LOCK` is held."""
    while _DROPPED:
        _, tracker = _DROPPED.popleft()
        tracker.close()


@contextmanager
def _disposed(manager: Any) -> Iterator[Any]:
    """Free the memory of a pass manager at the end.

    The class `ModulePassManager` of llvmlite 0.50 and older frees nothing: its `_dispose` is the empty method of `ObjectRef`.
    """
    try:
        yield manager
    finally:
        binding().newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


@dataclass(frozen=True)
class Library:
    """Machine code in memory, which is unloaded with the last reference to this.

    Attributes:
        tracker: what LLVM unloads the code by.
        addresses: of its functions.
    """

    tracker: Any
    addresses: dict[str, int]

    def function(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """Return a function, called through ctypes and without the GIL.

        Args:
            name: the name that it was compiled under.
            arguments: the types of ctypes of its arguments.
            result: the type of ctypes of its result; `None` if it has none.
        """
        function = ctypes.CFUNCTYPE(result, *arguments)(self.addresses[name])
        function.library = self  # type: ignore[attr-defined]
        return function


@lru_cache(maxsize=1)
def host() -> Machine:
    """Return the machine that this process runs on."""
    return Machine()
