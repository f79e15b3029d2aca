"""`vmap`: turn a function of one example into a function of a batch of examples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.errors import InputError, StructureError
from functad.expressions.records import checker
from functad.expressions.spec import PYTHON_SCALARS, shape_of, spec_of
from functad.places import call_of
from functad.primitives.indexing.read import WITHIN_BATCH, indexable
from functad.primitives.operands import foreign_rules
from functad.process import setting
from functad.tracing.batch import BatchRecorder
from functad.tracing.ownership import hold_input, own_results, unrecorded
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, value_of
from functad.transforms.boundary import check_result, traced
from functad.transforms.transform import check_chunk_size, transform
from functad.trees import LEAF, Structure, _describe, _split, _steps, flatten

P = ParamSpec("P")
R = TypeVar("R")

Axes = Any
"""An axis, `None`, or a pytree prefix of the arguments or results with axes and `None` as leaves."""


@transform
def vmap(
    f: Callable[P, R],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """Return a function that applies `f` to all examples of a batch at once: `vmap(f)(x)[i] = f(x[i])`.

    Inside `f`, a batched array has the shape of one example. An `if` on a batched value raises an error. An `if` on an argument
    that is not batched works, and such an array may be indexed by a batched index: `table[i]`.

    Args:
        f: a function of NumPy code, of one example. Without `f`, the transform returns a decorator.
        in_axes: the batch axis of the positional arguments: one value for all, or a tuple with one entry per argument. `None`
            means "not batched". An entry may be a pytree prefix of the argument. Axes may be negative. Keyword arguments are
            batched along axis 0.
        out_axes: the batch axis of the results: one value, or a pytree prefix of the result. `None` means "not batched".
        axis_size: the number of examples, needed only if no argument is batched.
        chunk_size: the maximal number of examples computed at a time, which limits the memory.

    Returns:
        A function with the signature of `f`.

    Raises:
        InputError: an array has no such axis, the numbers of examples differ, or no argument is batched.
        StructureError: `in_axes` or `out_axes` is not a pytree prefix of the arguments or the result, or is `None` for a result
            that is batched.
        AbstractValueError: `f` needs the value of a batched Tensor.
        OutputError: the result of `f` is not a pytree of arrays.

    Example:
        >>> import numpy as np, functad
        >>> def loss(w, x, y):
        ...     return (w @ x - y) ** 2
        >>> w, xs, ys = np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([0.0, 0.0, 1.0])
        >>> vmap(functad.grad(loss), in_axes=(None, 0, 0))(w, xs, ys)
        array([[2., 0.],
               [0., 4.],
               [4., 4.]])
    """
    check_chunk_size("vmap", f, chunk_size)

    @functools.wraps(f)
    def batched(*args: P.args, **kwargs: P.kwargs) -> Any:
        batch = _Batch(f, in_axes, out_axes, axis_size, args, kwargs)
        if chunk_size is None or batch.size <= chunk_size:
            return batch.run(slice(None), batch.size)
        starts = range(0, batch.size, chunk_size)
        parts = [batch.run(slice(i, i + chunk_size), min(chunk_size, batch.size - i)) for i in starts]
        return batch.joined(parts)

    return batched


class _Batch:
    """One call of a batched function.

    Attributes:
        size: the number of examples.
        leaves: the leaves of the arguments; batched leaves have the batch axis first.
        batched: for each leaf, `True` if the leaf is batched.
    """

    def __init__(
        self, f: Callable[..., Any], in_axes: Axes, out_axes: Axes, axis_size: int | None, args: Any, kwargs: dict[str, Any]
    ) -> None:
        self.f = f
        self.out_axes = out_axes
        leaves, self.structure = flatten((args, kwargs))
        axes = _axes_of_arguments(f, in_axes, self.structure)
        self.leaves = []
        self.batched = [axis is not None for axis in axes]
        sizes: dict[int, int | None] = {} if axis_size is None else {axis_size: None}  # size -> first leaf with this size
        for place, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is not None:
                leaf = self._checked(value_of(leaf), axis, place)
                sizes.setdefault(shape_of(leaf)[0], place)
            self.leaves.append(leaf)
        if len(sizes) > 1:
            (a, first), (b, second) = [(n, self._name(place)) for n, place in sizes.items()][:2]
            raise InputError(
                f"{call_of('vmap', f)}: {first} has {a} examples, {second} has {b}. All batched arguments must have the same "
                f"number of examples. Give in_axes=None for an argument that is not batched."
            )
        if not sizes:
            raise InputError(
                f"{call_of('vmap', f)}: no argument is batched, so the number of examples is not known. Give in_axes for one "
                f"of them, or axis_size."
            )
        (self.size,) = sizes

    def _name(self, place: int | None) -> str:
        """Return the name of an argument or of its leaf, for messages only: this takes longer than the rest of `__init__`."""
        if place is None:
            return "axis_size"
        path = self.structure.paths("")[place]
        return path.replace("[0]", "args", 1) if path.startswith("[0]") else f"argument {path.removeprefix('[1]')}"

    def _checked(self, leaf: Any, axis: Any, place: int) -> Any:
        """Return a leaf with its batch axis first; raise `InputError` if it has no such axis."""
        if axis == 0 and type(leaf) is np.ndarray and leaf.ndim:
            return leaf
        if type(leaf) is not Tensor and (reason := foreign_rules(leaf)) is not None:
            raise InputError(f"{call_of('vmap', self.f)}: {self._name(place)} is a {type(leaf).__name__}. {reason}")
        try:
            shape = spec_of(leaf).shape
            axis = normalize_axis_index(axis, len(shape))
        except (TypeError, ValueError):
            what = f"is {spec_of(leaf)}" if hasattr(leaf, "dtype") or not hasattr(leaf, "__len__") else "is no array"
            if type(leaf) in PYTHON_SCALARS and self._name(place).count("[") > 1:
                what = "is a number in a container, and each number there is an array of its own (np.array makes a list one)"
            raise InputError(
                f"{call_of('vmap', self.f)}: {self._name(place)} {what}, which has no axis {axis}. Give in_axes=None "
                f"for an argument that is not batched."
            ) from None
        if not hasattr(leaf, "dtype"):
            leaf = np.asarray(leaf)
        return np.moveaxis(leaf, axis, 0) if axis else leaf

    def run(self, part: slice, size: int) -> Any:
        """Return the results for the slice `part` of the examples."""
        recorder = BatchRecorder("vmap", self.f, size)
        whole = part == slice(None)
        given = [
            recorder.batch(hold_input(leaf if whole else leaf[part], recorder)) if own else indexable(leaf)
            for leaf, own in zip(self.leaves, self.batched, strict=True)
        ]
        if checker() is not None:
            from functad.diagnostics.nans import monitor_batch  # noqa: PLC0415 - few programs look for NaN

            monitor_batch(recorder, [tensor for tensor, own in zip(given, self.batched, strict=True) if own], part.start or 0)
        args, kwargs = self.structure.unflatten(given)
        with setting(WITHIN_BATCH, True):
            out = traced(recorder, self.f, args, kwargs)
        leaves, structure = flatten(out)
        if recorder.monitor is not None:
            recorder.monitor.check_results(leaves)
        axes = _axes_like(self.out_axes, structure, self.f, "out_axes", "the result")
        pairs = enumerate(zip(leaves, axes, strict=True))
        results = [self._result(leaf, axis, recorder, structure, i) for i, (leaf, axis) in pairs]
        return structure.unflatten(own_results(results, (*self.leaves, *unrecorded(recorder, leaves))))

    def _result(self, leaf: Any, axis: Any, recorder: BatchRecorder, structure: Structure, place: int) -> Any:
        """Return a result with the batch axis at `axis`."""
        if type(leaf) is not Tensor or leaf.dtype.kind not in "fcib":
            check_result(leaf, structure.paths("result")[place], "vmap", self.f)
        array = recorder.array(leaf)
        if axis is None:
            if array is not None:
                raise StructureError(
                    f"{call_of('vmap', self.f)}: {structure.paths('result')[place]} is batched, but its "
                    f"out_axes is None. Give the position of the batch axis."
                )
            return leaf
        if array is None:
            array = np.broadcast_to(leaf, (recorder.size, *shape_of(leaf)))
            array = array if isinstance(array, Recorded) else array.copy()
        try:
            axis = normalize_axis_index(axis, len(shape_of(array)))
        except ValueError:
            raise InputError(
                f"{call_of('vmap', self.f)}: {structure.paths('result')[place]} has {len(shape_of(array))} axes, with the "
                f"batch axis, so out_axes={axis} is out of range."
            ) from None
        return np.moveaxis(array, 0, axis) if axis else array

    def joined(self, parts: Sequence[Any]) -> Any:
        """Return the concatenated results of several chunks."""
        columns, structure = zip(*[flatten(part)[0] for part in parts], strict=True), flatten(parts[0])[1]
        axes = _axes_like(self.out_axes, structure, self.f, "out_axes", "the result")
        joined = [
            column[0] if axis is None else np.concatenate(column, axis) for column, axis in zip(columns, axes, strict=True)
        ]
        return structure.unflatten(joined)


def _axes_of_arguments(f: Callable[..., Any], in_axes: Axes, structure: Structure) -> list[Any]:
    """Return the axis of each leaf of `(args, kwargs)`."""
    args, kwargs = structure.children
    if type(in_axes) is int or in_axes is None:
        return [in_axes] * args.leaves + [0] * kwargs.leaves
    each = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args.children)
    if len(each) != len(args.children):
        raise InputError(
            f"{call_of('vmap', f)}: in_axes has {len(each)} entries for {len(args.children)} positional arguments. Keyword "
            f"arguments are batched along axis 0."
        )
    axes: list[Any] = []
    for i, (axis, arg) in enumerate(zip(each, args.children, strict=True)):
        axes += _axes_like(axis, arg, f, f"in_axes[{i}]", f"args[{i}]")
    return axes + [0] * kwargs.leaves


def _axes_like(axes: Axes, structure: Structure, f: Callable[..., Any], name: str, of: str) -> list[Any]:
    """Return the batch axis of each leaf of a pytree.

    Args:
        axes: the axis, or a pytree prefix of axes.
        structure: the structure of the pytree.
        f: the function, for messages.
        name: the name of the axes, for messages.
        of: the name of the pytree, for messages.

    Raises:
        StructureError: `axes` is not a pytree prefix of the pytree.
        InputError: an axis is not an integer or `None`.
    """
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes] * structure.leaves
    name = f"{call_of('vmap', f)}: {name}"
    found = _prefix_leaves(axes, structure, name, of)
    for axis in found:
        if axis is not None and not isinstance(axis, (int, np.integer)):
            raise InputError(f"{name} has a {type(axis).__name__} in it. An axis is an integer or None.")
    return found


def _prefix_leaves(prefix: Any, tree: Structure, what: str, of: str) -> list[Any]:
    """Return the value of a prefix tree for each leaf of a tree. `None` counts as a value, not as a tree without leaves.

    Args:
        prefix: the tree of values, which has the structure of the tree down to some nodes.
        tree: the structure of the whole tree.
        what, of: the names of the prefix and of the tree, for the message.

    Raises:
        StructureError: `prefix` is not a prefix of the tree.
    """
    parts = None if prefix is None or tree.kind is None else _split(prefix)
    if parts is None:
        return [prefix] * tree.leaves
    kind, data, children = parts
    if kind is not tree.kind or data != tree.data:
        found = _describe(Structure(kind, data, tuple([LEAF for _ in children]), len(children)))
        raise StructureError(f"{what} is {found}, but {of} is {_describe(tree)}. It must begin like it.")
    leaves: list[Any] = []
    for child, below, step in zip(children, tree.children, _steps(tree), strict=True):
        leaves += _prefix_leaves(child, below, what + step, of + step)
    return leaves
