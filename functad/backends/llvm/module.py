"""LLVM modules: optimise and compile text for this machine, load the code, and call it through ctypes.

LLVM's objects are not thread-safe, so one lock guards them all. Compiled code needs no lock and runs with the GIL released.
`os.fork` waits for the lock, so LLVM's objects are consistent in the child. A `Library` keeps machine code loaded as long as
one of its functions is referenced.
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

from functad.process import held, optional

_LOCK = threading.RLock()
held(_LOCK)
_NUMBERS = itertools.count()


def binding() -> Any:
    """Return llvmlite's binding to LLVM, an optional dependency.

    Raises:
        MissingPackageError: llvmlite is not installed.
    """
    llvm = optional("llvmlite.binding", "The backend `llvm`", package="llvmlite", install="'functad[jit]'")
    _hold_at_fork(llvm)
    return llvm


@lru_cache(maxsize=1)
def _hold_at_fork(llvm: Any) -> None:
    """Let `os.fork` also wait for llvmlite's own lock, which finalizers take without `_LOCK`."""
    own = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)
    if own is not None:
        held(own)


class Machine:
    """The target processor of a compilation.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's name of the processor.
        features: LLVM's list of processor features.
        level: the optimisation level, 0 to 3. Level 0 compiles four times as fast, for tests that compile thousands of modules.
        fused: `True` if the processor has a fused multiply-add instruction.
        masked: `True` if the processor has masked vector loads and stores.

    Args:
        loads: `True` if this process loads the code, `False` if a linker places it in a program or a shared library.
    """

    def __init__(self, cpu: str | None = None, features: str | None = None, level: int = 3, *, loads: bool = True) -> None:
        llvm = binding()
        self.level = level
        with _LOCK:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self.triple: str = llvm.get_process_triple()
            self.cpu: str = llvm.get_host_cpu_name() if cpu is None else cpu
            self.features: str = llvm.get_host_cpu_features().flatten() if features is None else features
            target = llvm.Target.from_triple(self.triple)
            model = "jitdefault" if loads else "default"
            self._machine = target.create_target_machine(
                cpu=self.cpu, features=self.features, opt=level, reloc="pic", codemodel=model, jit=loads
            )
            self._linker: Linker | None = None
        architecture = self.triple.partition("-")[0]
        self.masked: bool = "+avx2" in self.features.split(",")
        self.fused: bool = "+fma" in self.features.split(",") or architecture in {"aarch64", "arm64", "ppc64le", "s390x"}

    def optimised(self, text: str) -> Any:
        """Return the optimised LLVM module of a text, with vectorised loops.

        Raises:
            RuntimeError: the text is not valid LLVM IR. The message gives the place.
        """
        llvm = binding()
        with _LOCK:
            module = llvm.parse_assembly(text, llvm.create_context())  # a context keeps constants: a shared one would grow
            module.triple = self.triple
            module.data_layout = str(self._machine.target_data)
            module.verify()
            options = llvm.create_pipeline_tuning_options(speed_level=self.level)
            options.loop_vectorization = self.level > 0
            options.slp_vectorization = False  # takes half of the compile time and does not speed up loops
            options.loop_unrolling = False  # short loops are already unrolled in the text
            passes = llvm.create_pass_builder(self._machine, options)
            with _disposed(
                llvm.create_new_module_pass_manager()
            ) as inlining:  # first, so that inlined functions are not optimised alone
                inlining.add_always_inliner_pass()
                inlining.add_global_dead_code_eliminate_pass()
                inlining.run(module, passes)
            with _disposed(passes.getModulePassManager()) as pipeline:
                pipeline.run(module, passes)
            return module

    def assembly(self, text: str) -> str:
        """Return the assembly code of a module."""
        with _LOCK:
            return str(self._machine.emit_assembly(self.optimised(text)))

    def compiled(self, text: str) -> bytes:
        """Return the machine code of a module, as the bytes of an object file."""
        with _LOCK:
            return bytes(self._machine.emit_object(self.optimised(text)))

    def loaded(self, code: bytes, names: Sequence[str], imported: Mapping[str, int] | None = None) -> Library:
        """Load machine code and find functions in it.

        Args:
            code: the bytes of an object file, compiled for this machine.
            names: the functions that will be called.
            imported: the addresses of external functions that the code calls, by symbol.
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
            library = Library(tracker, {name: tracker[name] for name in names}, len(code))
            weakref.finalize(library, _DROPPED.append, (linker, tracker)).atexit = False
            return library


LOADS = 8
"""The number of libraries per linker.

A linker keeps 11 kB of each unloaded library until the linker is closed. One linker per library would take 170 kB instead of
55 kB per library, and 0.7 ms instead of 0.2 ms per load.
"""


class Linker:
    """An LLJIT instance. It is closed when its last library is unloaded.

    Attributes:
        lljit: the LLJIT.
        loads: the number of libraries loaded so far.
    """

    def __init__(self, lljit: Any) -> None:
        self.lljit = lljit
        self.loads = 0


_DROPPED: deque[tuple[Linker, Any]] = deque()
"""Unreferenced libraries, to be unloaded before the next load. The tuples keep the linkers alive, which must be closed last.

The garbage collector appends to the deque in any thread, without a lock. With a lock, an interrupt right after the acquisition
would leave the lock held, and no other thread could compile any more.
"""


def _unload() -> None:
    """Unload the unreferenced libraries. The caller holds `_LOCK`."""
    while _DROPPED:
        _, tracker = _DROPPED.popleft()
        tracker.close()


@contextmanager
def _disposed(manager: Any) -> Iterator[Any]:
    """Free the memory of a pass manager on exit.

    The class `ModulePassManager` of llvmlite 0.50 and older frees nothing: its `_dispose` is the empty method of `ObjectRef`.
    """
    try:
        yield manager
    finally:
        binding().newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


@dataclass(frozen=True)
class Library:
    """Loaded machine code. It is unloaded after the last reference to the library is gone.

    Attributes:
        tracker: the LLVM resource tracker that unloads the code.
        addresses: the addresses of the functions, by name.
        nbytes: the bytes of the code.
    """

    tracker: Any
    addresses: dict[str, int]
    nbytes: int = 0

    def function(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """Return a function, called through ctypes and without the GIL.

        Args:
            name: the name of the function.
            arguments: the ctypes types of the arguments.
            result: the ctypes type of the result; `None` if there is none.
        """
        function = ctypes.CFUNCTYPE(result, *arguments)(self.addresses[name])
        function.library = self  # type: ignore[attr-defined]
        return function


@lru_cache(maxsize=1)
def host() -> Machine:
    """Return the machine of this process."""
    return Machine()
