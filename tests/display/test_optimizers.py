"""Optimisers: what they remember of each variable."""

import numpy as np

from functad import Variable, optimizers

from .structure import structure


def test_optimiser_lists_what_it_remembers():
    w, b = Variable(np.ones((2, 3)), name="<w>"), Variable(1.0, name="b")
    optimizer = optimizers.Adam(0.25)
    for _ in range(2):
        optimizer.minimize(lambda: np.sum(w * w) + b * b)
    found = structure(optimizer)
    assert found.text.startswith("Adam · learning rate 0.25 · 2 iterations · ")
    assert found.rows[0] == ["variable", "shape", "remembered", "bytes"]
    assert [row[:3] for row in found.rows[1:]] == [["<w>", "(2, 3)", "count, mu, nu"], ["b", "()", "count, mu, nu"]]
    size = sum(value.nbytes for path, value in optimizer.variables.items() if path.startswith("variables[0]"))
    assert found.rows[1][3] == f"{size} B"


def test_optimiser_without_state():
    optimizer = optimizers.SGD(0.1)
    assert "It has met no variables yet." in structure(optimizer).text
    v = Variable(1.0)
    optimizer.minimize(lambda: v * v)
    assert structure(optimizer).rows[1][2:] == ["nothing", "0 B"]
