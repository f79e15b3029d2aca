"""A sample: one call of a public function of SciPy, which the table of what functad makes of SciPy is checked with.

Each part of SciPy has a file here, named as the part is, with `_` for a dot, and in it a dictionary `SAMPLES`: by public name
one sample or a list of them. To add a function, add its name:

    "dct": call(X, type=2),                                  # SciPy's dct(X, type=2), differentiated by X
    "CubicSpline": use(lambda kind, x, y: kind(x, y)(0.3), X, Y),  # what is called with SciPy's object first
    "RegularGridInterpolator": [use(...), use(...)],         # several ways to call it; each is checked

What is among the positional arguments, and is floating-point or complex, is differentiated; all else is constant, as keywords
are. A sample without such an argument says that there is nothing to differentiate by. It must return arrays, numbers or
trees of them, the same in every call: take the attributes that matter of an object, and give random functions their `rng`.

The status of a function is found by running its samples: nothing about it is written here. A function that raises must stand,
with the reason, in `REFUSED` of the file of `functad.scipy`. A name with more than the public name, as `PPoly.solve` or
`qr(mode="raw")`, is for what is refused of a function or class that takes Tensors otherwise.

`python -m tests.scipy.table` checks all samples and writes the table; with names of parts behind it, those of these parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One call.

    Attributes:
        function: is called with the object of SciPy that the sample is of, and then with the arguments.
        arguments: those that are differentiated, if they are inexact.
        searched: what it gives was found by a search with a tolerance, so that differences need wide steps.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    searched: bool = False


def call(*arguments: Any, **options: Any) -> Sample:
    """Return the sample that calls the function itself."""
    return Sample(lambda function, *arguments: function(*arguments, **options), arguments)


def use(function: Callable[..., Any], *arguments: Any) -> Sample:
    """Return the sample that hands what SciPy has under the name to a function, and then the arguments."""
    return Sample(function, arguments)


def search(function: Callable[..., Any], *arguments: Any) -> Sample:
    """Return a sample like that of `use`, of what a search with a tolerance finds."""
    return Sample(function, arguments, searched=True)
