"""Rows, totals and bars of a profile."""

from __future__ import annotations

from typing import NamedTuple

from functad.expressions.place import Place


class Row(NamedTuple):
    """Time (seconds) and memory (bytes) of a line, an operation on a line, or a function.

    Attributes:
        function: the name of the user's function.
        line: file and line number.
        code: the text of the line.
        operation: the name of the operation; empty if the row sums all operations.
        calls: the number of operations.
        forward: time in NumPy in the forward pass.
        backward: time in derivative rules.
        bytes: bytes of the arrays created in both passes.
        share: share of the time of all rows.

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
        """Time of both passes."""
        return self.forward + self.backward


class Total(NamedTuple):
    """Time (seconds) and memory (bytes) of a whole gradient.

    Attributes:
        function: time of a call of the function alone, without functad.
        forward: time of the forward pass, with recording.
        backward: time of the backward pass.
        numpy: the part of both passes in NumPy and derivative rules.
        python: the part in other user code: Python, and NumPy code without Tensors.
        recording: the part in functad: recording, and the overhead of the backward pass.
        operations: the number of operations.
        function_peak: peak memory of the function alone.
        peak: peak memory of the gradient.
        bytes: bytes of all created arrays.

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
        """Time of value and gradient."""
        return self.forward + self.backward


class Bar(NamedTuple):
    """A bar of the picture: a function, or a line of a function, with the bars inside it.

    Attributes:
        name: the name of the function, or the text of the line.
        place: the place of the function or line.
        forward, backward: times in seconds.
        bars: the bars of the functions and lines that ran inside.
    """

    name: str
    place: Place
    forward: float
    backward: float
    bars: tuple[Bar, ...]

    @property
    def time(self) -> float:
        """Time of both passes."""
        return self.forward + self.backward
