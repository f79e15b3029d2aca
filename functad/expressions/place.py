"""Locations in the user's code of equations, as plain text and numbers that do not keep frames alive."""

from __future__ import annotations

from functad.immutable import Immutable, assign
from functad.places import place_text

FORWARD, BACKWARD, TANGENT = "forward", "backward", "tangent"


class Call(Immutable):
    """An active call of a user function.

    Attributes:
        function: the name of the function.
        file: the file of its code.
        line: the current line in it.
        number: the serial number of the call, which distinguishes two calls of one function.
    """

    __slots__ = ("file", "function", "line", "number")

    function: str
    file: str
    line: int
    number: int

    def __init__(self, function: str, file: str, line: int, number: int) -> None:
        assign(self, "function", function)
        assign(self, "file", file)
        assign(self, "line", line)
        assign(self, "number", number)

    @property
    def where(self) -> str:
        """The `file:line`, or the name of a notebook cell."""
        return place_text(self.file, self.line)

    @property
    def text(self) -> str:
        """The text of the line; empty if the source is not available."""
        import linecache  # noqa: PLC0415 - only displays need it

        return linecache.getline(self.file, self.line).strip()


class Place(Immutable):
    """The location of an equation.

    Attributes:
        calls: the active calls of user functions, the outermost first.
        phase: `forward`, `backward` (pullback) or `tangent` (pushforward). In the latter two, `calls` are the calls of the
            differentiated operation.
    """

    __slots__ = ("calls", "phase")

    calls: tuple[Call, ...]
    phase: str

    def __init__(self, calls: tuple[Call, ...], phase: str = FORWARD) -> None:
        assign(self, "calls", calls)
        assign(self, "phase", phase)

    @property
    def where(self) -> str:
        """The `file:line` of the innermost call; empty if there is none."""
        return self.calls[-1].where if self.calls else ""

    @property
    def text(self) -> str:
        """The text of the line of the innermost call; empty if there is none."""
        return self.calls[-1].text if self.calls else ""
