"""Functions with complements and inverses in SciPy: all derivatives follow from the partial derivatives of the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.primitives.entry import Rule, UnknownRule
from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import Argument, reading, special_function, unknown

Slope = Callable[..., Any]


class Partials:
    """A function given by its partial derivatives.

    Args:
        call: the names of the function and its arguments, such as `fdtr(dfn, dfd, x)`.
        slopes: one function of all arguments for each argument, the partial derivative; or the reason why there is none. An
            empty reason means that no closed form is known.
    """

    def __init__(self, call: str, *slopes: Slope | str) -> None:
        self.call = call
        self.name, _, arguments = call.rstrip(")").partition("(")
        self.slopes: dict[str, Any] = dict(zip(arguments.split(", "), slopes, strict=True))

    def enter(self, arguments: Sequence[Argument], doc: str, complement: str = "", **traits: Any) -> None:
        """Enter the function, and its complement if a name is given.

        Args:
            arguments: the sample range of each argument.
            doc: one line on the derivative.
            complement: the name of the function `1 - f`, or "".
            traits: other attributes of the primitive of the function.
        """
        names = tuple(self.slopes)
        rules = self._rules(self.name, names, lambda _, slope: lambda g, *values: product(g, slope(*values)))
        special_function(self.name, *rules, arguments=arguments, names=names, doc=doc, **traits)
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
        """Enter the inverse for one argument, by the implicit function theorem; it takes the value `y` in its place.

        Args:
            name: the name of the inverse.
            sought: the argument that the inverse returns.
            arguments: the sample range of each argument.
            complement: `y` is a value of the complement.
            limit: the end of SciPy's search range. All derivatives of a result at an end of the range are zero: the partial
                derivative with respect to `sought` counts as infinite, and the others as zero.
            given: argument names and rules that replace the derived rules.
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
        """Return one rule per argument; the residuals of each are named by `read`."""
        return [
            unknown(name, argument, slope) if isinstance(slope, str) else reading(make(argument, slope), read)
            for argument, slope in self.slopes.items()
        ]
