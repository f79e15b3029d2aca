"""The tour, `python -m functad`: a demonstration of functad on handwritten digits, with checks and timings.

A chapter is a function that takes the `Tour`, prints its findings and adds its results. `CHAPTERS` is the order.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import functad
from functad.tour.chapters import (
    check_gradient,
    compare_time,
    save_picture,
    show_expressions,
    train_compiled,
    train_in_four_styles,
)
from functad.tour.network import Tour, train

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
