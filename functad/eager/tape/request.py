"""The requests for derivatives of a tape: their arguments, checked before the tape is spent, and the backward passes.

The backward pass is `functad.transforms.reverse` over stretches of a list. It stops at each source that is not an input,
and continues from there. While a tape records, it records the backward pass too. The residuals of records are plain values;
`with_tensors` replaces them by Tensors of the list, so that the rules make further records.

A Jacobian needs one backward pass for many rows, with the seeds as a batch. The seeds come from
`functad.transforms.jacobian`, in chunks that bound the memory. An outer tape or transform records the backward pass
once for all rows of a chunk.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from functad.eager import containers
from functad.eager.tape.recorder import refuse_within
from functad.eager.variable import TensorLike, refuse_foreign_rules
from functad.errors import AbstractValueError, InputError, LoopWarning, SourceError, StructureError
from functad.expressions.records import checker, inputs_of, results_of
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, shape_of
from functad.places import here, warn
from functad.primitives.arranging.reshape import BROADCAST_TO
from functad.primitives.entry import PULL_READ, PULL_WRITE
from functad.primitives.operands import all_examples, read
from functad.tracing.concrete import idle, tensor_of
from functad.tracing.foreign import check_graph
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, Recorder, alike, bare
from functad.transforms.jacobian import of_identity, size_of, widest
from functad.transforms.linear import pushforward
from functad.transforms.reverse import RowSum, Scattered, pull_back
from functad.transforms.row_slices import RowSlices
from functad.trees import LEAF, Structure, flatten_as_inserted


class UnconnectedGradients(Enum):
    """The result for a source without a recorded path to the target: `None` or zeros.

    Example:
        >>> import functad
        >>> x, other = functad.constant(3.0), functad.constant([1.0, 2.0])
        >>> with functad.GradientTape() as tape:
        ...     tape.watch([x, other])
        ...     y = x * x
        >>> tape.gradient(y, other, unconnected_gradients=UnconnectedGradients.ZERO).numpy()
        array([0., 0.])
    """

    NONE = "none"
    ZERO = "zero"


_RESULTS = ("target", "ys", "the argument of jvp")
"""Argument names of targets. A target may be the plain result of a comparison or of a cast to integers."""


def leaves_of(tree: Any, what: str, *, plain: bool = False) -> tuple[list[tuple[Any, str]], Structure]:
    """Return the leaves of a pytree, each with its expression for messages, and the structure.

    Args:
        tree: the pytree of Tensors and Variables.
        what: its name in messages.
        plain: allow arrays and numbers as leaves.

    Raises:
        TypeError: a leaf has another type.
    """
    if isinstance(tree, Recorded):
        return [(tree, what)], LEAF
    if tree is None:
        raise SourceError(f"{what} is None, at {here()}: a Tensor or Variable is needed.")
    leaves, structure = flatten_as_inserted(tree)
    _refuse_none(structure, what)
    pairs = list(zip(leaves, structure.paths(what), strict=True))
    kinds = "biufc" if plain else "biu" if what in _RESULTS else ""
    for leaf, path in pairs:
        is_array = issubclass(type(leaf), (np.ndarray, np.generic)) and leaf.dtype.kind in kinds
        if not is_array and not isinstance(leaf, (Recorded, TensorLike)):
            raise SourceError(f"{path} is a {type(leaf).__name__}, at {here()}: {_cure(leaf, what)}")
    return pairs, structure


def _cure(leaf: Any, what: str) -> str:
    """Return the fix for a leaf that is not a Tensor."""
    if hasattr(leaf, "trainable_variables"):
        return f"a tape follows its Variables. Write {type(leaf).__name__.lower()}.trainable_variables."
    if what in _RESULTS:
        return (
            "it was not computed from a Tensor, or has left what is recorded: by a comparison or a cast to integers, which "
            "have no derivative, or by numpy(). Compute it from Tensors and Variables by NumPy functions that have one."
        )
    return (
        "a tape knows Tensors and Variables by what they are, not by their value. Make it one first: "
        "x = functad.constant(value), and use x in what follows."
    )


def _refuse_none(structure: Structure, path: str) -> None:
    if structure.kind is type(None):
        raise SourceError(f"there is None in {path}, at {here()}: a Tensor or Variable is needed there.")
    for child in structure.children:
        if child is not LEAF:
            _refuse_none(child, path)


def check_option(name: str, given: Any, allowed: Sequence[Any], advice: str) -> None:
    """Raise `ValueError` if an option of a request is not among the allowed values."""
    if given not in allowed:
        raise ValueError(f"{name} is {given!r}, at {here()}: {advice}.")


def zero_wanted(option: Any) -> bool:
    """Return `True` if `unconnected_gradients` asks for zeros; an unknown option raises `ValueError`."""
    text = getattr(option, "value", option)
    check_option("unconnected_gradients", text, ("none", "zero"), "it must be 'none' or 'zero'")
    return bool(text == "zero")


def checked_conj(option: Any) -> bool:
    """Return the option `conj` as a `bool`; another value raises `ValueError`."""
    check_option("conj", option, (True, False), "it must be True, for TensorFlow's gradients, or False, for those of grad")
    return bool(option)


def check_iterations(number: Any, vectorized: Any) -> None:
    """Raise `ValueError` for a value of these options of TensorFlow that means nothing; functad ignores other values."""
    if type(number) is not int or number < 1:
        check_option("parallel_iterations", number, (None,), "it has no meaning here; leave it out")
    check_option("experimental_use_pfor", vectorized, (True, False), "it has no meaning here; leave it out")


def seeds_for(targets: Sequence[tuple[Any, str]], structure: Structure, given: Any) -> list[Any]:
    """Return a checked seed for each target.

    Args:
        targets: the targets, from `leaves_of`.
        structure: the structure of the targets.
        given: the seeds, in this structure or in a list in TensorFlow's order. `None` means ones.

    Raises:
        ValueError: the number of seeds, a key or a shape does not fit.
        TypeError: a seed is not an array, or is complex for a real target, or the containers have other types.
    """
    if given is None or (isinstance(given, (list, tuple)) and not given):
        seeds: list[Any] = [None] * len(targets)
    elif containers.is_list(given):
        seeds = containers.listed(given)
        if len(seeds) != len(targets):
            raise StructureError(
                f"output_gradients holds {len(seeds)} seeds for {len(targets)} targets, at {here()}: "
                f"give one for each, None for ones."
            )
        seeds = containers.in_places(structure, seeds)
    else:
        seeds = [seed for seed, _ in containers.matched(structure, given, "output_gradients", "target")]
    return [_seed(seed, target, path) for seed, (target, path) in zip(seeds, targets, strict=True)]


def _seed(seed: Any, target: Any, path: str) -> Any:
    shape, dtype = shape_of(target), dtype_of(target)
    if seed is None:
        return np.ones(shape, dtype)[()]
    seed = as_numbers(seed, f"the output gradient for {path}")
    if shape_of(seed) != shape:
        raise StructureError(
            f"the output gradient for {path} has shape {shape_of(seed)}, at {here()}; the target has shape {shape}. "
            f"Give one of that shape: np.full(shape, seed)."
        )
    own = dtype_of(seed)
    if own.kind == "c" and dtype.kind != "c":
        raise InputError(f"the output gradient for {path} is {own}, at {here()}; the target is {dtype}.")
    if type(seed) in PYTHON_SCALARS:
        return dtype.type(seed)
    return seed if own == dtype else seed.astype(dtype)


def as_numbers(given: Any, what: str) -> Any:
    """Return a seed or tangent as a Tensor, an array or a Python number; raise `TypeError` if it holds no numbers."""
    value = read(given)
    if isinstance(value, Recorded) or type(value) in PYTHON_SCALARS:
        return value
    refuse_foreign_rules(value, what)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise InputError(f"{what} is a {type(value).__name__} of {array.dtype}, at {here()}: give numbers.")
    return array[()]


def gradients_of(
    tape: Any,
    targets: Sequence[tuple[Any, str]],
    seeds: Sequence[Any],
    sources: Sequence[Any],
    cuts: Sequence[Any] = (),
    *,
    conj: bool,
    sparse: bool = False,
) -> list[Any]:
    """Return the cotangent of each source, or `None` without a path.

    The backward pass uses the convention of `functad.vjp`. With `conj`, seeds and results follow TensorFlow: they are
    conjugated. With `sparse`, the cotangent of an input that was read by rows only is a `RowSlices`.
    """
    by_slot: dict[int, Any] = {}
    direct: list[list[Any]] = [[] for _ in sources]
    for (target, _), seed in zip(targets, seeds, strict=True):
        refuse_within(read(target), tape.recorder, "a gradient")
        check_graph(read(target), tape.slots_of)
        slots = tape.slots_of(read(target))
        if slots and dtype_of(target).kind in "fc":
            seed = conjugated(seed) if conj else seed
            by_slot[slots[-1]] = seed if slots[-1] not in by_slot else by_slot[slots[-1]] + seed
        else:
            for own, source in zip(direct, sources, strict=True):
                if source is target:
                    own.append(seed)
    by_source = [tape.slots_of(source) for source in sources]
    cut = {slot for tensor in cuts for slot in tape.slots_of(tensor)}
    found = tape.pull(by_slot, {slot for slots in by_source for slot in slots}, cut, sparse=sparse)
    result = []
    for slots, own in zip(by_source, direct, strict=True):
        parts = [conjugated(found[slot]) if conj else found[slot] for slot in slots if slot in found] + own
        result.append(functools.reduce(operator.add, parts) if parts else None)
    return result


def conjugated(g: Any) -> Any:
    """Return the conjugate of a complex cotangent, to convert between the conventions of `functad.grad` and TensorFlow."""
    return g.conjugate() if dtype_of(g).kind == "c" else g


def finished(g: Any, source: Any, zero: bool) -> Any:
    """Return a gradient as a Tensor with the dtype and shape of its source; without a gradient, `None` or zeros."""
    shape, dtype = shape_of(source), dtype_of(source)
    if isinstance(g, RowSlices):
        return g.with_values(finished(g.values, ArraySpec(shape_of(g.values), dtype), False))
    if g is None:
        return idle(Tensor, np.zeros(shape, dtype)[()]) if zero else None
    if dtype_of(g) != dtype:
        g = g.real if dtype_of(g).kind == "c" and dtype.kind != "c" else g
        g = dtype.type(g) if type(g) in PYTHON_SCALARS else g.astype(dtype)
    if shape_of(g) != shape:
        g = BROADCAST_TO(g, shape=shape)
    if isinstance(g, Recorded):
        return tensor_of(Tensor, g)
    return idle(Tensor, g.copy()[()] if type(g) is np.ndarray and (g.base is not None or not g.flags.writeable) else g)


class JacobianRequest:
    """The checked arguments of a request for a Jacobian, and the backward passes for many seeds of one target.

    A wrong argument raises before the tape is spent.

    Attributes:
        transform, function, values: the method, the tape and the target, as in a `Pullback`.
        chunk_size: the largest number of seeds in one backward pass.
        structure: the structure of the sources.
        zero: return zeros for a source without a path.
        conj: return conjugates, as TensorFlow does.
    """

    def __init__(
        self, tape: Any, method: str, target: Any, sources: Any, unconnected: Any, conj: Any, chunk_size: int | None
    ) -> None:
        self.zero, self.conj = zero_wanted(unconnected), checked_conj(conj)
        self.targets, structure = leaves_of(target, "target")
        pairs, self.structure = leaves_of(sources, "sources")
        if not isinstance(chunk_size, (int, np.integer)) or chunk_size < 1:
            check_option("chunk_size", chunk_size, (None,), "it must be at least 1, or None")
        if structure.kind is not None:
            raise SourceError(f"{method} needs one Tensor as its target, not a {type(target).__name__}, at {here()}.")
        self.transform, self.function, self.values = method, tape, [target]
        self.tape, self.target, self.chunk_size = tape, target, chunk_size
        self.sources = [source for source, _ in pairs]

    def jacobian(self) -> Any:
        """Return the Jacobians, in the structure of the sources."""
        target, sources = self.target, self.sources
        size = size_of(target)
        if not size:
            self.zero, found = True, [None] * len(sources)
        elif size > 2 * sum(map(size_of, sources)) and self._transposable():
            found = self._columns()
        else:
            found = self._passes(target, self._pull)
        return self.structure.unflatten(
            [self._shaped(g, (*shape_of(target), *shape_of(s)), s) for g, s in zip(found, sources, strict=True)]
        )

    def check_batch(self) -> None:
        """Raise an error if target and source are not two Tensors with equally many rows."""
        if self.structure.kind is not None:
            raise SourceError(f"batch_jacobian() needs one Tensor as its source, at {here()}.")
        given, wanted = shape_of(self.target), shape_of(self.sources[0])
        if len(given) < 2 or len(wanted) < 2 or given[0] != wanted[0]:
            raise ValueError(
                f"batch_jacobian() of a target of shape {given} by a source of shape {wanted}, at {here()}: both need at "
                f"least two axes, the first ones equally long."
            )

    def batch_jacobian(self, *, check: bool) -> Any:
        """Return the Jacobian of each target row; with `check`, check that the rows are independent."""
        target, (source,) = self.target, self.sources
        given = shape_of(target)
        found = None
        if not math.prod(given):
            self.zero = True
        else:  # the same seed for every row
            row = ArraySpec(given[1:], dtype_of(target))
            (rows,) = self._passes(row, lambda seed: self._pull(np.broadcast_to(seed, given)))
            if rows is not None:
                found = np.moveaxis(rows, 0, 1)
                if check:
                    self._compare(size_of(row))
        return self._shaped(found, (*given, *shape_of(source)[1:]), source)

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the sources for a seed of the target; `None` without a path."""
        return gradients_of(self.tape, self.targets, seeds, self.sources, conj=self.conj)

    def _pull(self, seed: Any) -> list[Any]:
        return self.leaves([seed])

    @cached_property
    def _width(self) -> int:
        """The size of the largest value of a backward pass."""
        return widest(self.tape.recorder, self.target, *self.sources)

    def _passes(self, value: Any, run_pass: Callable[[Any], list[Any]]) -> list[Any]:
        """Return the results of a pass for each row of the identity matrix over the elements of `value`.

        A gradient function of the user may need the value of its cotangent, which a batch cannot give. Then each seed gets
        its own pass. Under `debug_nans` too: it finds the origin of a NaN for one cotangent at a time.
        """
        recorder, rows = self.tape.recorder, size_of(value)
        pass_ = lambda seeds: run_pass(seeds[0])  # noqa: E731
        try:
            return of_identity(self, [value], 0, pass_, self.chunk_size if recorder.monitor is None else 1, self._width)
        except AbstractValueError:
            if not recorder.fallible or rows == 1:
                raise
            found = of_identity(self, [value], 0, pass_, 1, self._width)
            warn(
                LoopWarning(
                    f"{self.transform} needs one backward pass for each of {rows} rows, at {here()}: a gradient function "
                    f"asks for the value of its cotangent. Write it with NumPy functions, np.where in place of `if`."
                )
            )
            return found

    def _transposable(self) -> bool:
        """Return `True` if `_columns` is possible: all values are real, and no rule or monitor needs single cotangents."""
        real = all(dtype_of(value).kind == "f" for value in (self.target, *self.sources))
        return real and not self.tape.recorder.fallible and self.tape.recorder.monitor is None and checker() is None

    def _columns(self) -> list[Any]:
        """Return the Jacobian for each source, computed column by column from one backward pass; `None` without a path."""
        push = pushforward(self)
        result = []
        for i, source in enumerate(self.sources):
            push_one = lambda t, i=i: push([t if j == i else None for j in range(len(self.sources))])  # noqa: E731
            (columns,) = self._passes(source, push_one) or [None]
            if columns is None and push.cotangents[i] is not None:  # a rule returned a constant
                columns = np.zeros((size_of(source), *shape_of(self.target)), dtype_of(source))
            result.append(None if columns is None else np.moveaxis(columns, 0, -1))
        return result

    def _compare(self, size: int) -> None:
        """Raise `ValueError` if a target row, with `size` elements, depends on a source row other than its own."""
        target, (source,) = self.target, self.sources
        (found,) = self._passes(target, self._pull)
        own = np.arange(size_of(target)) // size
        reached = _not_zero(found, 1 + len(shape_of(source)))
        reached[np.arange(len(own)), own] = False
        if reached.any():
            raise ValueError(
                f"batch_jacobian(check=True) at {here()}: row {own[reached.any(1)][0]} of the target depends on other rows of "
                f"the source. Use jacobian()."
            )

    def _shaped(self, found: Any, shape: tuple[int, ...], source: Any) -> Any:
        """Return all rows as a Tensor with the given shape and the dtype of the source; without a path, `None` or zeros."""
        if found is not None and shape_of(found) != shape:
            found = found.reshape(shape)
        return finished(found, ArraySpec(shape, dtype_of(source)), self.zero)


def _not_zero(found: Any, ndim: int) -> Any:
    """Return a mask over the first two axes: `True` where any value, in any example of a batch, is not zero.

    Raises:
        AbstractValueError: the trace has no values.
    """
    held = all_examples(found)
    if isinstance(held, ArraySpec):
        found.recorder.concrete_value(found, "batch_jacobian(check=True)")
    outer = np.ndim(held) - ndim
    return (np.asarray(held) != 0).any(axis=(*range(outer), *range(outer + 2, np.ndim(held))))


def cotangents_at(
    records: list[Any], seeds: dict[int, Any], wanted: set[int], cuts: set[int], *, sparse: bool = False
) -> dict[int, Any]:
    """Return the cotangents of the wanted slots by slot, without slots that no path reaches.

    Args:
        records: the records of the tape, by slot; `None` in place of other records.
        seeds: cotangents of the targets, by slot.
        wanted: the slots of the sources.
        cuts: slots that count as constants: the backward pass does not continue from them.
        sparse: return `RowSlices` for an input that was read by rows only.
    """
    if not seeds:
        return {}
    top = max(seeds) + 1
    cotangents: list[Any] = [None] * top
    for slot, seed in seeds.items():
        cotangents[slot] = seed
    found: dict[int, Any] = {}
    inputs = {slot for slot in wanted if slot < top and _is_input(records, slot)}
    for slot in inputs if sparse else ():
        if cotangents[slot] is None:
            cotangents[slot] = RowSum()
    for slot in sorted((slot for slot in (wanted - inputs) | cuts if slot < top), reverse=True):
        stop = _group_end(records, slot + 1)
        if stop < len(cotangents):
            rest = pull_back(records, cotangents, stop, consume=False)
            found |= _found_at_inputs(cotangents, inputs, stop)
            cotangents = rest
            for g in rest if sparse else ():
                if type(g) is RowSum:
                    g.settle()
        if cotangents[slot] is not None:
            found[slot] = cotangents[slot]
        if slot in cuts:
            cotangents[slot] = None
    pull_back(records, cotangents, 0, consume=False)
    found |= _found_at_inputs(cotangents, inputs, 0)
    return found


def _found_at_inputs(cotangents: list[Any], inputs: set[int], start: int) -> dict[int, Any]:
    """Return the cotangents of the inputs from slot `start` on. A pass leaves the cotangents of inputs in the list."""
    held = {slot: cotangents[slot] for slot in inputs if start <= slot < len(cotangents)}
    return {s: total for s, g in held.items() if (total := g.total() if type(g) in (Scattered, RowSum) else g) is not None}


def _is_input(records: Sequence[Any], slot: int) -> bool:
    """Return `True` if a slot is an input, not a result of an operation."""
    return records[slot] is None and _group_end(records, slot + 1) == slot + 1


def _group_end(records: Sequence[Any], stop: int) -> int:
    """Return the end of the results of the operation that made slot `stop - 1`; it may have several results."""
    index = stop - 1
    while index < len(records) and records[index] is None:
        index += 1
    return index + 1 if index < len(records) and results_of(records[index], index)[0] < stop else stop


def with_tensors(recorder: Recorder, index: int, record: Any) -> Any:
    """Return a record with its residuals replaced by Tensors of its own list."""
    plan, slots, residuals, fits = record
    if not plan.names or plan.special in (PULL_READ, PULL_WRITE):
        return record
    by_position = dict(zip(plan.active, inputs_of(record), strict=True))

    def tensor(value: Any, slot: int | None) -> Any:
        return value if slot is None else bare(Tensor, recorder, value, slot)

    def one(name: str, value: Any) -> Any:
        if name == "out":
            if not plan.primitive.multiple:
                return tensor(value, index)
            return alike(value, list(map(tensor, value, results_of(record, index))))
        if name in ("arrays", "rest"):
            return tuple([tensor(v, by_position.get(i)) for i, v in enumerate(value, int(name == "rest"))])
        names = plan.primitive.names
        return tensor(value, by_position.get(names.index(name)) if name in names else None)

    if len(plan.names) == 1:
        return plan, slots, one(plan.names[0], residuals), fits
    return plan, slots, tuple(map(one, plan.names, residuals)), fits
