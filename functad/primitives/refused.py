"""Refused functions: they write files or need dates, so they cannot take a Tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.places import here
from functad.primitives.arranging.reshape import Calls
from functad.primitives.entry import ENTRIES, Entry, Samples
from functad.primitives.names import shown_name

_NO_DATES = "its arguments are dates or booleans, and a Tensor has numbers in it."
_WITHOUT_HISTORY = "a file has no derivative."


class Refused(Entry):
    """A function that cannot take a Tensor. Calling it raises an error with the reason and the suggested fix.

    Attributes:
        why: the reason.
        instead: the suggested fix.
    """

    status = "refused"
    why: str
    instead: str

    def __init__(self, function: Any, *, why: str, instead: str, samples: Samples, name: str | None = None) -> None:
        super().__init__(function, front=self.__call__, doc=f"{why} {instead}", samples=samples, name=name)
        vars(self).update(why=why, instead=instead)
        ENTRIES[function] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the error.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"{shown_name(self.function)} of a Tensor, at {here()}: {self.why} {self.instead}")


def _one(array: Any) -> Calls:
    return [((array(2),), {})]


_function: Any
for _function in (np.save, np.savetxt, np.savez, np.savez_compressed):
    Refused(
        _function,
        why=_WITHOUT_HISTORY,
        instead=f'Save the value: np.{_function.__name__}("file", functad.stop_gradient(t)).',
        samples=lambda array: [(("file", array(2)), {})],
    )

Refused(
    np.datetime_as_string,
    why=_NO_DATES,
    instead="Use np.array_str(t) for a text.",
    samples=_one,
)


for _function, _samples in (
    (np.busday_count, lambda array: [(("2020-01-01", "2020-02-01", array(7)), {})]),
    (np.busday_offset, lambda array: [(("2020-01-01", array(2)), {})]),
    (np.is_busday, _one),
):
    Refused(
        _function,
        why=_NO_DATES,
        instead=f"Call np.{_function.__name__} with the dates, and multiply what it returns with the Tensor.",
        samples=_samples,
    )
