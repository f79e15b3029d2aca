"""Functions whose complements and inverses SciPy has too: the derivatives of all follow from the partial derivatives of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.primitives.entry import Rule, UnknownRule
from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import Argument, reading, special_function, unknown

Slope = Callable[..., Any]


class Partials:
    """A function by its partial derivatives.

    Args:
        call: its name and those of its arguments, such as `fdtr(dfn, dfd, x)`.
        slopes: for each argument the derivative by it, which takes all arguments; or a reason why there is none, empty if that
            is that no closed form is known.
    """

    def __init__(self, call: str, *slopes: Slope | str) -> None:
        self.call = call
        self.name, _, arguments = call.rstrip(")").partition("(")
        self.slopes: dict[str, Any] = dict(zip(arguments.split(", "), slopes, strict=True))

    def enter(self, arguments: Sequence[Argument], doc: str, complement: str = "") -> None:
        """Enter the function, and if it is named the complement.

        Args:
            arguments: for each argument where samples are drawn from.
            doc: one line on the derivative.
            complement: the name of one minus the function.
        """
        names = tuple(self.slopes)
        rules = self._rules(self.name, names, lambda _, slope: lambda g, *values: product(g, slope(*values)))
        special_function(self.name, *rules, arguments=arguments, names=names, doc=doc)
        if complement:
            rules = self._rules(complement, names, lambda _, slope: lambda g, *values: -product(g, slope(*values)))
            doc = f"minus the derivatives of {self.name}"
            special_function(complement, *rules, arguments=arguments, names=names, doc=doc)

    def invert(
        self,
        name: str,
        sought: str,
        arguments: Sequence[Argument],
        *,
        complement: bool = False,
        limit: float | None = None,
        **given: Rule,
    ) -> None:
        """Enter the inverse in an argument, in whose place it takes the value: by the implicit function theorem.

        Args:
            name: of the inverse.
            sought: the argument that it returns.
            arguments: for each argument where samples are drawn from.
            complement: the value is that of the complement.
            limit: SciPy seeks the argument in a range that ends here. Where it stopped at an end the result stays what it is:
                the derivative by the argument is taken to be infinite, and those by others zero.
            given: by the names of arguments, rules in place of those that follow.
        """
        names = tuple(self.slopes)
        place = names.index(sought)

        def unless_clipped(slope: Slope, at_ends: float) -> Slope:
            def guarded(*values: Any) -> Any:
                size = np.absolute(values[place])
                return np.where((size < 1e-99) | (size >= limit), at_ends, slope(*values))

            return guarded if limit else slope

        by_result = unless_clipped(self.slopes[sought], np.inf)

        def make(argument: str, slope: Slope) -> Rule:
            if argument == sought:
                return lambda g, *values: quotient(-g if complement else g, by_result(*values))
            slope = unless_clipped(slope, 0.0)
            return lambda g, *values: -quotient(product(g, slope(*values)), by_result(*values))

        rules = self._rules(name, (*names[:place], "out", *names[place + 1 :]), make)
        special_function(
            name,
            *[given.get(argument, rule) for argument, rule in zip(names, rules, strict=True)],
            arguments=arguments,
            names=(*names[:place], "y", *names[place + 1 :]),
            doc=f"inverts y = {'1 - ' * complement}{self.call}: d{sought} = (dy - other derivatives) / that by {sought}",
        )

    def _rules(self, name: str, read: Sequence[str], make: Callable[[str, Slope], Rule]) -> list[Rule | UnknownRule]:
        """Return a rule by each argument, which reads values in the places of all."""
        return [
            unknown(name, argument, slope) if isinstance(slope, str) else reading(make(argument, slope), read)
            for argument, slope in self.slopes.items()
        ]
