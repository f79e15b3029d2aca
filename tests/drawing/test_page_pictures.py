"""The pictures of the page on drawings: the command on the page makes them, and they are there."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.drawing.pictures import FOLDER, drawings, main

PAGE = FOLDER.parent / "drawings.md"


def test_the_command_makes_the_pictures_of_the_page(tmp_path):
    main(tmp_path)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == set(re.findall(r"\(pictures/(drawing_\w+\.svg)\)", PAGE.read_text()))
    assert made <= {path.name for path in FOLDER.iterdir()}
    assert "python tests/drawing/pictures.py" in PAGE.read_text()


def test_the_pictures_that_are_there_show_what_is_drawn():
    """The boxes, not their places: these may become better."""
    for name, drawing in drawings().items():
        kept = ET.fromstring((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
        titles = [
            sorted(text.text for text in tree.iter("{http://www.w3.org/2000/svg}text"))
            for tree in (kept, ET.fromstring(drawing.svg))
        ]
        assert titles[0] == titles[1], f"{name} is old: python {Path('tests/drawing/pictures.py')}"


def test_no_picture_names_a_folder_of_a_machine():
    for name in drawings():
        assert str(FOLDER.parents[1]) not in (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
