"""Settings of the whole suite."""

import os

import hypothesis
import numpy as np
import pytest

# Drawn examples are the same in every run of continuous integration, and no example is too slow on a busy machine.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture
def rng():
    """Random numbers, the same in every run."""
    return np.random.default_rng(0)
