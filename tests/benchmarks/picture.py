"""Draw the README's picture from the recorded measurements: `python -m tests.benchmarks.picture`.

A row is a program of `compile`, a mark the time of one of its ways, divided by that of its derivative written by hand in NumPy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

RECORD = Path(__file__).parent / "compiled" / "results.json"
PICTURE = Path(__file__).parents[2] / "notebooks" / "pictures" / "speed.svg"
WAYS = {
    "llvm": ("functad, compiled", "#1f5fa8", "o", 64),
    "eager": ("functad", "#7fb0e0", "o", 40),
    "jax": ("JAX, compiled", "#e07b1a", "D", 26),
    "torch": ("PyTorch", "#c8102e", "x", 34),
}
ROWS = {
    "lorenz_scanned": "Lorenz system by RK4, 100 steps",
    "chain_1_looped": "1,000 operations on a number",
    "lstm_scanned": "LSTM",
    "per_example": "gradients of each example",
    "tanh_exp_8_float64": "elementwise, 8 numbers",
    "tanh_exp_1e6_float64": "elementwise, a million numbers",
    "bundle": "bundle adjustment",
    "logistic": "logistic loss, small",
    "gaussian_process_200": "Gaussian process, 200 points",
    "mixture_10_25": "Gaussian mixture",
    "black_scholes": "Black-Scholes, Greeks",
    "convolution": "convolution",
    "network": "network 784-512-256-10",
}


def ratios(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return by row and way the time divided by that by hand."""
    rows = {key: record["results"]["one"][key] for key in ROWS}
    return {
        key: {way: row[way]["least"] / row["handwritten"]["least"] for way in WAYS if "least" in row[way]}
        for key, row in rows.items()
    }


def label(ratio: float) -> str:
    """Return the figure that stands in the picture."""
    return f"{ratio:.2g}"


def figure(record: dict[str, Any]) -> Figure:
    """Return the picture."""
    drawn = Figure(figsize=(8.6, 4.6), layout="constrained", facecolor="white")
    axes = drawn.add_subplot()
    found = sorted(ratios(record).items(), key=lambda item: -item[1]["llvm"])
    heights = np.arange(len(found))
    for way, (title, colour, marker, size) in WAYS.items():
        points = [(row[way], height) for (_, row), height in zip(found, heights, strict=True) if way in row]
        axes.scatter(*np.transpose(points), s=size, c=colour, marker=marker, label=title, zorder=3)
    for (_, row), height in zip(found, heights, strict=True):
        axes.text(min(row.values()) / 1.25, height, label(row["llvm"]), ha="right", va="center", color="#1f5fa8", fontsize=8)
    axes.axvline(1.0, color="#444444", linewidth=1)
    axes.set(xscale="log", yticks=heights, ylim=(-0.7, len(found) - 0.3), xlabel="time, divided by that of NumPy by hand")
    axes.set_yticklabels([ROWS[key] for key, _ in found])
    axes.set_xlim(axes.get_xlim()[0] / 1.7)
    axes.grid(axis="both", alpha=0.25, linewidth=0.5)
    axes.tick_params(left=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0), handletextpad=0.2)
    return drawn


def main(path: Path = PICTURE) -> None:
    """Draw it."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "functad", "font.family": "sans-serif"}):
        figure(json.loads(RECORD.read_text(encoding="utf-8"))).savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
