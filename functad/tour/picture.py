"""The picture of the tour: the loss over the steps, and held-out digits with their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.tour.network import Floats, Tour, forward

ROWS, COLUMNS = 4, 6
INK, BLUE, ORANGE, RED = "#222222", "#2f6db5", "#e07b1a", "#c8102e"


def save_picture(tour: Tour) -> None:
    """Draw the picture and save it as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    sides: Any = figure.subfigures(1, 2, width_ratios=(1.25, 1), wspace=0.04)
    _draw_losses(sides[0].subplots(), tour)
    _draw_digits(sides[1], tour)
    figure.savefig(tour.out, format="png", dpi=130)
    print(f"saved {tour.out}")


def _draw_losses(axes: Any, tour: Tour) -> None:
    steps, held_out = zip(*tour.held_out_losses, strict=True)
    axes.plot(tour.losses, color=BLUE, alpha=0.25, linewidth=0.8)
    middle, mean = _running_mean(np.array(tour.losses), max(1, tour.steps // 40))
    axes.plot(middle, mean, color=BLUE, linewidth=1.8, label="training batches (and their running mean)")
    axes.plot(steps, held_out, color=ORANGE, linewidth=1.8, label="held-out digits")
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", xlim=(0, max(1, tour.steps - 1)))
    axes.set_title(f"Loss; in the end {tour.accuracy:.1%} of the held-out digits are read correctly", fontsize=11)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def _running_mean(values: Floats, width: int) -> tuple[Floats, Floats]:
    """Return the middles and the means of all windows of `width` values."""
    mean: Floats = np.convolve(values, np.full(width, 1.0 / width), mode="valid")
    middle: Floats = np.arange(float(len(mean))) + (width - 1) / 2
    return middle, mean


def _draw_digits(figure: Any, tour: Tour) -> None:
    """Draw held-out digits with their predictions, the misclassified ones first."""
    taken_for = np.argmax(forward(tour.params, tour.held_out_images), axis=1)
    wrong = taken_for != tour.held_out_labels
    chosen = np.argsort(~wrong, kind="stable")[: ROWS * COLUMNS]
    figure.suptitle(f"Held-out digits as they are read; {wrong.sum()} of {len(wrong)} wrongly", fontsize=11)
    for axes, index in zip(figure.subplots(ROWS, COLUMNS).flat, chosen, strict=True):
        axes.imshow(tour.held_out_images[index].reshape(8, 8), cmap="gray_r", interpolation="nearest")
        text = f"{taken_for[index]}, not {tour.held_out_labels[index]}" if wrong[index] else str(taken_for[index])
        axes.set_title(text, fontsize=9, color=RED if wrong[index] else INK, pad=2)
        axes.set_axis_off()
