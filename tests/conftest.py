"""Settings of the whole suite."""

import gc
import os
import sys
import zlib

import hypothesis
import numpy as np
import pytest

# Drawn examples are the same in every run of continuous integration, and no example is too slow on a busy machine.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# For looking longer: `pytest tests/transforms/test_nesting_machine.py --hypothesis-profile=long`.
hypothesis.settings.register_profile("long", deadline=None, max_examples=20_000, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser):
    """Add the option `--portion`, for runs that have time for a part of the tests only."""
    parser.addoption("--portion", metavar="I/N", help="run one of N portions of the tests, drawn by their names: I is 0 to N-1")


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of other portions."""
    if portion := config.getoption("portion"):
        index, count = map(int, portion.split("/"))
        chosen = [zlib.crc32(item.nodeid.encode()) % count == index for item in items]
        config.hook.pytest_deselected(items=[item for item, runs in zip(items, chosen, strict=True) if not runs])
        items[:] = [item for item, runs in zip(items, chosen, strict=True) if runs]


def pytest_configure(config):
    """Leave the seeds of random numbers to the tests, where `pytest-randomly` draws the order of the tests."""
    if hasattr(config.option, "randomly_reset_seed"):
        config.option.randomly_reset_seed = False


@pytest.fixture
def rng():
    """Random numbers, the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture
def small_heap():
    """Hide older objects from the cycle collector, whose functions look at every object of the whole run."""
    gc.freeze()
    yield
    gc.unfreeze()


def _end_lasting_adoption():
    """End the adoption of SciPy that lasts from the first name taken from `functad.scipy` on."""
    module = sys.modules.get("functad.scipy")
    while module is not None and module._adopted:
        module._adopted.pop().__exit__(None, None, None)


def pytest_collectreport():
    """Leave SciPy as it is for the files that are collected after one that imports from `functad.scipy`."""
    _end_lasting_adoption()


@pytest.fixture(autouse=True)
def scipy_as_it_was():
    """Leave SciPy after each test as it was."""
    yield
    _end_lasting_adoption()


@pytest.fixture(autouse=True)
def settings_as_they_were():
    """Leave the settings of the process after each test as they were. The import of pymanopt sets JAX to 64 bits."""
    errors, printing = np.geterr(), np.get_printoptions()
    before = _jax_has_64_bits()
    yield
    np.seterr(**errors)
    np.set_printoptions(**printing)
    if _jax_has_64_bits() != before:
        sys.modules["jax"].config.update("jax_enable_x64", before)


def _jax_has_64_bits():
    """Return whether JAX has 64-bit dtypes; it has none where it is not imported yet."""
    jax = sys.modules.get("jax")
    return jax is not None and hasattr(jax, "config") and bool(jax.config.jax_enable_x64)
