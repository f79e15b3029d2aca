"""The names of primitives in files: names of NumPy and SciPy, and functad's own names for internal primitives."""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, INTERNAL, Primitive
from functad.primitives.linalg.einsum import einsum_of
from functad.primitives.vocabulary import shown_name

_OWN = "functad."
_EINSUM = "functad.einsum"
"""The common name of the `einsum` primitives, one for each number of operands."""

_ELSEWHERE = ("rules.checkpoint", "primitives.elementwise.guard", "control.scan", "control.loops", "control.branches")
_SCIPY = (
    "scipy.fft",
    "scipy.signal",
    "scipy.sparse",
    "scipy._resampling",
    "scipy.matrices.checks",
    "scipy.matrices.decompositions",
    "scipy.matrices.eigenvalues",
    "scipy.matrices.equations",
    "scipy.matrices.functions",
    "scipy.rotations.quaternions",
)
"""Modules outside of the vocabulary that define primitives."""


def name_of_primitive(primitive: Primitive) -> str | None:
    """Return the name of a primitive in a file; `None` if it has none, for example for a user function."""
    if primitive.owner is not None:
        return None
    if ENTRIES.get(primitive.function) is primitive:
        return shown_name(primitive.function)
    if primitive not in INTERNAL:
        return None
    if primitive.name == "einsum":
        return _EINSUM
    return _OWN + primitive.name


def primitive_of(name: str, arrays: int) -> Primitive | None:
    """Return the primitive of a name, for a call with `arrays` arrays; `None` if there is none.

    The function finds only functad's own entries. A name never imports or calls other code.
    """
    if name == _EINSUM:
        return einsum_of(arrays)
    return _every(False).get(name) or _every(True).get(name)


@functools.cache
def _every(scipys: bool) -> dict[str, Primitive]:
    """Return a dict of names and primitives."""
    vocabulary.import_families()
    for module in _ELSEWHERE:
        import_module(f"functad.{module}")
    if scipys and find_spec("scipy") is not None:
        vocabulary.import_scipy_families()
        for module in _SCIPY:
            import_module(f"functad.{module}")
    entries: list[Any] = [*ENTRIES.values(), *INTERNAL]
    named = [(name_of_primitive(e), e) for e in entries if isinstance(e, Primitive)]
    return {name: primitive for name, primitive in named if name is not None}
