"""Elementary functions that code calls, one number at a time: each is compiled once, and stays."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from functad.backends.llvm.elementary import called, joined
from functad.backends.llvm.module import Library, Machine
from functad.backends.native.disk import loaded
from functad.forks import renewed

_LOCK = renewed(threading.RLock())
_KNOWN: WeakKeyDictionary[Machine, dict[str, Library]] = WeakKeyDictionary()


def addresses_of_called(machine: Machine, wanted: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """Return the addresses of functions, by the names that code has for them; new ones are compiled.

    Args:
        machine: what they are compiled for.
        wanted: name and type of each by its symbol.
    """
    found = {}
    with _LOCK:
        known = _KNOWN.setdefault(machine, {})
        for symbol, (name, kind) in wanted.items():
            own = symbol.removeprefix("@")
            if symbol not in known:
                known[symbol] = loaded(machine, joined(called(name, kind, fused=machine.fused)), [own], {})
            found[own] = known[symbol].addresses[own]
    return found
