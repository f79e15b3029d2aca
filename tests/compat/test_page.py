"""The page on TensorFlow's names: every name of its table is there, and none is left out."""

import re
from pathlib import Path

from functad.compat import tf, tfe
from functad.compat.tensorflow.names import LATER, TABLE, Namespace

PAGE = Path(__file__).parents[2] / "notebooks" / "tensorflow.md"
TEXT = PAGE.read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| `tf") and line.count("`tf") > 1]
NAMES = set(re.findall(r"`(tfe?\.[\w.]+)`", "".join(row.split(" | ")[0] for row in ROWS)))


def test_names_of_the_table_are_there():
    assert len(NAMES) > 250
    for name in NAMES - {f"tf.{path}" for path in LATER}:
        module, *parts = name.split(".")
        found = {"tf": tf, "tfe": tfe}[module]
        for part in parts:
            found = getattr(found, part)


def test_the_table_leaves_out_nothing_but_other_names_of_the_same():
    listed = {id(TABLE[name[3:]]) for name in NAMES if name[3:] in TABLE}
    here = {path: value for path, value in TABLE.items() if path not in LATER and not isinstance(value, Namespace)}
    missing = [path for path, value in here.items() if id(value) not in listed]
    assert not missing
    own = {LATER[name[3:]] for name in NAMES if name[3:] in LATER}
    assert not [path for path, place in LATER.items() if place not in own]
    assert {f"tfe.{name}" for name in tfe.__all__} == {name for name in NAMES if name.startswith("tfe.")}
