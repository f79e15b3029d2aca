"""The README's picture shows what is recorded."""

import json

from tests.benchmarks.picture import PICTURE, RECORD, ROWS, label, main, ratios


def test_picture_shows_the_record():
    text = PICTURE.read_text()
    for key, row in ratios(json.loads(RECORD.read_text())).items():
        assert f">{ROWS[key]}</text>" in text
        assert f">{label(row['llvm'])}</text>" in text, "draw it anew: python -m tests.benchmarks.picture"


def test_it_is_drawn(tmp_path):
    main(tmp_path / "speed.svg")
    assert (tmp_path / "speed.svg").read_text().count("</text>") >= 2 * len(ROWS)
