"""The requests for derivatives of a tape: their arguments, checked before the tape is spent, and the backward passes.

The backward pass is `functad.transforms.reverse` over stretches of a list. It stops at each source that is not an input,
and continues from there. While a tape records, it records the backward pass too. The residuals of records are plain values;
`raised` replaces them by Tensors of the list, so that the rules make further records.

A Jacobian needs one backward pass for many rows, with the seeds as a batch. The seeds come from
`functad.transforms.jacobian`, in chunks that bound the memory. An outer tape or transform records the backward pass
once for all rows of a chunk.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from functad.eager import containers
from functad.eager.models.variable import TensorLike, refuse_foreign_rules
from functad.eager.tape.recorder import refuse_within
from functad.errors import AbstractValueError, InputError, LoopWarning, NoPathError, SourceError, StructureError
from functad.expressions.observers import checker
from functad.expressions.records import inputs_of, results_of
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, shape_of
from functad.places import here, warn
from functad.primitives.arranging.broadcast import BROADCAST_TO
from functad.primitives.operands import all_examples, read
from functad.primitives.plan import GATHER, WRITE
from functad.tracing.concrete import idle, tensor_of
from functad.tracing.foreign import check_graph
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, Recorder, alike, bare, resolve
from functad.transforms.jacobian import chunks, identity_rows, in_batch, joined, size_of, widest
from functad.transforms.linear import pushforward
from functad.transforms.reverse import RowSum, Scattered, pull_back
from functad.transforms.row_slices import RowSlices
from functad.trees.structure import LEAF, Structure, flatten_as_inserted


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
    for leaf, path in pairs:
        allowed = _is_plain(leaf, "biufc" if plain else "biu") if plain or what in _RESULTS else False
        if not isinstance(leaf, (Recorded, TensorLike)) and not allowed:
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


def _is_plain(leaf: Any, kinds: str) -> bool:
    """Return `True` if a leaf is a plain array of the given dtype kinds, as from a comparison or a cast to integers."""
    return issubclass(type(leaf), (np.ndarray, np.generic)) and leaf.dtype.kind in kinds


def _refuse_none(structure: Structure, path: str) -> None:
    if structure.kind is type(None):
        raise SourceError(f"there is None in {path}, at {here()}: a Tensor or Variable is needed there.")
    for child in structure.children:
        if child is not LEAF:
            _refuse_none(child, path)


def check_option(name: str, given: Any, allowed: Sequence[Any], advice: str) -> None:
    """Check an option of a request.

    Raises:
        ValueError: `given` is not among the allowed values.
    """
    if given not in allowed:
        raise ValueError(f"{name} is {given!r}, at {here()}: {advice}.")


def zero_wanted(option: Any) -> bool:
    """Return `True` if `unconnected_gradients` asks for zeros.

    Raises:
        ValueError: the option is unknown.
    """
    text = getattr(option, "value", option)
    if text not in ("none", "zero"):
        raise ValueError(f"unconnected_gradients is {option!r}, at {here()}: it must be 'none' or 'zero'.")
    return bool(text == "zero")


def checked_conj(option: Any) -> bool:
    """Return the option `conj` as a `bool`.

    Raises:
        ValueError: the option is neither True nor False.
    """
    check_option("conj", option, (True, False), "it must be True, for TensorFlow's gradients, or False, for those of grad")
    return bool(option)


def check_iterations(number: Any, vectorized: Any) -> None:
    """Check `parallel_iterations` and `experimental_use_pfor`, which functad ignores.

    Raises:
        ValueError: the first is not a positive number, or the second is not True or False.
    """
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
    """Return a seed or tangent as a Tensor, an array or a Python number.

    Raises:
        TypeError: `given` holds no numbers.
    """
    value = read(given)
    if isinstance(value, Recorded) or type(value) in PYTHON_SCALARS:
        return value
    refuse_foreign_rules(value, what)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise InputError(f"{what} is a {type(value).__name__} of {array.dtype}, at {here()}: give numbers.")
    return array[()]


class Request:
    """The checked arguments of a request for derivatives, and the backward passes that answer it.

    A wrong argument raises before the tape is spent.

    Attributes:
        tape: the tape.
        targets: the targets, each with its expression for messages.
        target_structure: the structure of the targets.
        sources: the sources.
        paths: their expressions.
        structure: the structure of the sources.
        zero: return zeros for a source without a path.
        conj: return conjugates, as TensorFlow does.
    """

    def __init__(self, tape: Any, target: Any, sources: Any, unconnected: Any, conj: Any) -> None:
        self.tape = tape
        self.zero, self.conj = zero_wanted(unconnected), checked_conj(conj)
        self.targets, self.target_structure = leaves_of(target, "target")
        pairs, self.structure = leaves_of(sources, "sources")
        self.sources = [source for source, _ in pairs]
        self.paths = [path for _, path in pairs]

    def gradient(self, seeds: Sequence[Any], *, sparse: bool, missing: str | None) -> Any:
        """Return the gradients, in the structure of the sources.

        Raises:
            NoPathError: a source has no path, and `missing` is `"raise"`.
        """
        found = gradients_of(self.tape, self.targets, seeds, self.sources, conj=self.conj, sparse=sparse)
        for g, source, path in zip(found, self.sources, self.paths, strict=True):
            if g is None and missing == "raise":
                reason = self.tape.explain([target for target, _ in self.targets], source)
                raise NoPathError(f"there is no gradient by {path}, at {here()}: {reason}")
        return self.structure.unflatten([finished(g, s, self.zero) for g, s in zip(found, self.sources, strict=True)])


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
    places = [tape.slots_of(source) for source in sources]
    cut = {slot for tensor in cuts for slot in tape.slots_of(tensor)}
    found = tape.pull(by_slot, {slot for slots in places for slot in slots}, cut, sparse=sparse)
    result = []
    for slots, own in zip(places, direct, strict=True):
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


class JacobianRequest(Request):
    """A request for a Jacobian: a backward pass for many seeds of one target.

    Attributes:
        transform, function, values: the method, the tape and the target, as in a `Pullback`.
        chunk_size: the largest number of seeds in one backward pass.
    """

    def __init__(
        self, tape: Any, method: str, target: Any, sources: Any, unconnected: Any, conj: Any, chunk_size: int | None
    ) -> None:
        super().__init__(tape, target, sources, unconnected, conj)
        if not isinstance(chunk_size, (int, np.integer)) or chunk_size < 1:
            check_option("chunk_size", chunk_size, (None,), "it must be at least 1, or None")
        if self.target_structure.kind is not None:
            raise SourceError(f"{method} needs one Tensor as its target, not a {type(target).__name__}, at {here()}.")
        self.transform, self.function, self.values = method, tape, [target]
        self.target, self.chunk_size = target, chunk_size

    def jacobian(self) -> Any:
        """Return the Jacobians, in the structure of the sources."""
        target, sources = self.target, self.sources
        size = size_of(target)
        if not size:
            self.zero, found = True, [None] * len(sources)
        elif size > 2 * sum(map(size_of, sources)) and self._transposable():
            found = self._columns()
        else:
            found = self._rows(lambda part: identity_rows(target, part), size)
        return self.structure.unflatten(
            [self._shaped(g, (*shape_of(target), *shape_of(s)), s) for g, s in zip(found, sources, strict=True)]
        )

    def check_batch(self) -> None:
        """Check that target and source are two Tensors with equally many rows.

        Raises:
            SourceError: there is more than one source.
            ValueError: the shapes do not fit.
        """
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
        size = math.prod(given[1:])

        def ones_for(part: slice) -> Any:
            """Return seeds that are 1 at the same element of every target row, 0 elsewhere."""
            seeds = np.zeros((part.stop - part.start, given[0], size), dtype_of(target))
            seeds[np.arange(len(seeds)), :, np.arange(part.start, part.stop)] = 1
            return seeds.reshape((-1, *given))

        found = None
        if not math.prod(given):
            self.zero = True
        elif (rows := self._rows(ones_for, size)[0]) is not None:
            found = np.moveaxis(rows, 0, 1)
            if check:
                self._compare(size)
        return self._shaped(found, (*given, *shape_of(source)[1:]), source)

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the sources for a seed of the target; `None` without a path."""
        return gradients_of(self.tape, self.targets, seeds, self.sources, conj=self.conj)

    @cached_property
    def _width(self) -> int:
        """The size of the largest value of a backward pass."""
        return widest(self.tape.recorder, self.target, *self.sources)

    def _parts(self, count: int) -> Iterable[slice]:
        """Return the chunks of `count` seeds; `debug_nans` finds the origin of a NaN for one cotangent at a time."""
        return chunks(count, self.chunk_size if self.tape.recorder.monitor is None else 1, self._width)

    def _rows(self, seeds_at: Callable[[slice], Any], count: int) -> list[Any]:
        """Return, for each source, the cotangents for all seeds: `(count, *source.shape)`; `None` without a path."""
        blocks = [block for part in self._parts(count) for block in self._pulled(seeds_at(part))]
        return [_joined([(n, found[i]) for n, found in blocks], source) for i, source in enumerate(self.sources)]

    def _pulled(self, seeds: Any) -> list[tuple[int, list[Any]]]:
        """Return blocks of cotangents, each with its number of seeds.

        A gradient function of the user may need the value of its cotangent, which a batch cannot give. Then each seed gets
        its own backward pass and block.
        """

        def walk(seed: Any) -> list[Any]:
            return self.leaves([seed])

        try:
            return [(len(seeds), in_batch(self.transform, self.tape, seeds, walk))]
        except AbstractValueError:
            if not self.tape.recorder.fallible or len(seeds) == 1:
                raise
            rows = [(1, in_batch(self.transform, self.tape, seeds[i : i + 1], walk)) for i in range(len(seeds))]
            warn(
                LoopWarning(
                    f"{self.transform} walks once for each of {len(seeds)} rows, at {here()}: a gradient function on the way "
                    f"asks for the value of its cotangent. Write it with NumPy functions, np.where in place of `if`."
                )
            )
            return rows

    def _transposable(self) -> bool:
        """Return `True` if `_columns` is possible: all values are real, and no rule or watch needs single cotangents."""
        real = all(dtype_of(value).kind == "f" for value in (self.target, *self.sources))
        return real and not self.tape.recorder.fallible and self.tape.recorder.monitor is None and checker() is None

    def _columns(self) -> list[Any]:
        """Return the Jacobian for each source, computed column by column from one backward pass; `None` without a path."""
        push = pushforward(self)
        result = []
        for i, source in enumerate(self.sources):

            def walk(t: Any, i: int = i) -> list[Any]:
                return push([t if j == i else None for j in range(len(self.sources))])

            blocks = []
            for part in self._parts(size_of(source)):
                (tangents,) = in_batch(self.transform, self.tape, identity_rows(source, part), walk)
                blocks.append((part.stop - part.start, tangents))
            columns = _joined(blocks, self.target)
            if columns is None and push.cotangents[i] is not None:  # a rule returned a constant
                columns = np.zeros((size_of(source), *shape_of(self.target)), dtype_of(source))
            result.append(None if columns is None else np.moveaxis(columns, 0, -1))
        return result

    def _compare(self, size: int) -> None:
        """Check that each target row, with `size` elements, depends on its own source row only.

        Raises:
            ValueError: a row depends on other rows.
        """
        target, (source,) = self.target, self.sources
        (found,) = self._rows(lambda part: identity_rows(target, part), size_of(target))
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


def _joined(blocks: Sequence[tuple[int, Any]], source: Any) -> Any:
    """Return the rows of several blocks as one array, with zeros for blocks without a path; `None` if no block has one."""
    if all(rows is None for _, rows in blocks):
        return None
    shape, dtype = shape_of(source), dtype_of(source)
    return joined([np.zeros((n, *shape), dtype) if rows is None else resolve(rows) for n, rows in blocks])


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
            found |= _those_at(cotangents, inputs, stop)
            cotangents = rest
            for g in rest if sparse else ():
                if type(g) is RowSum:
                    g.settle()
        if cotangents[slot] is not None:
            found[slot] = cotangents[slot]
        if slot in cuts:
            cotangents[slot] = None
    pull_back(records, cotangents, 0, consume=False)
    found |= _those_at(cotangents, inputs, 0)
    return found


def _those_at(cotangents: list[Any], inputs: set[int], start: int) -> dict[int, Any]:
    """Return the cotangents of inputs from slot `start` on; the pass left them in place."""
    held = {slot: cotangents[slot] for slot in inputs if start <= slot < len(cotangents)}
    found = {slot: g.total() if type(g) in (Scattered, RowSum) else g for slot, g in held.items()}
    return {slot: g for slot, g in found.items() if g is not None}


def _is_input(records: Sequence[Any], slot: int) -> bool:
    """Return `True` if a slot is an input, not a result of an operation."""
    return records[slot] is None and _group_end(records, slot + 1) == slot + 1


def _group_end(records: Sequence[Any], stop: int) -> int:
    """Return the end of the results of the operation that made slot `stop - 1`; it may have several results."""
    index = stop - 1
    while index < len(records) and records[index] is None:
        index += 1
    return index + 1 if index < len(records) and results_of(records[index], index)[0] < stop else stop


def raised(recorder: Recorder, index: int, record: Any) -> Any:
    """Return a record with its residuals replaced by Tensors of its own list."""
    plan, slots, residuals, fits = record
    if not plan.names or plan.special in (GATHER, WRITE):
        return record
    by_position = dict(zip(plan.active, inputs_of(record), strict=True))

    def out_raised(value: Any) -> Any:
        if not plan.primitive.multiple:
            return bare(Tensor, recorder, value, index)
        slots = results_of(record, index)
        return alike(value, [bare(Tensor, recorder, part, slot) for slot, part in zip(slots, value, strict=True)])

    def arrays_raised(values: Any, start: int) -> Any:
        slots = [by_position.get(start + i) for i in range(len(values))]
        return tuple([v if s is None else bare(Tensor, recorder, v, s) for s, v in zip(slots, values, strict=True)])

    def one(name: str, value: Any) -> Any:
        if name == "out":
            return out_raised(value)
        if name in ("arrays", "rest"):
            return arrays_raised(value, int(name == "rest"))
        slot = by_position.get(plan.primitive.names.index(name)) if name in plan.primitive.names else None
        return value if slot is None else bare(Tensor, recorder, value, slot)

    if len(plan.names) == 1:
        return plan, slots, one(plan.names[0], residuals), fits
    return plan, slots, tuple(map(one, plan.names, residuals)), fits
