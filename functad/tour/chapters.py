"""Chapters: the expression list, the gradient against finite differences, and the time of the gradient."""

from __future__ import annotations

from functools import partial
from statistics import median
from timeit import timeit

import numpy as np

import functad
from functad.tour.network import CLASSES, Params, Tour, cross_entropy, loss, loss_and_gradient_by_hand

ROUNDS = 300


def show_expressions(tour: Tour) -> None:
    """Print the expression list of the loss of four digits as a function of their scores."""
    scores = np.zeros((4, CLASSES))
    print("cross_entropy(scores, labels), as functad sees it for four digits:\n")
    print(functad.make_expressions(lambda scores: cross_entropy(scores, tour.labels[:4]))(scores))


def check_gradient(tour: Tour) -> None:
    """Compare the gradient of the loss with central differences in a random direction, and with a handwritten gradient."""
    images, labels = tour.batch()
    value, gradient = functad.value_and_grad(loss)(tour.params, images, labels)
    direction = {name: tour.rng.normal(size=array.shape) for name, array in tour.params.items()}
    slope = sum(float(np.vdot(gradient[name], direction[name])) for name in direction)
    width = 1e-6
    ahead = loss(_moved(tour.params, direction, width), images, labels)
    behind = loss(_moved(tour.params, direction, -width), images, labels)
    difference = float(ahead - behind) / (2 * width)
    value_by_hand, by_hand = loss_and_gradient_by_hand(tour.params, images, labels)
    largest = max(float(np.max(np.abs(gradient[name] - by_hand[name]))) for name in by_hand)
    print(f"slope in a random direction   {slope:.12f}")
    print(f"by finite differences         {difference:.12f}")
    print(f"relative error                {abs(slope - difference) / abs(difference):.1e}")
    print(f"largest difference to the gradient by hand  {max(largest, abs(float(value - value_by_hand))):.1e}")


def _moved(params: Params, direction: Params, width: float) -> Params:
    return {name: value + width * direction[name] for name, value in params.items()}


def compare_time(tour: Tour) -> None:
    """Print the median time of value and gradient, by functad and by hand, measured in turn."""
    arguments = (tour.params, *tour.batch())
    ways = {"functad": functad.value_and_grad(loss), "by hand": loss_and_gradient_by_hand}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 10):
        for name, way in ways.items():
            seconds = timeit(partial(way, *arguments), number=1)
            if number >= 10:  # the first rounds warm up
                times[name].append(seconds)
    medians = {name: median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"loss and gradient, {name}  {value * 1e6:6.0f} us")
    print(f"ratio                       {medians['functad'] / medians['by hand']:6.2f}")
