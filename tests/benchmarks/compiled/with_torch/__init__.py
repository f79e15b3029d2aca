"""The programs for PyTorch, eager, one file for each family, as its users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.benchmarks.compiled.inputs import Arguments
from tests.benchmarks.programs import tree_map

VERSION = torch.__version__


def one_thread() -> None:
    """Let PyTorch use one thread."""
    torch.set_num_threads(1)


def fresh(program: Callable[..., Any], arguments: Arguments, backend: str) -> Callable[[], Any]:
    """Return a step."""
    tensors = tree_map(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, arguments)
    return lambda: program(*tensors)
