"""The programs in plain NumPy, one file for each family, differentiated by functad: `PROGRAMS` has them by name."""

from __future__ import annotations

import functad
from functad.errors import InputError


def backends() -> list[str]:
    """Return the backends of `functad.jit` that can be used here."""
    found = []
    for name in ("numpy", "llvm"):
        try:
            functad.jit(abs, backend=name)
        except InputError:
            continue
        found.append(name)
    return found
