"""An entry is whole when it is made: nothing is put onto it later, and it says what it does not know."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from functad.primitives.entry import ENTRIES, Entry
from functad.primitives.kinds import linear
from functad.primitives.linalg.einsum import einsum_of
from functad.testing import every_entry


@pytest.mark.parametrize("kind", sorted({type(entry) for entry in every_entry()}, key=lambda kind: kind.__name__))
def test_entries_refuse_assignment(kind: type[Entry]) -> None:
    entry = next(entry for entry in every_entry() if type(entry) is kind)
    before = dict(vars(entry))
    for name in ("front", "batch", "views", "selects", "something_else"):
        with pytest.raises(AttributeError, match=f"pass {name} to the function that makes the entry"):
            setattr(entry, name, None)
    assert vars(entry) == before


def test_caches_of_an_entry_are_filled() -> None:
    entry: Any = ENTRIES[np.sin]
    assert entry.unary_plan is entry.reverse_plan((0,)) is entry.reverse_plans[(0,)]


def test_unknown_traits_are_refused() -> None:
    with pytest.raises(TypeError, match="a primitive has no viewz"):
        linear(abs, lambda g: g, doc="", samples=None, viewz="always")


def test_einsum_of_many_operands_is_pickled_by_their_number() -> None:
    einsum_of(5)  # another process may have made the primitives in another order
    assert einsum_of(4).__reduce__() == (einsum_of, (4,))
    assert pickle.loads(pickle.dumps(einsum_of(4))) is einsum_of(4)
