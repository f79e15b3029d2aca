"""Scalar elementary functions that native code calls: each is compiled once per machine and stays loaded."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from functad.backends.llvm.module import Library, Machine
from functad.backends.native.disk import loaded
from functad.emitters.llvm import Text, joined
from functad.loops.elementary.table import called
from functad.process import renewed

_LOCK = renewed(threading.RLock())
_KNOWN: WeakKeyDictionary[Machine, dict[str, Library]] = WeakKeyDictionary()


def addresses_of_called(machine: Machine, wanted: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """Return the addresses of elementary functions, by symbol; compile the functions that are new.

    Args:
        machine: the target of the compilation.
        wanted: the name and type of each function, by symbol.
    """
    found = {}
    with _LOCK:
        known = _KNOWN.setdefault(machine, {})
        for symbol, (name, kind) in wanted.items():
            own = symbol.removeprefix("@")
            if symbol not in known:
                parts = called(name, kind, fused=machine.fused)
                text = joined([Text(part.function) for part in parts], [table for part in parts for table in part.tables])
                known[symbol] = loaded(machine, text, [own], {})
            found[own] = known[symbol].addresses[own]
    return found
