"""Problems whose solutions are known, and a way to count the calls of a function."""

from __future__ import annotations

import numpy as np


class Counted:
    """A function that counts its calls."""

    def __init__(self, f):
        self.f, self.calls = f, 0
        self.__name__ = getattr(f, "__name__", "counted")

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.f(*args, **kwargs)


def rosenbrock(x):
    """The function of Rosenbrock (1960) in n dimensions; its minimum is 0, at ones."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic_problem():
    """Features, labels, and the regularised loss of a logistic regression whose parameters are a tree."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3))
    labels = np.sign(features @ np.array([1.0, -2.0, 0.5]) + 0.3 + 0.8 * rng.normal(size=60))

    def loss(p):
        margins = labels * (features @ p["weights"] + p["bias"])
        return np.mean(np.logaddexp(0.0, -margins)) + 0.05 * np.sum(p["weights"] ** 2)

    return features, labels, loss
