"""A convolution by windows and a contraction, with a small network behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
from tests.benchmarks.compiled.with_functad.network import logsumexp


def loss(kernels: Any, bias: Any, last: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy of rectified and averaged answers of the kernels."""
    windows = np.lib.stride_tricks.sliding_window_view(images, kernels.shape[1:], axis=(1, 2))
    answers = np.maximum(np.einsum("bijkl,okl->bijo", windows, kernels, optimize=True) + bias, 0)
    logits = np.mean(answers, axis=(1, 2)) @ last
    return np.mean(logsumexp(logits) - logits[np.arange(len(labels)), labels])


PROGRAMS = {"gradient": functad.value_and_grad(loss, argnums=(0, 1, 2))}
