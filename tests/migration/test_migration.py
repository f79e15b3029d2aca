"""The page on migration: the new lines give what the old ones gave, and the page shows both."""

import importlib.util
import json

import numpy as np
import pytest

from tests.migration.lines import LIBRARIES
from tests.migration.page import PAGE, page
from tests.migration.record import RECORD, new, old

RECORDED = json.loads(RECORD.read_text())
PAIRS = [pytest.param(name, pair, id=f"{name}-{pair.wanted}") for name, library in LIBRARIES.items() for pair in library.pairs]


def assert_same(given, expected):
    assert len(given) == len(expected)
    for ours, theirs in zip(given, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.fixture
def settings():
    """Leave JAX's settings, which hold for the process, as they were."""
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize(("library", "pair"), PAIRS)
def test_new_lines_give_what_the_old_ones_gave(library, pair):
    assert_same(new(library, pair), RECORDED[library]["values"][pair.wanted])


@pytest.mark.parametrize(("library", "pair"), PAIRS)
def test_old_lines_give_what_is_recorded(library, pair, settings):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed; its lines were executed when they were recorded")
    assert_same(old(library, pair), RECORDED[library]["values"][pair.wanted])


def test_the_record_has_these_pairs_and_no_others():
    recorded = {name: set(found["values"]) for name, found in RECORDED.items()}
    assert recorded == {name: {pair.wanted for pair in library.pairs} for name, library in LIBRARIES.items()}


def test_page_is_up_to_date():
    assert PAGE.read_text() == page(), "write it anew: python -m tests.migration.page"
