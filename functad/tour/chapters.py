"""The chapters of the tour: the expression list, the gradient, compilation, the four styles, and the picture.

Each of the four styles trains the same network from the same start on the same batches. A style is a function that takes the
first parameters. It returns its parameters, and a function that takes one training step and returns the loss and its gradient.
Each style is independent of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from timeit import timeit
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import functad
from functad.tour.network import (
    BATCH,
    CLASSES,
    Floats,
    Labels,
    Params,
    Tour,
    accuracy,
    cross_entropy,
    first_params,
    forward,
    loss,
    loss_and_gradient_by_hand,
    momentum_step,
)

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


STEPS = 500


def train_compiled(tour: Tour) -> None:
    """Train with and without `jit` on the same batches; print the times and the difference of the results."""
    first = first_params(tour.rng)
    at_rest = {name: np.zeros_like(value) for name, value in first.items()}
    compiled = functad.jit(momentum_step)
    start = time.perf_counter()
    before, after = compiled.lower(first, at_rest, *tour.batch()).expressions
    compiled(first, at_rest, *tour.batch())
    compiling = time.perf_counter() - start
    counts = len(before.equations), len(after.equations)
    print(f"One step, gradient and update, is a list of {counts[0]} operations, {counts[1]} when simplified.")
    print(f"Tracing and compiling it took {compiling * 1e3:.0f} ms.\n")
    ways: dict[str, Callable[..., Any]] = {"without jit": momentum_step, "with jit": compiled}
    states = dict.fromkeys(ways, (first, at_rest))
    seconds, losses = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    steps = min(tour.steps, STEPS)
    for _ in range(steps):
        images, labels = tour.batch()
        for name, way in ways.items():
            start = time.perf_counter()
            value, *state = way(*states[name], images, labels)
            seconds[name] += time.perf_counter() - start
            states[name], losses[name] = (state[0], state[1]), float(value)
    print(f"{steps} steps of {BATCH} digits    time  last loss  test accuracy")
    for name, (params, _) in states.items():
        share = accuracy(params, tour.held_out_images, tour.held_out_labels)
        print(f"{name:23}  {seconds[name]:5.2f} s  {losses[name]:9.4f}  {share:13.1%}")
    eager, other = (params for params, _ in states.values())
    apart = max(float(np.max(np.abs(other[name] - eager[name]))) for name in eager)
    print(f"largest difference of the parameters in the end  {apart:.1e}")


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
