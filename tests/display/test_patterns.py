"""Sparsity patterns, colourings and plans as pictures."""

import re

import numpy as np
import pytest

import functad
from functad import SparsityPattern
from functad.sparse.coloring import color_hessian, color_jacobian
from functad.sparse.pictures import groups, parts_of, saved_text

from .structure import fits, structure

ARROW = np.eye(9, dtype=bool)
ARROW[0] = ARROW[:, 0] = True


def covered(markup, shape):
    """Return how often each place is covered by the paths of a picture, whose rectangles are `M x y h w v1 H x z`."""
    found = np.zeros(shape, int)
    for start, row, length in re.findall(r"M(\d+) (\d+)h(\d+)v1H\d+z", markup):
        found[int(row), int(start) : int(start) + int(length)] += 1
    return found


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (64, 64), (5, 40)])
def test_each_entry_of_a_small_pattern_is_a_square(shape, rng):
    dense = rng.random(shape) < 0.4
    markup = SparsityPattern.of(dense)._repr_html_()
    assert np.array_equal(covered(markup, shape), dense)
    assert structure(markup).text.startswith(f"SparsityPattern · {shape} · {dense.sum():,} entr")
    assert "Each square" not in markup


def test_large_patterns_are_counted_in_parts(rng):
    rows, columns = rng.integers(1000, size=5000), rng.integers(150, size=5000)
    pattern = SparsityPattern(rows, columns, (1000, 150))
    parts = parts_of(pattern, 96, 96)
    assert parts.counts.sum() == pattern.nnz
    assert parts.counts[3, 4] == pattern.toarray()[33:44, 8:10].sum()
    markup = pattern._repr_html_()
    assert np.array_equal(covered(markup, parts.counts.shape), parts.counts > 0)
    assert "Each square is 11 x 2 places" in structure(markup).text
    assert len(markup) < 60_000


def test_shades_follow_density():
    dense = np.zeros((200, 200), bool)
    dense[:100, :100] = True
    dense[::50, 100:] = True
    markup = SparsityPattern.of(dense)._repr_html_()
    shades = {float(shade) for shade in re.findall(r'fill-opacity="([\d.]+)"', markup)}
    assert max(shades) == 1.0
    assert len(shades) >= 2


def test_large_patterns_as_text_fit():
    text = repr(SparsityPattern.of(np.eye(1000, 300, dtype=bool)))
    assert fits(text)
    assert text.startswith("SparsityPattern(shape=(1000, 300), nnz=300)\n::::::::::.....")
    assert "Each sign is 50 x 5 places" in text
    assert fits(repr(SparsityPattern([10**6], [7], (10**7, 10**7))))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_patterns_without_places(shape):
    assert structure(SparsityPattern([], [], shape)).text.endswith("It has no places.")
    assert structure(color_jacobian(SparsityPattern([], [], shape))).text.startswith("Coloring")


@pytest.mark.parametrize("mode", ["column", "row", "bidirectional"])
def test_entries_of_one_group_can_be_told_apart(mode, rng):
    """No two entries of a group lie in one row, or all of a group in forward products, in one column for reverse ones."""
    pattern = SparsityPattern.of((rng.random((12, 15)) < 0.2) | np.eye(12, 15, dtype=bool))
    coloring = color_jacobian(pattern, mode)
    found = groups(pattern, coloring)
    for number in np.unique(found):
        own = found == number
        lines = pattern.columns[own] if number >= coloring.forward else pattern.rows[own]
        assert len(np.unique(lines)) == own.sum()
    assert found.max() < coloring.colors


def test_entries_have_the_colour_of_their_product():
    plan = functad.sparse_jacobian(lambda x: np.sin(x[1:]) * x[:-1]).plan(np.ones(6))
    markup = plan._repr_html_()
    paths = dict(re.findall(r'<path d="([^"]+)" fill="var\(--ftd-(\w+)\)"', markup))
    drawn = {colour: covered(path, (5, 6)) for path, colour in paths.items()}
    assert set(drawn) == {"blue", "orange"}
    assert np.array_equal(sum(drawn.values()), plan.sparsity.toarray())
    assert set(np.nonzero(drawn["blue"])[1].tolist()) == set(np.flatnonzero(plan.coloring.columns == 0).tolist())
    assert "2 products in place of 6, one for each column: 66.7 % saved." in structure(markup).text


def test_star_colourings_read_mirror_images():
    pattern = SparsityPattern.of(ARROW)
    coloring = color_hessian(pattern)
    found = groups(pattern, coloring)
    column = np.where(coloring.by_row, pattern.rows, pattern.columns)
    assert np.array_equal(found, coloring.columns[column])
    assert "2 products in place of 9" in saved_text(coloring)


def test_colouring_lists_its_groups():
    found = structure(color_jacobian(SparsityPattern.of(ARROW), "bidirectional"))
    assert found.text.startswith("Coloring · bidirectional · 3 products in place of 9, one for each row or column")
    assert ["colour", "columns", "which"] in found.rows
    assert ["colour", "rows", "which"] in found.rows
    assert [row[1] for row in found.rows if row[0].startswith("■")] == ["1", "8", "1"]


def test_plans_of_large_problems_show_a_corner_in_colour():
    plan = functad.sparse_jacobian(lambda x: x[1:] * x[:-1]).plan(np.ones(300))
    assert "The first 64 rows and 64 columns" in structure(plan).text
    text = repr(plan)
    assert text.startswith("SparsePlan: Coloring('column', shape=(299, 300), colors=2)\n2 products in place of 300")
    assert fits(text)
