"""The rows, sums and bars of a profile."""

from __future__ import annotations

from typing import NamedTuple

from functad.profiling.recording import Place


class Row(NamedTuple):
    """What a line, an operation on it, or a function took, in seconds and bytes.

    Attributes:
        function: the name of the user's function.
        line: file and number.
        code: the text of the line.
        operation: what was called there; empty if it is all operations together.
        calls: how often.
        forward: in NumPy, on the way forward.
        backward: in the derivative.
        bytes: of the arrays that were made, forward and backward.
        share: of the time of all rows.

    Example:
        >>> import functad
        >>> [row] = functad.profile(lambda x: x * 3.0, 2.0).rows
        >>> row.operation, row.calls
        ('np.multiply', 1)
    """

    function: str
    line: str
    code: str
    operation: str
    calls: int
    forward: float
    backward: float
    bytes: int
    share: float

    @property
    def time(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward


class Total(NamedTuple):
    """Where the time of a gradient goes, in seconds, and what memory it takes, in bytes.

    Attributes:
        function: what a call of the function alone takes, without functad.
        forward: what it takes while it is recorded.
        backward: what the walk back takes.
        numpy: of forward and backward, what NumPy computes.
        python: of them, the rest of the function: Python, and code in which no Tensor takes part.
        recording: of them, what functad does: recording, and walking back.
        operations: how many there are.
        function_peak: the most memory that the function alone takes at one time.
        peak: the same of the gradient.
        bytes: of all arrays that are made.

    Example:
        >>> import functad
        >>> total = functad.profile(lambda x: x * 3.0, 2.0).total
        >>> total.operations, total.numpy <= total.time
        (1, True)
    """

    function: float
    forward: float
    backward: float
    numpy: float
    python: float
    recording: float
    operations: int
    function_peak: int
    peak: int
    bytes: int

    @property
    def time(self) -> float:
        """What value and gradient take."""
        return self.forward + self.backward


class Bar(NamedTuple):
    """A function, or a line of it, in the picture: what ran in it stands in `bars`.

    Attributes:
        name: of the function, or of the line.
        place: where that is.
        forward, backward: in seconds.
        bars: what ran in it.
    """

    name: str
    place: Place
    forward: float
    backward: float
    bars: tuple[Bar, ...]

    @property
    def time(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward
