"""Makes the pictures of notebooks/drawings.md: `python tests/drawing/pictures.py`."""

import sys
from pathlib import Path

import numpy as np

import functad

FOLDER = Path(__file__).parents[2] / "notebooks" / "pictures"


def energy(x):
    bonds = x[1:] - x[:-1]
    return 0.5 * np.sum(bonds**2) + np.sum(np.cos(x))


def layer(w, b, x):
    return np.tanh(x @ w + b)


def loss(params, x, y):
    for w, b in params:
        x = layer(w, b, x)
    return np.mean((x - y) ** 2)


def swing(angle, speed):
    for _ in range(100):
        speed = speed - 0.01 * np.sin(angle)
        angle = angle + 0.01 * speed
    return angle


def drawings():
    """Return the drawings by the names of their files."""
    params = [(np.zeros((4, 5)), np.zeros(5)), (np.zeros((5, 2)), np.zeros(2))]
    data = np.zeros((7, 4)), np.zeros((7, 2))
    return {
        "drawing_energy": functad.draw(energy, np.zeros(5)),
        "drawing_network": functad.draw(loss, params, *data, backward=True),
        "drawing_folded": functad.draw(loss, params, *data, backward=True, limit=10),
        "drawing_swing": functad.draw(swing, 0.1, 0.0, limit=10),
    }


def main(folder):
    """Write all drawings as SVG."""
    for name, drawing in drawings().items():
        drawing.save(Path(folder) / f"{name}.svg")


if __name__ == "__main__":
    main(*sys.argv[1:] or [FOLDER])
