"""The reference on the site: every public name stands once on its pages, and the names in the table of the first exist."""

import collections
import importlib
import re
from pathlib import Path

import pytest

import functad

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PAGES = sorted((NOTEBOOKS / "reference").glob("*.md"))
ENTRY = re.compile(r"^\.\. (autofunction|autoclass|autodata|automodule|py:module):: (functad[\w.]*)$", re.MULTILINE)
ENTRIES = [(page.stem, kind, name) for page in PAGES for kind, name in ENTRY.findall(page.read_text())]
LATER = {"map": "functad.map"}  # public, and not in `__all__`, where it would shadow Python's


def found(name):
    """Return what a dotted name stands for."""
    parts = name.split(".")
    value = functad
    for count, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            importlib.import_module(".".join(parts[:count]))
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", sorted({*functad.__all__, *LATER, "math", "numpy", "scipy", "testing"}))
def test_every_public_name_stands_on_one_page(name):
    where = [page for page, _, entry in ENTRIES if entry == f"functad.{name}"]
    assert len(where) == 1, f"enter it on one page of notebooks/reference: {where}"


def test_nothing_stands_there_twice():
    counts = collections.Counter(name for _, _, name in ENTRIES)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize(("kind", "name"), [entry[1:] for entry in ENTRIES])
def test_every_entry_is_there_and_of_its_kind(kind, name):
    value = found(name)
    assert isinstance(value, type) == (kind == "autoclass"), kind


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_in_the_list_of_pages(page):
    assert f"\nreference/{page.stem}\n" in (NOTEBOOKS / "reference.md").read_text()


def test_table_names_what_exists():
    names = re.findall(r"`(functad\.[\w.]+)`", (NOTEBOOKS / "reference.md").read_text())
    assert len(names) > 30
    for name in names:
        assert found(name) is not None
