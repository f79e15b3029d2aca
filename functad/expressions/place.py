"""Locations in the user's code of equations, as plain text and numbers that do not keep frames alive."""

from __future__ import annotations

from functad.immutable import Immutable, assign
from functad.places import place_text

FORWARD, BACKWARD, TANGENT = "forward", "backward", "tangent"


class Place(Immutable):
    """The location of an equation.

    Attributes:
        function: the name of the user's function that contains the line; empty if no user code contains the equation.
        file: the file of its code.
        line: the number of the line.
        call: a number that differs between successive calls of user functions, also of the same function.
        phase: `forward`, `backward` (pullback) or `tangent` (pushforward). In the latter two, the line contains the
            differentiated operation.
    """

    __slots__ = ("call", "file", "function", "line", "phase")

    function: str
    file: str
    line: int
    call: int
    phase: str

    def __init__(self, function: str, file: str, line: int, call: int, phase: str = FORWARD) -> None:
        assign(self, "function", function)
        assign(self, "file", file)
        assign(self, "line", line)
        assign(self, "call", call)
        assign(self, "phase", phase)

    def of_phase(self, phase: str) -> Place:
        """Return the place with another phase."""
        return self if phase == self.phase else Place(self.function, self.file, self.line, self.call, phase)

    @property
    def where(self) -> str:
        """The `file:line`, or the name of a notebook cell; empty if there is none."""
        return place_text(self.file, self.line) if self.file else ""

    @property
    def text(self) -> str:
        """The text of the line; empty if the source is not available."""
        import linecache  # noqa: PLC0415 - only displays need it

        return linecache.getline(self.file, self.line).strip() if self.file else ""
