"""The equation and the calling convention of a decorated solver. Derivatives are in `functad.implicit.root`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from functad.errors import InputError, OutputError
from functad.implicit.linear_solve import Method
from functad.places import here, name_of
from functad.tracing.trace import Recorded, value_of
from functad.trees import flatten


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """The equation that a decorated solver solves, with the settings of its derivative.

    Attributes:
        transform: the name of the decorator.
        residual: `residual(x, *params)`, zero at the solution; a wrapper of the user's function.
        solver: `solver(init, *params)`.
        has_aux: the solver returns a pair.
        method: the method for the linear systems.
        check: `warn`, `raise` or `None`.
        tolerance: the largest accepted Newton step from the solution, relative to the size of the solution.
    """

    transform: str
    residual: Callable[..., Any]
    solver: Callable[..., Any]
    has_aux: bool
    method: Method
    check: str | None
    tolerance: float

    @property
    def where(self) -> str:
        """The beginning of an error message about a call."""
        return f"{self.transform} of {name_of(self.solver)}, called at {here()}"

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional arguments and the keyword-only arguments of the solver. Other keywords become positional.

        Raises:
            InputError: there is no initial value, or an option is a Tensor.
        """
        if kwargs:
            bound = inspect.signature(self.solver).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if not args:
            raise InputError(f"{self.where}: the first argument is the initial value.")
        if any(isinstance(value_of(leaf), Recorded) for leaf in flatten(kwargs)[0]):
            raise InputError(
                f"{self.where}: a Tensor is given for an argument that is no parameter of the equation. Pass it by position."
            )
        return args, kwargs

    def at(self, x: Any, params: Sequence[Any]) -> Any:
        """Return the residual.

        Raises:
            InputError: `residual` does not accept this number of arguments.
        """
        try:
            return self.residual(x, *params)
        except TypeError:
            self._check_arguments(1 + len(params))
            raise

    def _check_arguments(self, count: int) -> None:
        """Raise `InputError` if the residual cannot be called with `count` arguments."""
        try:
            inspect.signature(self.residual).bind(*[None] * count)
        except ValueError:  # functions in C may have no signature
            return
        except TypeError as error:
            params = {1: "no parameters", 2: "1 parameter"}.get(count, f"{count - 1} parameters")
            raise InputError(
                f"{self.where}: it was given an initial value and {params}, with which {name_of(self.residual)} cannot be "
                f"called as f(x, *params): {error}. The first argument of a solver is the initial value, even if it does not "
                f"read that: solver(init, *params)."
            ) from None

    def parted(self, out: Any) -> tuple[Any, Any]:
        """Return the solution and the auxiliary result, given the result of the solver.

        Raises:
            OutputError: `has_aux` is set, and the result is not a pair.
        """
        if not self.has_aux:
            return out, None
        if not isinstance(out, tuple) or len(out) != 2:
            raise OutputError(
                f"{self.transform} of {name_of(self.solver)} with has_aux=True, called at {here()}: the solver must return a "
                f"pair (solution, aux), not a {type(out).__name__}."
            )
        return out
