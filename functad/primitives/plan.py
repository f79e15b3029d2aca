"""The plans that a primitive keeps: which rules are run, for each set of positions that was differentiated by."""

from __future__ import annotations

from typing import Any

MANY = 256
"""So many plans are kept. Few primitives have more than three; a stack of many arrays has as many as these have subsets."""


class Plans(dict[tuple[int, ...], Any]):
    """Plans by positions; when there are many, all are given up, and those that are used are made again."""

    def __setitem__(self, active: tuple[int, ...], plan: Any) -> None:
        if len(self) >= MANY:
            self.clear()
        super().__setitem__(active, plan)
