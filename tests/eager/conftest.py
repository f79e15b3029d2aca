"""What the tests of tapes share."""

import pytest

from functad.eager.tape import pruning


@pytest.fixture
def prune_every(monkeypatch):
    """Let tapes be pruned after every so many operations, whatever the clock says."""

    def at(step):
        monkeypatch.setattr(pruning, "STEP", step)
        monkeypatch.setattr("functad.eager.tape.recorder.STEP", step)
        monkeypatch.setattr(pruning, "SHARE", 0.0)

    return at


@pytest.fixture
def always(prune_every, small_heap):
    """Let tapes be pruned at every single operation, or as seldom as a test says."""
    prune_every(1)
    return prune_every
