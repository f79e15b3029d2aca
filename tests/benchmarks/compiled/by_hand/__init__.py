"""The programs in NumPy with derivatives by hand, as a good programmer would write them, one file for each family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.compiled.inputs import Arguments

VERSION = f"NumPy {np.__version__}"


def one_thread() -> None:
    """Nothing is left to do: BLAS has read its variable."""


def fresh(program: Callable[..., Any], arguments: Arguments, backend: str) -> Callable[[], Any]:
    """Return a step."""
    return lambda: program(*arguments)
