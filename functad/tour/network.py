"""A two-layer network in plain NumPy, its handwritten gradient, and its training on the digits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import functad

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Params = dict[str, Floats]

PIXELS, HIDDEN, CLASSES, BATCH = 64, 64, 10, 128
RATE, MOMENTUM = 0.1, 0.9


def first_params(rng: np.random.Generator) -> Params:
    """Return random initial parameters."""
    return {
        "W1": rng.normal(0.0, np.sqrt(2.0 / PIXELS), (PIXELS, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "W2": rng.normal(0.0, np.sqrt(2.0 / HIDDEN), (HIDDEN, CLASSES)),
        "b2": np.zeros(CLASSES),
    }


def forward(params: Mapping[str, Any], images: Floats) -> Floats:
    """Return the scores `(n, 10)` of images `(n, 64)`."""
    hidden = np.maximum(images @ params["W1"] + params["b1"], 0.0)
    scores: Floats = hidden @ params["W2"] + params["b2"]
    return scores


def cross_entropy(scores: Floats, labels: Labels) -> Any:
    """Return the mean of `-log softmax(scores)[label]`."""
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    log_total = np.log(np.sum(np.exp(shifted), axis=1))
    return np.mean(log_total - shifted[np.arange(len(labels)), labels])


def loss(params: Mapping[str, Any], images: Floats, labels: Labels) -> Any:
    """Return the training loss."""
    return cross_entropy(forward(params, images), labels)


def loss_and_gradient_by_hand(params: Params, images: Floats, labels: Labels) -> tuple[Any, Params]:
    """Return the value and gradient of `loss` without functad."""
    count = np.arange(len(labels))
    hidden = np.maximum(images @ params["W1"] + params["b1"], 0.0)
    scores = hidden @ params["W2"] + params["b2"]
    scores -= scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores)
    totals = exponentials.sum(axis=1)
    value = np.mean(np.log(totals) - scores[count, labels])
    g = exponentials / totals[:, None]
    g[count, labels] -= 1.0
    g /= len(labels)
    g_hidden = g @ params["W2"].T
    g_hidden *= hidden > 0
    return value, {
        "W1": images.T @ g_hidden,
        "b1": g_hidden.sum(axis=0),
        "W2": hidden.T @ g,
        "b2": g.sum(axis=0),
    }


@dataclass
class Tour:
    """The shared state of the chapters.

    Attributes:
        images, labels: the training digits.
        held_out_images, held_out_labels: the test digits, a quarter of all.
        params: the parameters of the network, updated by training.
        steps: number of training steps.
        rng: the source of all random numbers.
        out: the path of the picture.
        losses: the loss at each training step.
        held_out_losses: pairs of step and loss on the held-out digits.
        accuracy: share of the held-out digits that are classified correctly.
    """

    images: Floats
    labels: Labels
    held_out_images: Floats
    held_out_labels: Labels
    params: Params
    steps: int
    rng: np.random.Generator
    out: Path
    losses: list[float] = field(default_factory=list)
    held_out_losses: list[tuple[int, float]] = field(default_factory=list)
    accuracy: float = 0.0

    @classmethod
    def load(cls, *, steps: int, seed: int, out: Path) -> Tour:
        """Return a tour with the digits, a quarter of them held out, and random initial parameters."""
        from sklearn.datasets import load_digits

        rng = np.random.default_rng(seed)
        digits = load_digits()
        images, labels = digits.data / 16.0, digits.target.astype(np.int64)
        order = rng.permutation(len(labels))
        test, training = np.split(order, [len(labels) // 4])
        params = first_params(rng)
        print(f"{len(labels)} handwritten digits of 8 x 8 pixels: {len(training)} for training, {len(test)} held out")
        return cls(images[training], labels[training], images[test], labels[test], params, steps, rng, out)

    def batch(self) -> tuple[Floats, Labels]:
        """Return a random batch of the training digits."""
        chosen = self.rng.integers(len(self.labels), size=BATCH)
        return self.images[chosen], self.labels[chosen]


def momentum_step(params: Params, velocity: Params, images: Floats, labels: Labels) -> tuple[Any, Params, Params]:
    """Take one step of gradient descent with momentum; return the loss, the next parameters and velocities."""
    value, gradient = functad.value_and_grad(loss)(params, images, labels)
    velocity = {name: MOMENTUM * velocity[name] - RATE * slope for name, slope in gradient.items()}
    return value, {name: params[name] + velocity[name] for name in params}, velocity


def train(tour: Tour) -> None:
    """Train the network by gradient descent with momentum; print time, loss and accuracy."""
    from tqdm import tqdm

    velocity = {name: np.zeros_like(value) for name, value in tour.params.items()}
    start = time.perf_counter()
    # With `disable=None`, tqdm shows no bar unless the output is a terminal.
    for number in tqdm(range(tour.steps), unit=" steps", disable=None, leave=False):
        value, tour.params, velocity = momentum_step(tour.params, velocity, *tour.batch())
        tour.losses.append(float(value))
        if number % 10 == 0 or number == tour.steps - 1:
            tour.held_out_losses.append((number, float(loss(tour.params, tour.held_out_images, tour.held_out_labels))))
    seconds = time.perf_counter() - start
    tour.accuracy = accuracy(tour.params, tour.held_out_images, tour.held_out_labels)
    print(f"{tour.steps} steps of {BATCH} digits in {seconds:.1f} s")
    print(f"loss            {tour.losses[0]:.4f} -> {tour.losses[-1]:.4f}")
    print(f"train accuracy  {accuracy(tour.params, tour.images, tour.labels):.1%}")
    print(f"test accuracy   {tour.accuracy:.1%}")


def accuracy(params: Mapping[str, Any], images: Floats, labels: Labels) -> float:
    """Return the share of images with the highest score at their label."""
    return float(np.mean(np.argmax(forward(params, images), axis=1) == labels))
