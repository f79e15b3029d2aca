"""The catalogue of programs: each makes a function that calls a package, and a point; how many lines it needs is stated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Made = tuple[Callable[[Any], Any], Any]


@dataclass(frozen=True)
class Program:
    """A program that uses a package of others.

    Attributes:
        package: the name under which the package is imported.
        make: imports what it needs, and returns a function of one array and the array.
        lines: 0 if it differentiates as it is, 1 if it needs a line, `functad.adopt(package)`.
        besides: other packages that the line names, whose functions this one calls.
    """

    package: str
    make: Callable[[], Made]
    lines: int
    besides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the function that makes it."""
        return self.make.__name__


PROGRAMS: list[Program] = []


def program(package: str, lines: int = 0, *besides: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Return a decorator that enters a program."""

    def enter(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS.append(Program(package, make, lines, besides))
        return make

    return enter


def table() -> str:
    """Return the table of the packages, and how many of their programs need how many lines."""
    rows = ["| package | as it is | with one `functad.adopt` |", "|---|---|---|"]
    for package in sorted({program.package for program in PROGRAMS}, key=str.lower):
        kinds = [
            [p.name.partition("_")[2].replace("_", " ") for p in PROGRAMS if p.package == package and p.lines == n]
            for n in (0, 1)
        ]
        rows.append(f"| {package} | {', '.join(kinds[0])} | {', '.join(kinds[1])} |")
    return "\n".join(rows)
