import subprocess
import sys

import numpy as np
import pytest

from functad.display import (
    COLORS,
    STYLE,
    Markup,
    bytes_text,
    cut,
    cut_middle,
    drawing,
    faint,
    fold,
    heading,
    picture,
    share_text,
    table,
    tag,
    text_table,
    value_text,
    view,
    width_of,
    wrapped,
)

from .structure import fits, structure


def test_text_is_escaped_and_markup_is_not():
    shown = structure(view(heading("<lambda>", 'a "b"'), table(["<x>"], [[faint("1 < 2 & 3")], [Markup("<i>y</i>")]])))
    assert shown.rows == [["<x>"], ["1 < 2 & 3"], ["y"]]
    assert "i" in shown.tags
    assert "lambda" not in shown.tags
    assert shown.text.startswith('<lambda> · a "b"')


def test_attributes_are_escaped_and_left_out():
    assert tag("a", "x", title='"<', class_="b", stroke_width=2, open=True, hidden=False, id=None) == (
        '<a title="&quot;&lt;" class="b" stroke-width="2" open>x</a>'
    )


def test_folds_are_closed_unless_opened():
    shown = structure(view(fold("a<b", "inside"), fold("c", "inside", opened=True)))
    assert shown.summaries == ["a<b", "c"]
    assert [("open" in found) for found, name in zip(shown.attributes, shown.tags, strict=True) if name == "details"] == [
        False,
        True,
    ]


def test_style_concerns_displays_alone():
    rules = [rule for rule in STYLE.replace("@media (prefers-color-scheme:dark){", "").split("}") if rule]
    assert all("ftd-view" in selector for rule in rules for selector in rule.split("{")[0].split(",") if "{" in rule)
    assert STYLE.count("{") == STYLE.count("}")
    assert "<" not in STYLE
    assert ".ftd-view td" not in STYLE.replace(
        ".ftd-view.ftd-view td", ""
    )  # else JupyterLab's own rules for tables are stronger
    assert all(f"--ftd-{name}:" in STYLE for name in COLORS)


def luminance(color: str) -> float:
    """Return the relative luminance that the W3C's contrast ratio (WCAG 2, 1.4.3) is made of."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("palette", "ground"), [("_LIGHT", "#ffffff"), ("_DARK", "#1e1e1e")])
def test_colors_read_on_the_page(palette, ground):
    from functad import display

    for color in getattr(display, palette):
        lower, higher = sorted([luminance(color), luminance(ground)])
        assert (higher + 0.05) / (lower + 0.05) >= 4.5, color


def test_drawings_stand_in_files_of_their_own():
    from xml.etree import ElementTree as ET

    root = ET.fromstring(drawing(picture(30, 20, tag("rect", width=3, height=2), label="a & b")))
    assert root.attrib["viewBox"] == "0 0 30 20"
    assert root.attrib["class"] == "ftd-view"
    assert [child.tag.partition("}")[2] for child in root] == ["style", "title", "rect"]


def test_tables_of_text_fit():
    rows = [["layers/0/" + "deep/" * 30 + "kernel", 123456, "x" * 200], ["b", 1, "y"]]
    text = text_table(["path", "bytes", "value"], rows, right=[1], middle=[0], indent=2)
    assert fits(text)
    assert max(map(len, text.splitlines())) == 80
    head, first, second = text.splitlines()
    assert first.startswith("  layers/0/deep/")
    assert "kernel  123456  xxx" in first
    assert first.endswith("...")
    assert second.split() == ["b", "1", "y"]
    assert head.split() == ["path", "bytes", "value"]
    assert fits(text_table(["a"] * 16, [["long text of a cell"] * 16]))


def test_wide_letters_take_two_columns():
    assert width_of("重み") == 4
    assert width_of(cut("重み" * 10, 9)) <= 9
    assert text_table(["n", "v"], [["重み", 1], ["b", 2]]).splitlines()[1:] == ["重み  1", "b     2"]


@pytest.mark.parametrize("width", range(9))
def test_cuts_are_never_wider(width):
    assert len(cut("abcdefghi", width)) == width
    assert len(cut_middle("abcdefghi", width)) == width


def test_sentences_are_wrapped():
    text = wrapped("word " * 40 + "z" * 100, "- ", "  ")
    assert fits(text)
    assert text.splitlines()[0].startswith("- word")
    assert text.splitlines()[1].startswith("  word")


def test_amounts():
    assert [bytes_text(n) for n in (0, 999, 1000, 12345678, 5e15)] == ["0 B", "999 B", "1 kB", "12.3 MB", "5 PB"]
    assert share_text(5, 5) == "100 %"


def test_values_in_one_line():
    assert value_text(np.ones((300, 400))) == "[[1 1 1 ... 1 1 1] [1 1 1 ... 1 1 1] [1 1 1 ... 1 1 1] ....."
    assert value_text(np.array([1 / 3, 1e10])) == "[0.3333 1e+10]"
    assert value_text(np.float32(1 / 3)) == "0.333333"
    assert value_text("a\nb") == "'a\\nb'"


def test_values_of_dask_are_not_computed():
    da = pytest.importorskip("dask.array")  # the extra `dask`

    def refuse(block):
        raise AssertionError("computed")

    lazy = da.ones(4, chunks=2).map_blocks(refuse, dtype=float, meta=np.zeros(0))
    assert value_text(lazy).startswith("dask.array<refuse, shape=(4,)")


def test_importing_functad_leaves_displays_alone():
    code = "import sys, functad; print(*[name for name in sys.modules if name.startswith('functad.display')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []
