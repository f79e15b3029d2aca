"""Where in the user's code an equation was made: plain text and numbers, which last as long as the list does."""

from __future__ import annotations

from functad.immutable import Immutable, assign
from functad.places import place_text

FORWARD, BACKWARD, TANGENT = "forward", "backward", "tangent"


class Call(Immutable):
    """A call of a function of the user's that was running.

    Attributes:
        function: its name.
        file: the file of its code.
        line: the line that it was at.
        number: which call it was, so that two calls of one function can be told apart.
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
        """The `file:line`; for a notebook's cell its name."""
        return place_text(self.file, self.line)

    @property
    def text(self) -> str:
        """The text of the line; empty if it is not known, or not any more."""
        import linecache  # noqa: PLC0415 - only a display needs it

        return linecache.getline(self.file, self.line).strip()


class Place(Immutable):
    """Where an equation was made.

    Attributes:
        calls: the calls of the user's functions that were running, the outermost first.
        phase: `forward`; `backward` or `tangent` if a derivative was pulled back or pushed forward; its calls are those of
            the operation whose derivative it is.
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
        """The text of that line."""
        return self.calls[-1].text if self.calls else ""
