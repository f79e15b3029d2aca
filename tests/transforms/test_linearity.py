"""Arguments in which primitives are linear: the claims of all entries."""

import functools

import numpy as np

from functad.primitives.entry import Primitive
from functad.primitives.linalg.decompositions import independent
from functad.testing import calls, every_entry
from functad.testing.rule_checks import is_additive
from functad.transforms.linear import is_linear_in
from tests.entries import is_public


def test_entries_are_as_linear_as_they_say():
    claims = 0
    for entry in every_entry():
        if not isinstance(entry, Primitive) or entry.kind == "constant" or (is_public(entry) and entry.kind != "elementwise"):
            continue
        if entry is independent:  # it raises for the zero matrix, which this test needs
            continue
        for call in calls(entry, np.float64):
            args, kwargs = call.structure.unflatten(call.leaves)
            for i, a in enumerate(args):
                if getattr(a, "dtype", np.dtype(int)).kind == "f" and is_linear_in(entry, (i,), kwargs):
                    claims += 1
                    assert is_additive(functools.partial(_moved_from_zero, entry, args, kwargs, i), [a]), (call, i)
    assert claims > 100


def _moved_from_zero(entry, args, kwargs, i, leaves):
    """The value without what the other arguments give alone."""
    out, zero = [entry.compute(*args[:i], a, *args[i + 1 :], **kwargs) for a in (leaves[0], 0 * leaves[0])]
    return [a - b for a, b in (zip(out, zero, strict=True) if entry.multiple else [(out, zero)])]
