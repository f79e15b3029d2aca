"""Samples of `scipy.stats.contingency`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

TABLE = np.array([[10.3, 20.1, 30.2], [6.4, 9.2, 17.7]])
COUNTS = np.array([[10, 4], [3, 8]])

SAMPLES: dict[str, Sample | list[Sample]] = {
    "association": call(COUNTS),
    "chi2_contingency": use(lambda f, t: [(found := f(t)).statistic, found.pvalue, found.expected_freq], TABLE),
    "crosstab": use(lambda f: f(["a", "b", "a"], ["x", "x", "y"]).count),
    "expected_freq": call(TABLE),
    "margins": call(TABLE),
    "odds_ratio": use(lambda f, t: [(found := f(t)).statistic, *found.confidence_interval()], COUNTS),
    "relative_risk": use(lambda f: [(found := f(27, 122, 44, 487)).relative_risk, *found.confidence_interval()]),
}
