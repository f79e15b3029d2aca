"""Inputs of random programs: shapes, values, types and memory layouts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.testing.programs.drafts import LARGEST_SIZE, Draft, literal

LAYOUTS = (
    "{0}",
    "np.asfortranarray({0})",
    "np.flip({0})",
    "np.repeat({0}, 2, axis=-1)[..., ::2]",
    "np.broadcast_to({0}, {1})",
    "np.broadcast_to({0}[:1], {1})",
    "np.flip(np.asfortranarray({0}), 0)",
    "np.moveaxis(np.array(np.moveaxis({0}, 0, -1)), -1, 0)",
)
"""Source texts of memory layouts, as formats for the text of an array and its shape."""

NUMBERS = ("{0}", "np.float64({0})", "np.float32({0})", "np.array({0})", "np.array({0}, np.float32)")
"""Source texts of types of numbers, as formats for a number."""


def draw_inputs(draft: Draft, *, layouts: bool = False, large: bool = False) -> None:
    """Draw one to three inputs with shapes that often broadcast; values have three decimals and distinct magnitudes.

    Inputs other than plain arrays have source texts.
    """
    values = np.random.default_rng(draft.choose(1 << 16))
    lengths = [1 + draft.choose(3) for _ in range(draft.max_rank)]
    texts = []
    for i in range(1 + draft.choose(3)):
        rank = (2, 1, 3, 0, 4)[draft.choose(5)]
        rank = min(rank, draft.max_rank)
        shape = tuple(1 if draft.choose(6) == 5 else n for n in lengths[draft.max_rank - rank :])
        while (count := int(np.prod(shape, dtype=int))) > LARGEST_SIZE // 2:
            shape = tuple((n + 1) // 2 for n in shape)
        if large:
            texts.append(_large(draft, i))
            continue
        drawn = values.choice(np.arange(1, 2000), count, replace=False) / 1000 * values.choice([-1.0, 1.0], count)
        value = drawn.reshape(shape)[()]
        if layouts or draft.numbers:
            texts.append(_special(draft, value, layouts=layouts))
        else:
            draft.input(value)
    for text in texts:
        draft.input(draft.value(text))
    draft.texts = tuple(texts)


def _special(draft: Draft, value: Any, *, layouts: bool) -> str:
    """Return the source text of an input with a special type or memory layout."""
    if draft.numbers and not draft.choose(2):
        return str(draft.one(NUMBERS)).format(np.ravel(value)[0].item())
    text = literal(value)
    if np.ndim(value) == 0:
        return text
    if draft.numbers and not draft.choose(3):
        text = f"np.array({text[9:-1]}, np.float32)"
    return str(draft.one(LAYOUTS)).format(text, value.shape) if layouts else text


def _large(draft: Draft, number: int) -> str:
    """Return the source text of an input with about a thousand to ten thousand elements, beyond functad's size limits."""
    shape = draft.one([(9000,), (1100,), (90, 100), (40, 30), (8192,), (1024,), (3, 400), (2, 50, 90)])
    text = f"np.sin(np.arange({math.prod(shape)}.0) + {number + 0.5}).reshape({shape})"
    return str(draft.one((*LAYOUTS[:4], LAYOUTS[0]))).format(text, shape)
