"""The chapter on the four styles: each trains the same network from the same start on the same batches.

A style is a function that takes the first parameters. It returns its parameters, and a function that takes one training step
and returns the loss and its gradient. Each style is independent of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import functad
from functad.tour.compiled import STEPS
from functad.tour.network import BATCH, Floats, Labels, Params, Tour, accuracy, first_params, loss

STYLE_RATE = 0.5
WARM_UP = 10  # steps that are not timed, if there are more

Gradient = Mapping[str, ArrayLike]
Step = Callable[[Floats, Labels], tuple[Any, Gradient]]


def transforms(first: Params) -> tuple[Any, Step]:
    """Train with `value_and_grad`: the parameters and the gradient are dicts of arrays."""
    params = dict(first)
    value_and_gradient = functad.value_and_grad(loss)

    def step(images: Floats, labels: Labels) -> tuple[Any, Gradient]:
        value, gradient = value_and_gradient(params, images, labels)
        for name, slope in gradient.items():
            params[name] = params[name] - STYLE_RATE * slope
        return value, gradient

    return params, step


def tape(first: Params) -> tuple[Any, Step]:
    """Train with `GradientTape`: the parameters are Variables, and the `with` block records the operations on them."""
    variables = {name: functad.Variable(value, name=name) for name, value in first.items()}

    def step(images: Floats, labels: Labels) -> tuple[Any, Gradient]:
        with functad.GradientTape() as recorded:
            value = loss(variables, images, labels)
        gradient = recorded.gradient(value, variables)
        for name, slope in gradient.items():
            variables[name].assign_sub(STYLE_RATE * slope)
        return value, gradient

    return variables, step


def gradients_function(first: Params) -> tuple[Any, Step]:
    """Train with `value_and_gradients_function`: the parameters are separate arguments, and the gradients are a list."""
    params = dict(first)

    def loss_of_arguments(W1: Any, b1: Any, W2: Any, b2: Any, images: Floats, labels: Labels) -> Any:
        return loss({"W1": W1, "b1": b1, "W2": W2, "b2": b2}, images, labels)

    value_and_gradients = functad.value_and_gradients_function(loss_of_arguments, params=list(params))

    def step(images: Floats, labels: Labels) -> tuple[Any, Gradient]:
        W1, b1, W2, b2 = params.values()
        value, slopes = value_and_gradients(W1, b1, W2, b2, images, labels)
        gradient = dict(zip(params, slopes, strict=True))
        for name, slope in gradient.items():
            params[name] = params[name] - STYLE_RATE * slope.numpy()
        return value, gradient

    return params, step


def implicit_gradients(first: Params) -> tuple[Any, Step]:
    """Train with `implicit_value_and_gradients`: it finds the Variables that the loss reads."""
    variables = {name: functad.Variable(value, name=name) for name, value in first.items()}
    value_and_gradients = functad.implicit_value_and_gradients(lambda images, labels: loss(variables, images, labels))

    def step(images: Floats, labels: Labels) -> tuple[Any, Gradient]:
        value, pairs = value_and_gradients(images, labels)
        for slope, variable in pairs:
            variable.assign_sub(STYLE_RATE * slope)
        return value, {variable.name: slope for slope, variable in pairs}

    return variables, step


STYLES = (transforms, tape, gradients_function, implicit_gradients)


def train_in_four_styles(tour: Tour) -> None:
    """Train in the four styles on the same batches; print their differences and the median time of a step."""
    first = first_params(tour.rng)
    trained = {style.__name__: style(first) for style in STYLES}
    times: dict[str, list[float]] = {name: [] for name in trained}
    losses: dict[str, float] = {}
    apart = dict.fromkeys(trained, 0.0)
    steps = min(tour.steps, STEPS)
    for number in range(steps):
        images, labels = tour.batch()
        gradients: dict[str, Gradient] = {}
        for name, (_, step) in trained.items():
            start = time.perf_counter()
            value, gradients[name] = step(images, labels)
            seconds = time.perf_counter() - start
            losses[name] = float(value)
            if number >= WARM_UP or steps <= WARM_UP:
                times[name].append(seconds)
        for name, gradient in gradients.items():
            apart[name] = max(apart[name], _difference(gradient, gradients["transforms"]))
    print(f"{steps} steps of {BATCH} digits in each style; gradients are compared with those of the transforms at every step\n")
    print("style               last loss  test accuracy  largest difference  median step")
    for name, (params, _) in trained.items():
        share = accuracy(params, tour.held_out_images, tour.held_out_labels)
        print(f"{name:18}  {losses[name]:9.4f}  {share:13.1%}  {apart[name]:18.1e}  {median(times[name]) * 1e6:8.0f} us")


def _difference(gradient: Gradient, expected: Gradient) -> float:
    """Return the largest difference between two gradients, relative to the largest element."""
    largest = max(float(np.max(np.abs(np.asarray(slope)))) for slope in expected.values())
    return max(float(np.max(np.abs(np.asarray(gradient[name]) - slope))) for name, slope in expected.items()) / largest
