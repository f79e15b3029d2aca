"""The page on optimisers: its table of formulas is what the functions do."""

import re
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import optimizers

PAGE = Path(__file__).parents[2] / "notebooks" / "optimizers.md"
ROW = re.compile(r"^\| (`.+?`) \| `(.+?)`.*? \| .+ \|$", re.MULTILINE)
G, EPS, ROOT = 0.3, 0.05, 0.02  # large, so that it shows where they stand


def pure(rule):
    return -rule.update(G, rule.init(0.0), 0.0)[0]


def moved(optimizer):
    weight = functad.Variable(0.0)
    optimizer.apply_gradients([(G, weight)])
    return -weight.numpy()


# The first step at learning rate one, with decays of a half, and the factor before 1 / denominator.
STEPS = {
    "adam": (lambda: pure(optimizers.adam(1.0, 0.5, 0.5, EPS, ROOT)), G),
    "adamw": (lambda: pure(optimizers.adamw(1.0, 0.5, 0.5, EPS, ROOT)), G),
    "Adam": (lambda: moved(optimizers.Adam(1.0, 0.5, 0.5, EPS)), G * np.sqrt(0.5)),
    "AdamW": (lambda: moved(optimizers.AdamW(1.0, 0.1, 0.5, 0.5, EPS)), G * np.sqrt(0.5)),
    "rmsprop": (lambda: pure(optimizers.rmsprop(1.0, 0.5, EPS)), G),
    "rmsprop(eps_in_sqrt=False)": (lambda: pure(optimizers.rmsprop(1.0, 0.5, EPS, eps_in_sqrt=False)), G),
    "RMSprop": (lambda: moved(optimizers.RMSprop(1.0, 0.5, 0.0, EPS)), G),
    "adagrad": (lambda: pure(optimizers.adagrad(1.0, eps=EPS)), G),
    "Adagrad": (lambda: moved(optimizers.Adagrad(1.0, epsilon=EPS)), G),
}
ROWS = {name: text for names, text in ROW.findall(PAGE.read_text()) for name in re.findall(r"`(.+?)`", names)}


def test_every_row_of_the_table_is_checked():
    assert set(ROWS) == set(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_denominator_is_that_of_the_table(name):
    step, numerator = STEPS[name]
    names = {"sqrt": np.sqrt, "v": 0.5 * G * G, "s": 0.1 + G * G, "b2": 0.5, "k": 1}
    denominator = eval(ROWS[name].replace("^", "**"), names | {"eps": EPS, "epsilon": EPS, "eps_root": ROOT})
    np.testing.assert_allclose(step(), numerator / denominator, rtol=1e-14)
