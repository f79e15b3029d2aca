"""Display of optimisers: the state of each variable and its size."""

from __future__ import annotations

import re
from typing import Any

_PLACE = re.compile(r"^variables(\[[^\]]*\])*\.?")
"""The beginning of a path in the state: the variable, and the part of its rule."""


class ShownOptimizer:
    """The text and HTML display of an optimiser. The subclass holds the state."""

    def __repr__(self: Any) -> str:
        return f"{type(self).__name__}(learning_rate={self.learning_rate!r}, iterations={self.iterations})"

    def _repr_html_(self: Any) -> str:
        from functad.display import bytes_text, code, counted, faint, heading, table, tag, view, whole  # noqa: PLC0415 - as above  # noqa: PLC0415 - needed for display only

        slots = list(self._slots)
        rows, total = [], 0
        for index, slot in enumerate(slots):
            entries = slot.entries(index)[0]
            size = sum(value.nbytes for value in entries.values())
            total += size
            kept = ", ".join([_PLACE.sub("", path) or "a value" for path in entries]) or "nothing"
            rows.append([code(slot.variable.name), whole(str(slot.variable.shape)), code(kept), bytes_text(size)])
        facts = [f"learning rate {self.learning_rate:.6g}", counted(self.iterations, "iteration"), bytes_text(total)]
        none = tag("div", faint("It has met no variables yet.")) if not rows else None
        return view(
            heading(type(self).__name__, *facts),
            table(["variable", "shape", "remembered", "bytes"], rows, right=[3]) if rows else None,
            none,
        )
