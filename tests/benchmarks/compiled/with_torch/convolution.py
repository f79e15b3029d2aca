"""A convolution, with a small network behind it."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad


def loss(kernels: Any, bias: Any, last: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy of rectified and averaged answers of the kernels."""
    answers = torch.relu(torch.nn.functional.conv2d(images[:, None], kernels[:, None], bias))
    return torch.nn.functional.cross_entropy(torch.mean(answers, dim=(2, 3)) @ last, labels)


PROGRAMS = {"gradient": value_and_grad(loss, (0, 1, 2))}
