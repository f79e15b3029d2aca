"""The Gaussian mixture of ADBench."""

from __future__ import annotations

from tests.benchmarks.handwritten_programs import mixture

PROGRAMS = {"likelihood": mixture}
