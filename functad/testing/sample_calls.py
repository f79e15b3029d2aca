"""Sample calls of registry entries, as functions of their differentiable inputs."""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_float_array
from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, INTERNAL, Entry
from functad.transforms.leaves import replaced
from functad.trees.structure import Structure, flatten


def every_entry() -> list[Entry]:
    """Return all entries: NumPy functions, `scipy.special` functions if SciPy is installed, and internal functions of rules.

    The registry `ENTRIES` alone holds only the entries imported so far.

    Returns:
        One entry per function.

    Example:
        >>> [entry.name for entry in every_entry() if entry.function is np.linalg.inv]
        ['inv']
    """
    vocabulary.complete()
    vocabulary.complete_scipy()
    import_module("functad.transforms.leaves")  # which is imported on demand too
    return [*ENTRIES.values(), *INTERNAL]


def label(entry: Entry) -> str:
    """Return the name of an entry, with its module unless that is `numpy`; labels are unique.

    Example:
        >>> label(vocabulary.find(np.linalg.inv)), label(vocabulary.find(np.inner))
        ('numpy.linalg.inv', 'inner')
    """
    module = getattr(entry.function, "__module__", None) or "numpy"
    return entry.name if module == "numpy" else f"{module}.{entry.name}"


class InputSource:
    """Makes random inputs for sample calls: `array(*shape, low=-2.0, high=2.0)`.

    All real parts from one source differ by at least a thousandth of their interval, and are at least as far from multiples of
    1/2. So finite differences meet no ties and no kinks. The distance is halved when the interval is nearly full, after about
    700 numbers. Sources with the same seed give the same numbers in every dtype, rounded to float32.

    Args:
        dtype: dtype of the inputs.
        seed: seed of the random numbers.

    Example:
        >>> array = InputSource(np.float32)
        >>> array(2, 3).dtype, type(array(low=0.5, high=2.0))
        (dtype('float32'), <class 'numpy.float32'>)
    """

    def __init__(self, dtype: Any, seed: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self._real = np.random.default_rng([seed, 0])
        self._imaginary = np.random.default_rng([seed, 1])
        self._taken: list[float] = []

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Any:
        """Return an array of the given shape (a NumPy scalar for `()`) with values between `low` and `high`."""
        count = int(np.prod(shape, dtype=int))
        values = np.array([self._draw(low, high) for _ in range(count)], np.float32).reshape(shape).astype(np.float64)
        if self.dtype.kind == "c":
            size = self._imaginary.uniform(0.1, 0.5, shape) * self._imaginary.choice([-1.0, 1.0], shape)
            values = values + 1j * size.astype(np.float32)
        return values.astype(self.dtype)[()]

    def _draw(self, low: float, high: float) -> float:
        gap = (high - low) / 1000
        while True:
            for _ in range(_ATTEMPTS):
                value = float(self._real.uniform(low + gap, high - gap))
                place = bisect.bisect(self._taken, value)
                near = [*self._taken[max(place - 1, 0) : place + 1], round(2 * value) / 2]
                if all(abs(value - other) >= gap for other in near):
                    self._taken.insert(place, value)
                    return value
            gap /= 2  # the interval is full


_ATTEMPTS = 100
"""Number of random numbers in a row that are too close to others before `InputSource` halves the distance."""


@dataclass(frozen=True)
class Call:
    """One sample call of an entry, as a function of its differentiable inputs.

    Attributes:
        entry: the entry.
        number: the index of the sample.
        leaves: all leaves of `(args, kwargs)`.
        structure: the structure of `(args, kwargs)`.
        positions: indices of the differentiable leaves: inexact arrays and NumPy scalars.

    Example:
        >>> call = calls(ENTRIES[np.multiply], np.float64)[0]
        >>> call.result(2.0, 3.0)
        np.float64(6.0)
    """

    entry: Entry
    number: int
    leaves: list[Any]
    structure: Structure
    positions: list[int] = field(default_factory=list)

    @property
    def primals(self) -> list[Any]:
        """The differentiable inputs."""
        return [self.leaves[i] for i in self.positions]

    @cached_property
    def value(self) -> Any:
        """The result of plain NumPy."""
        return self.result(*self.primals)

    def result(self, *primals: Any) -> Any:
        """Call the function with other inputs.

        Args:
            primals: arrays or numbers that replace the differentiable inputs.

        Returns:
            The result of the function, an array or a pytree; for an in-place function, the array that it wrote to.
        """
        args, kwargs = self.structure.unflatten(replaced(self.leaves, self.positions, primals))
        function: Any = self.entry.function if is_public(self.entry) else self.entry
        with np.errstate(all="ignore"), unheard(function):
            if not self.entry.in_place:
                return function(*args, **kwargs)
            target = args[0].copy()
            function(target, *args[1:], **kwargs)
            return target

    def arrays(self, *primals: Any) -> tuple[Any, ...]:
        """Return the arrays and numbers among the results.

        Args:
            primals: arrays or numbers that replace the differentiable inputs.

        Returns:
            A tuple of arrays and numbers.
        """
        return tuple([leaf for leaf in flatten(self.result(*primals))[0] if is_array(leaf)])

    def smooth(self, *primals: Any) -> tuple[Any, ...]:
        """Return the inexact arrays and numbers among the results; only these can have a derivative.

        Args:
            primals: arrays or numbers that replace the differentiable inputs.

        Returns:
            A tuple of arrays and numbers, floating-point or complex.
        """
        return tuple([leaf for leaf in self.arrays(*primals) if dtype_of(leaf).kind in "fc"])

    def is_number(self, position: int) -> bool:
        """Return `True` if a leaf is a real scalar and a whole argument, not an element of a list.

        Args:
            position: index into `leaves`.

        Returns:
            `True` for a real scalar argument, else `False`.
        """
        leaf, path = self.leaves[position], self.structure.paths("")[position]
        return leaf.shape == () and leaf.dtype.kind == "f" and path.count("[") == 2

    def __str__(self) -> str:
        args, kwargs = self.structure.unflatten([_short(leaf) for leaf in self.leaves])
        inside = ", ".join([*map(str, args), *[f"{key}={value}" for key, value in kwargs.items()]])
        return f"{self.entry.name}({inside}) [sample {self.number}]"


def is_public(entry: Entry) -> bool:
    """Return `True` if users call the function of an entry; rules call other entries directly."""
    return ENTRIES.get(entry.function) is entry


def is_array(value: Any) -> bool:
    """Return `True` if a value is an array, a NumPy scalar, a number or a Tensor."""
    if type(value) in PYTHON_SCALARS:
        return True
    return not isinstance(value, type) and hasattr(value, "dtype") and hasattr(value, "shape")


def is_constant(entry: Entry) -> bool:
    """Return `True` if an entry declares derivative zero."""
    return getattr(entry, "kind", None) == "constant"


def unheard(function: Any) -> AbstractContextManager[None]:
    """Return a context that hides the warning of a function deprecated by NumPy; entries stay checked until NumPy removes them.

    Other functions get a null context, because changing warning filters takes longer than most calls.
    """
    return _unheard(function.__name__) if "deprecated" in (getattr(function, "__doc__", None) or "") else nullcontext()


@contextmanager
def _unheard(name: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", rf"`?(numpy\.)?{name}`? is deprecated", DeprecationWarning)
        yield


class _Shown(str):
    __slots__ = ()
    __repr__ = str.__str__


def _short(leaf: Any) -> Any:
    if isinstance(leaf, (np.ndarray, np.generic)):
        return _Shown(f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}]")
    return leaf


def calls(entry: Entry, dtype: Any, seed: int = 0) -> list[Call]:
    """Return the sample calls of an entry with inputs of a dtype.

    Args:
        entry: one of `every_entry()`.
        dtype: floating-point or complex.
        seed: seed of the random inputs.

    Returns:
        One `Call` per sample; an empty list for an entry without samples.

    Example:
        >>> [str(call) for call in calls(ENTRIES[np.sin], np.float32)][1]
        'sin(float32[3]) [sample 1]'
    """
    if entry.samples is None:
        return []
    result = []
    for number, sample in enumerate(entry.samples(InputSource(dtype, seed))):
        leaves, structure = flatten(sample)
        positions = [i for i, leaf in enumerate(leaves) if is_float_array(leaf)]
        result.append(Call(entry, number, leaves, structure, positions))
    return result
