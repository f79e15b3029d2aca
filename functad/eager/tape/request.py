"""The arguments of gradient requests, checked before the tape is spent: targets, sources, seeds and options."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from functad.eager import containers
from functad.eager.models.tensor_like import TensorLike, refuse_foreign_rules
from functad.eager.tape.recorder import refuse_within
from functad.errors import InputError, NoPathError, SourceError, StructureError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, shape_of
from functad.places import here
from functad.primitives.arranging.broadcast import BROADCAST_TO
from functad.primitives.operands import read
from functad.tracing.graphs import check_graph
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import Recorded
from functad.tracing.traces.idle import idle, tensor_of
from functad.transforms.walks.row_slices import RowSlices
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


class Request:
    """The checked arguments of a request for derivatives, and the backward passes that answer it.

    A wrong argument raises before the tape is spent.

    Attributes:
        tape: the tape.
        targets: the targets, each with its expression for messages.
        given: the structure of the targets.
        sources: the sources.
        paths: their expressions.
        structure: the structure of the sources.
        zero: return zeros for a source without a path.
        conj: return conjugates, as TensorFlow does.
    """

    def __init__(self, tape: Any, target: Any, sources: Any, unconnected: Any, conj: Any) -> None:
        self.tape = tape
        self.zero, self.conj = zero_wanted(unconnected), checked_conj(conj)
        self.targets, self.given = leaves_of(target, "target")
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
