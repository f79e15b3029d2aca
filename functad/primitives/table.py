"""Tables with one row per primitive, which the modules of a backend or a tool fill.

    ROWS: Table[Row] = Table("functad.backends.xla", ("elementwise", "reductions"))
    row = ROWS.add

    @row(np.sum, np.prod)
    def _sum(...): ...

`Table.find` imports these modules at the first search: they import the module of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar

from functad.primitives import vocabulary
from functad.primitives.entry import Primitive

Row = TypeVar("Row")


class Table(Generic[Row]):
    """A table from primitives to the functions of a backend or a tool.

    Args:
        package: the package of the modules that fill the table.
        families: the names of these modules.
    """

    def __init__(self, package: str = "", families: Sequence[str] = ()) -> None:
        self._rows: dict[Any, Row] = {}
        self._missing = [f"{package}.{name}" for name in families]

    def add(self, *functions: Any) -> Callable[[Row], Row]:
        """Return a decorator that adds a row for primitives.

        Args:
            functions: primitives or their NumPy functions. For primitives that are created on demand, the key is their
                function, or their name.
        """

        def entered(made: Row) -> Row:
            for function in functions:
                found = function if isinstance(function, (Primitive, str)) else vocabulary.find(function)
                self._rows[found if isinstance(found, (Primitive, str)) else function] = made
            return made

        return entered

    def find(self, primitive: Primitive) -> Row | None:
        """Return the row of a primitive, or `None`."""
        while self._missing:
            import_module(self._missing.pop(0))
        found = self._rows.get(primitive) or self._rows.get(primitive.name)
        return self._rows.get(primitive.function) if found is None and primitive.function.__hash__ is not None else found
