"""The base class of optimisers: it updates variables, and keeps the state of a pure transformation for each variable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from functad.eager.tape.tape import GradientTape
from functad.eager.variable import MAKER, Variable, refuse_foreign_rules
from functad.errors import (
    AbstractValueError,
    InputError,
    MissingGradientError,
    MissingGradientWarning,
    OptimizerError,
    StructureError,
)
from functad.expressions.spec import ArraySpec, spec_of
from functad.optimizers.shown import ShownOptimizer
from functad.optimizers.traced_step import traced_step
from functad.optimizers.transformations import (
    EmptyState,
    GradientTransformation,
    Schedule,
    add_decayed_weights,
    apply_updates,
    chain,
    clip,
    clip_by_global_norm,
    clip_by_norm,
)
from functad.places import here, warn
from functad.transforms.row_slices import RowSlices, whole
from functad.trees import Structure, flatten


class VariableLike(Protocol):
    """The interface of a variable that an optimiser can update."""

    @property
    def name(self) -> str:
        """The name, for messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which never changes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, which never changes."""

    def numpy(self) -> Any:
        """Return a copy of the value."""

    def assign(self, value: Any, /) -> Any:
        """Replace the value.

        Args:
            value: an array of this shape and dtype.

        Returns:
            Anything; the result is ignored.
        """


class _Slot:
    """A variable with its optimiser state."""

    __slots__ = ("state", "variable")

    def __init__(self, variable: Any, state: Any) -> None:
        self.variable, self.state = variable, state

    def entries(self, index: int) -> tuple[dict[str, Any], Structure]:
        """Return the leaves of the state by path, and its structure."""
        leaves, structure = flatten(self.state)
        return dict(zip(structure.paths(f"variables[{index}]"), map(np.asarray, leaves), strict=True)), structure


class Optimizer(ShownOptimizer):
    """An optimiser: `apply_gradients` updates variables by one step. Subclasses such as `SGD` and `Adam` define the step.

    A subclass defines `rule(learning_rate)`, which returns a pure transformation.

    Args:
        learning_rate: a number, or a schedule: a function of the number of completed steps.
        weight_decay: adds `-learning_rate weight_decay value` to the step of each variable, as in AdamW.
        clipnorm: the largest norm of the gradient of each variable; larger gradients are scaled down.
        clipvalue: clips each element of a gradient to `[-clipvalue, clipvalue]`.
        global_clipnorm: the largest joint norm of all gradients; larger gradients are scaled down together.

    Attributes:
        iterations: the number of completed steps.

    Raises:
        OptimizerError: more than one of `clipnorm`, `clipvalue` and `global_clipnorm` is given, or one is not positive.

    Example:
        >>> from functad.optimizers import scale
        >>> class Halving(Optimizer):
        ...     def rule(self, learning_rate):
        ...         return scale(-learning_rate / 2)
        >>> Halving(learning_rate=0.5)
        Halving(learning_rate=0.5, iterations=0)
    """

    def __init__(
        self,
        learning_rate: Any,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        limits = {"clipnorm": clipnorm, "clipvalue": clipvalue, "global_clipnorm": global_clipnorm}
        given = [name for name, limit in limits.items() if limit is not None]
        if len(given) > 1:
            raise OptimizerError(
                f"{type(self).__name__}, made at {here()}, got both {given[0]} and {given[1]}. Choose one: each variable's "
                "gradient by itself, each number by itself, or all of them together."
            )
        for name in given:
            if not limits[name] > 0:  # type: ignore[operator]
                raise OptimizerError(f"{type(self).__name__}, made at {here()}, needs a positive {name}, got {limits[name]}.")
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.clipnorm = clipnorm
        self.clipvalue = clipvalue
        self.global_clipnorm = global_clipnorm
        self.iterations = 0
        self._slots: Sequence[_Slot] = []
        self._waiting: dict[str, Any] = {}  # loaded state of variables not yet known

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _slots=tuple(state["_slots"]))  # a tuple marks that the variables may not belong to this copy

    def rule(self, learning_rate: Any) -> GradientTransformation:
        """Return the pure transformation from gradients to steps, for a given learning rate.

        Args:
            learning_rate: the learning rate of the step, a number.

        Returns:
            A `GradientTransformation`. Its updates are added to the variables.

        Raises:
            OptimizerError: the class defines no rule.
        """
        raise OptimizerError(
            f"{type(self).__name__} has no rule, at {here()}. Use SGD, Adam, AdamW, RMSprop or Adagrad, or define `rule`."
        )

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step. A number or a schedule can be assigned."""
        return float(self._learning_rate(self.iterations)) if callable(self._learning_rate) else self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float | Schedule) -> None:
        self._learning_rate: Any = value if callable(value) else float(value)

    def apply_gradients(self, pairs: Iterable[tuple[Any, VariableLike]]) -> None:
        """Update variables by one step. After an error or an interrupt, variables and state are unchanged.

        Args:
            pairs: `(gradient, variable)` for each variable, such as `zip(gradients, variables)`. A variable with the gradient
                `None` is not updated, and a warning is given. For a gradient of type `RowSlices`, plain `SGD` updates the given
                rows only. All other optimisers convert it to a full array, because they also update the remaining rows.

        Raises:
            MissingGradientError: all gradients are `None`, or there are no pairs.
            StructureError: a gradient and its variable differ in shape.
            InputError: a gradient is complex and its variable is not, or the variable is an integer.
            AbstractValueError: a gradient is batched by `vmap`.
            OptimizerError: an item is not a pair of a gradient and a variable, or a variable is given twice.

        Example:
            See `functad.optimizers.SGD`.
        """
        listed = self._listed(pairs)
        known, waiting = self._built([variable for _, variable in listed])
        if (cells := MAKER.get()) is not None:
            self._slots, self._waiting = known, waiting
            traced_step(self, cells, listed)
            return
        present = [(gradient, variable) for gradient, variable in listed if gradient is not None]
        by_rows = [(self._fitting(g, v), v) for g, v in present if isinstance(g, RowSlices) and self._moves_rows(v)]
        alone = {id(variable) for _, variable in by_rows}
        moving = [(self._fitting(whole(gradient), v), v) for gradient, v in present if id(v) not in alone]
        gradients, _ = self.clipping().update([gradient for gradient, _ in moving], EmptyState())
        slots = {id(slot.variable): slot for slot in known}
        rate = self.learning_rate
        rule, decay = self.rule(rate), add_decayed_weights(-rate * (self.weight_decay or 0.0))
        steps = []
        for gradient, (_, variable) in zip(gradients, moving, strict=True):
            slot, value = slots[id(variable)], _value_of(variable)
            update, after = rule.update(gradient, slot.state, value)
            if self.weight_decay:
                update, _ = decay.update(update, EmptyState(), value)
            steps.append((slot, apply_updates(value, update), after))
        undo: list[Callable[[], Any]] = [
            partial(setattr, self, name, getattr(self, name)) for name in ("_slots", "_waiting", "iterations")
        ]
        try:
            for slot, value, after in steps:
                undo += [_putting_back(slot.variable), partial(setattr, slot, "state", slot.state)]
                slot.variable.assign(value)
                slot.state = after
            for gradient, variable in by_rows:
                undo.append(_putting_back(variable))
                variable.assign_sub(rate * gradient)  # type: ignore[attr-defined] # `_moves_rows` has checked
            self._slots, self._waiting, self.iterations = known, waiting, self.iterations + 1
        except BaseException:
            for put_back in undo:
                put_back()
            raise

    def minimize(self, loss: Callable[[], Any], variables: Iterable[Any] | None = None) -> Any:
        """Update variables by one step of descent on a loss, and return the loss.

        Args:
            loss: a function without arguments that computes the loss from the variables.
            variables: the variables to update. Default: the trainable variables that `loss` reads.

        Returns:
            The result of `loss`, before the step.

        Raises:
            MissingGradientError, StructureError, InputError, OptimizerError: as for `apply_gradients`.

        Example:
            >>> import functad
            >>> w, optimizer = functad.Variable(1.0), functad.optimizers.SGD(0.1)
            >>> float(optimizer.minimize(lambda: w * w)), float(w)
            (1.0, 0.8)
        """
        with GradientTape() as tape:
            chosen = None if variables is None else list(variables)
            if chosen is not None:
                tape.watch(chosen)
            value = loss()
        moved = list(tape.watched_variables()) if chosen is None else chosen
        self.apply_gradients(zip(tape.gradient(value, moved), moved, strict=True))
        return value

    def build(self, variables: Iterable[VariableLike]) -> None:
        """Create the state of new variables. `apply_gradients` does this automatically.

        Args:
            variables: the variables, in the order in which their state is saved.

        Raises:
            StructureError: the loaded state does not fit a variable.
        """
        self._slots, self._waiting = self._built(variables)

    def _built(self, variables: Iterable[VariableLike]) -> tuple[list[_Slot], dict[str, Any]]:
        """Return the slots of all variables, including new ones, and the loaded state that no variable has claimed."""
        variables, known = list(variables), {id(slot.variable) for slot in self._slots}
        rule = self.rule(self.learning_rate)
        slots, waiting = list(self._slots), self._waiting
        if type(self._slots) is tuple and not known.intersection(map(id, variables)):  # copied without its model
            slots, waiting = [], {key: value for key, value in self.variables.items() if key.startswith("variables[")}
        for variable in variables:
            if id(variable) not in known:
                known.add(id(variable))
                slot = _Slot(variable, rule.init(_value_of(variable)))
                index = len(slots)
                if any(key.startswith(f"variables[{index}]") for key in waiting):
                    slot.state = self._loaded(slot, index, waiting)
                slots.append(slot)
        return slots, {key: value for key, value in waiting.items() if _index(key) >= len(slots)}

    @property
    def variables(self) -> dict[str, Any]:
        """The complete state of the optimiser by name, as arrays that a file can hold. `load` restores it.

        Variables are numbered in the order of their first use. A learning rate schedule is not included.
        """
        found: dict[str, Any] = {"iterations": np.asarray(self.iterations)}
        if not callable(self._learning_rate):
            found["learning_rate"] = np.asarray(self._learning_rate)
        for index, slot in enumerate(self._slots):
            found.update({key: value.copy() for key, value in slot.entries(index)[0].items()})
        return found | self._waiting

    def __functad_state__(self) -> dict[str, Any]:
        return self.variables  # lets `functad.save` find the state of an optimiser inside a module

    def __functad_load__(self, entries: Mapping[str, Any]) -> None:
        self.load(entries)

    def load(self, entries: Mapping[str, Any]) -> None:
        """Restore the state of another optimiser of the same kind.

        Args:
            entries: its `variables`, or arrays with the same names. Entries of variables that this optimiser does not know yet
                are kept until their first use.

        Raises:
            StructureError: an entry is missing, unknown or of another shape. The optimiser is then unchanged.
        """
        expected = {"iterations"} | (set() if callable(self._learning_rate) else {"learning_rate"})
        given = {key: _plain(value) for key, value in entries.items()}
        wrong = [f"{key!r} is missing" for key in sorted(expected - set(given))]
        wrong += [f"{key!r} is unknown" for key in given if key not in expected and _index(key) < 0]
        wrong += [f"{key!r} is {spec_of(given[key])}, no number" for key in expected & set(given) if given[key].shape != ()]
        if wrong:
            raise StructureError(f"{type(self).__name__}.load, called at {here()}, does not fit: {', '.join(wrong)}.")
        states = [self._loaded(slot, index, given) for index, slot in enumerate(self._slots)]
        changed = vars(self) | {
            "_slots": [_Slot(slot.variable, state) for slot, state in zip(self._slots, states, strict=True)],
            "_waiting": {key: value for key, value in given.items() if _index(key) >= len(self._slots)},
            "iterations": int(given["iterations"]),
        }
        if "learning_rate" in expected:
            changed["_learning_rate"] = float(given["learning_rate"])
        self.__dict__ = changed  # one atomic assignment

    def clipping(self) -> GradientTransformation:
        """Return the clipping of all gradients before a step, as set by the options.

        Returns:
            A `GradientTransformation` without a state.
        """
        if self.global_clipnorm is not None:
            return clip_by_global_norm(self.global_clipnorm)
        if self.clipvalue is not None:
            return clip(self.clipvalue)
        return clip_by_norm(self.clipnorm) if self.clipnorm is not None else chain()

    def _listed(self, pairs: Iterable[tuple[Any, VariableLike]]) -> list[tuple[Any, VariableLike]]:
        """Return the pairs as a list, after the checks that need no values."""
        given: Any = pairs
        listed: list[Any] = list(given) if isinstance(given, Iterable) else [given]
        met: set[int] = set()
        for pair in listed:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not hasattr(pair[1], "assign"):
                raise OptimizerError(
                    f"{self._call()} needs pairs (gradient, variable), but got a {_described(pair)}. Write "
                    "`optimizer.apply_gradients(zip(gradients, variables))`."
                )
            if id(pair[1]) in met:
                raise OptimizerError(f"{self._call()} got {pair[1].name!r} twice. Pass the sum of its gradients once.")
            met.add(id(pair[1]))
        missing = ", ".join([repr(variable.name) for gradient, variable in listed if gradient is None])
        if all(gradient is None for gradient, _ in listed):
            raise MissingGradientError(
                f"{self._call()} got no gradient for any variable: {f'those of {missing} are None' if missing else 'no pair'}. "
                "`tape.explain(loss, variable)` says where the path from a variable to the loss ends, and "
                "`tape.gradient(loss, variables, missing='raise')` raises with that text."
            )
        if missing:
            warn(
                MissingGradientWarning(
                    f"{self._call()} got None for the gradient of {missing}: not moved. "
                    "`tape.explain(loss, variable)` says why."
                )
            )
        return listed

    def moves_rows_alone(self) -> bool:
        """Return `True` if a step is the gradient times the learning rate, so that rows without a gradient do not change."""
        return False

    def _moves_rows(self, variable: VariableLike) -> bool:
        plain = not self.weight_decay and self.clipnorm is None and self.clipvalue is None and self.global_clipnorm is None
        return plain and self.moves_rows_alone() and hasattr(variable, "assign_sub")

    def _fitting(self, gradient: Any, variable: VariableLike) -> Any:
        """Return a gradient as an array, or `RowSlices` of one, that fits its variable."""
        values = gradient.values if isinstance(gradient, RowSlices) else gradient
        refuse_foreign_rules(values, f"{type(self).__name__}.apply_gradients for {variable.name!r} with a gradient")
        try:
            array = gradient.with_values(_plain(gradient.values)) if isinstance(gradient, RowSlices) else _plain(gradient)
            dtype = variable.dtype
        except AbstractValueError as error:
            raise AbstractValueError(
                f"{self._call()} got for {variable.name!r} a gradient that has no one value, as under vmap. Return the "
                f"gradients from the function and apply their mean after it; or train each example's own variables by the "
                f"pure rules, functad.optimizers.adam and the like, with functional_call."
            ) from error
        if array.shape == tuple(variable.shape) and dtype.kind in "fc" and array.dtype.kind in _GRADIENTS[dtype.kind]:
            return array if array.dtype == dtype else array.astype(dtype)
        own = f"{variable.name!r}, which is {ArraySpec(tuple(variable.shape), dtype)}"
        what = f"{self._call()} got for {own}, a gradient that is {spec_of(array)}."
        if array.shape != tuple(variable.shape):
            raise StructureError(f"{what} Both must have one shape.")
        if dtype.kind not in "fc":
            raise InputError(f"{what} Only floating-point and complex variables can be trained.")
        raise InputError(f"{what} Take its real part if that is meant.")

    def _call(self) -> str:
        """Return the beginning of a message."""
        return f"{type(self).__name__}.apply_gradients, called at {here()},"

    def _loaded(self, slot: _Slot, index: int, entries: Mapping[str, Any]) -> Any:
        """Return the state of a variable from loaded entries."""
        own, structure = slot.entries(index)
        given = {key for key in entries if _index(key) == index}
        wrong = [f"{key!r} is missing" for key in own if key not in given]
        wrong += [f"{key!r} is unknown" for key in sorted(given - set(own))]
        for key in given & set(own):
            if entries[key].shape != own[key].shape:
                wrong.append(f"{key!r} is {spec_of(entries[key])} and should be {spec_of(own[key])}")
            elif not np.can_cast(entries[key].dtype, own[key].dtype, "same_kind"):
                wrong.append(f"{key!r} is {spec_of(entries[key])}, which is no {own[key].dtype.name}")
        if wrong:
            raise StructureError(
                f"The state loaded into {type(self).__name__} does not fit {slot.variable.name!r}, at {here()}: "
                f"{', '.join(wrong)}. It was saved by another optimiser, or for variables in another order."
            )
        return structure.unflatten([np.array(entries[key], dtype=leaf.dtype)[()] for key, leaf in own.items()])


def _value_of(variable: VariableLike) -> Any:
    """Return the value of a variable. Reading a functad `Variable` is not recorded by tapes."""
    return variable.copied() if isinstance(variable, Variable) else variable.numpy()


def _putting_back(variable: VariableLike) -> Callable[[], Any]:
    """Return a function that restores the present value of a variable."""
    if isinstance(variable, Variable):
        return variable.putting_back()
    return partial(variable.assign, variable.numpy())


_GRADIENTS = {"f": "biuf", "c": "biufc"}
"""The dtype kinds of gradients that a variable accepts, by the kind of the variable."""


def _index(key: str) -> int:
    """Return the number of the variable of an entry, or -1 if the entry belongs to no variable."""
    match = re.match(r"variables\[(\d+)\]", key)
    return int(match[1]) if match else -1


def _plain(value: Any) -> Any:
    """Return the value of an array, Tensor or variable as an array."""
    numpy = getattr(value, "numpy", None)
    return np.asarray(numpy() if callable(numpy) else value)


def _described(pair: Any) -> str:
    if isinstance(pair, (tuple, list)):
        return f"{type(pair).__name__} of ({', '.join(type(part).__name__ for part in pair)})"
    return type(pair).__name__
