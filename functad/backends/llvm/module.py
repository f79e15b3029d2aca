"""Modules of LLVM: text that is optimised and compiled for this machine, loaded, and called through ctypes.

LLVM's objects are not made for several threads at once, so that one lock guards them all; compiled code needs none, and runs
with the GIL released. `os.fork` waits for the lock, so LLVM's objects are whole in the child. What keeps machine code loaded is
`Library`: code lives as long as one of its functions does.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping, Sequence
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
            self._linker: Any = None
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
            module = llvm.parse_assembly(text)
            module.triple = self.triple
            module.data_layout = str(self._machine.target_data)
            module.verify()
            options = llvm.create_pipeline_tuning_options(speed_level=self.level)
            options.loop_vectorization = self.level > 0
            options.slp_vectorization = False  # it takes half of the time, and gains nothing in loops
            options.loop_unrolling = False  # beyond vectors; what is short is written out before
            passes = llvm.create_pass_builder(self._machine, options)
            inlining = llvm.create_new_module_pass_manager()  # first: what is inlined need not be optimised alone
            inlining.add_always_inliner_pass()
            inlining.add_global_dead_code_eliminate_pass()
            inlining.run(module, passes)
            passes.getModulePassManager().run(module, passes)
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
            if self._linker is None:
                self._linker = llvm.create_lljit_compiler(self._machine)
            builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
            for name, address in (imported or {}).items():
                builder.import_symbol(name, address)
            for name in names:
                builder.export_symbol(name)
            tracker = builder.link(self._linker, f"functad.{next(_NUMBERS)}")
            return Library(tracker, {name: tracker[name] for name in names})


@dataclass(frozen=True)
class Library:
    """Machine code in memory, which is unloaded with the last reference to this.

    Attributes:
        tracker: what LLVM unloads the code by.
        addresses: of its functions.
    """

    tracker: Any
    addresses: dict[str, int]

    def function(self, name: str, *arguments: Any) -> Any:
        """Return a function without result, called through ctypes and without the GIL.

        Args:
            name: the name that it was compiled under.
            arguments: the types of ctypes of its arguments.
        """
        function = ctypes.CFUNCTYPE(None, *arguments)(self.addresses[name])
        function.library = self  # type: ignore[attr-defined]
        return function


@lru_cache(maxsize=1)
def host() -> Machine:
    """Return the machine that this process runs on."""
    return Machine()
