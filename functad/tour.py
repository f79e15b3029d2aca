"""The tour, `python -m functad`: train a network in plain NumPy on handwritten digits, with checks and timings.

A chapter is a function that takes the `Tour`, prints its findings and adds its results. `CHAPTERS` at the end is the order.

Each of the four styles trains the same network from the same start on the same batches. A style is a function that takes the
first parameters. It returns its parameters, and a function that takes one training step and returns the loss and its gradient.
Each style is independent of the others.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from timeit import timeit
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


CHAPTERS: tuple[tuple[str, Callable[[Tour], None]], ...] = (
    ("A function is a list of expressions", show_expressions),
    ("The gradient is right", check_gradient),
    ("The gradient is fast", compare_time),
    ("Training", train),
    ("The same training, compiled", train_compiled),
    ("Four styles of the same training", train_in_four_styles),
    ("The picture", save_picture),
)

# The packages of the extra `examples`: module name and package name.
EXTRA = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "threadpoolctl": "threadpoolctl", "tqdm": "tqdm"}

BESIDE = ("scipy", "llvmlite", "jax", "dask", "torch")
"""Optional packages that functad works with."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tour and return the exit code.

    Args:
        arguments: the command line without the program's name. Default: the command line of the process.
    """
    options = _parser().parse_args(arguments)
    if options.version:
        print(_versions())
        return 0
    missing = [package for module, package in EXTRA.items() if find_spec(module) is None]
    if missing:
        print(f"The tour needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    from threadpoolctl import threadpool_limits

    # Small matrices multiply fastest with one thread; on a busy machine, two threads took up to a hundred times longer.
    with threadpool_limits(1):
        tour = Tour.load(steps=options.steps, seed=options.seed, out=options.out)
        for number, (title, chapter) in enumerate(CHAPTERS, 1):
            print(f"\n{number}. {title}\n")
            chapter(tour)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m functad",
        description="A tour of functad: train a network written in plain NumPy on handwritten digits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the versions of functad and of what it works with")
    parser.add_argument("--steps", type=_positive, default=2000, metavar="N", help="number of training steps")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--out", type=_writable, default=Path("tour.png"), metavar="FILE", help="where the picture (PNG) goes")
    return parser


def _versions() -> str:
    """Return the versions that a bug report needs."""
    found = [f"functad {functad.__version__}", f"Python {platform.python_version()}", f"NumPy {version('numpy')}"]
    for package in BESIDE:
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return "\n".join(found)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no positive number")
    return int(text)


def _writable(text: str) -> Path:
    """Return the path of the picture; check it before the training."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path
