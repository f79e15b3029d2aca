"""The page for those who change functad: every module, name and file on it is there; `test_pages.py` runs its code."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "notebooks" / "how_it_works.md").read_text()
NAMES = sorted(set(re.findall(r"`(functad(?:\.\w+)+)`", PAGE)))
FILES = sorted(set(re.findall(r"`((?:functad|tests)/[\w/.]*)`", PAGE)))
PICTURE = re.search(r"^functad/\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]


def found(name):
    """Return the object of a dotted name: of a module, or of something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


def test_there_is_something_to_look_up():
    assert len(NAMES) > 15
    assert len(FILES) > 8


@pytest.mark.parametrize("name", NAMES)
def test_name_exists(name):
    assert found(name) is not None


@pytest.mark.parametrize("file", FILES)
def test_file_exists(file):
    assert (ROOT / file).exists()


def test_picture_shows_the_folders_that_there_are():
    shown, top = set(), ""
    for line in PICTURE.splitlines():
        for name in re.findall(r"(?:[a-z_]+/)+", line):
            if line.startswith(f"  {name}"):
                top = name
            shown.add(top if name == top else f"{top}{name}")
    package = ROOT / "functad"
    there = {f"{path.parent.relative_to(package)}/" for path in package.rglob("__init__.py")} - {"./"}
    assert shown == there
