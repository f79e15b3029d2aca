"""Refused functions: they write files or need dates, so they cannot take a Tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.places import here
from functad.primitives.entry import Entry, Samples
from functad.primitives.vocabulary import shown_name

_WITH_DATES = "Call np.{} with the dates, and multiply its result by the Tensor."


class Refused(Entry):
    """A function that cannot take a Tensor. Calling it raises an error with the reason and the suggested fix.

    Attributes:
        why: the reason.
        instead: the suggested fix.
    """

    status = "refused"
    why: str
    instead: str

    def __init__(self, function: Any, *, why: str, instead: str, samples: Samples) -> None:
        super().__init__(function, front=self.__call__, doc=f"{why} {instead}", samples=samples)
        vars(self).update(why=why, instead=instead)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the error.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"{shown_name(self.function)} of a Tensor, at {here()}: {self.why} {self.instead}")


_function: Any
for _function in (np.save, np.savetxt, np.savez, np.savez_compressed):
    Refused(
        _function,
        why="a file has no derivative.",
        instead=f'Save the value: np.{_function.__name__}("file", functad.stop_gradient(t)).',
        samples=lambda array: [(("file", array(2)), {})],
    )
for _function, _instead, _samples in (
    (np.datetime_as_string, "Use np.array_str(t) for a text.", lambda array: [((array(2),), {})]),
    (np.busday_count, _WITH_DATES, lambda array: [(("2020-01-01", "2020-02-01", array(7)), {})]),
    (np.busday_offset, _WITH_DATES, lambda array: [(("2020-01-01", array(2)), {})]),
    (np.is_busday, _WITH_DATES, lambda array: [((array(2),), {})]),
):
    Refused(
        _function,
        why="its arguments are dates or booleans, and a Tensor has numbers in it.",
        instead=_instead.format(_function.__name__),
        samples=_samples,
    )
