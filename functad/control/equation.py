"""Primitives for control flow, which hold expression lists as parameters, and the agreement of carries and branches.

If values are known, also in concrete traces, such a primitive runs its lists with Python's control flow, and each operation is
recorded separately. If an abstract trace is below, the call is recorded as one equation. The derivative rules are written with
control flow again (the derivative of a loop is a loop), so derivatives of any order exist.

The carry of a loop, and the results of branches, keep their structure, shapes and dtypes. Python numbers are weak, as in NumPy:
a carry that starts as `0` or `0.0` takes the dtype of the body's result. A number that is returned in place of an array is cast
to the dtype of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import ControlFlowError
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import (
    PLAIN,
    PYTHON_SCALARS,
    ArraySpec,
    dtype_of,
    is_array_or_number,
    is_inexact,
    shape_of,
    spec_of,
    spec_or_none,
)
from functad.places import here, name_of
from functad.primitives.elementwise.conversion import array_of_number
from functad.primitives.indexing.read import handed
from functad.primitives.kinds import SolverPrimitive
from functad.primitives.operands import absent, all_examples, foreign_rules, is_number, numpy_values
from functad.tracing.equations import AbstractRecorder, has_effects
from functad.tracing.trace import OPEN, Recorded, dispatch, value_of
from functad.tracing.views import in_c_order
from functad.transforms.leaves import LeafFunction, replaced
from functad.transforms.lists import close, extract, trace
from functad.transforms.vmap import vmap
from functad.trees import Structure, difference, flatten


class Control(SolverPrimitive):
    """A primitive that holds expression lists: `cond`, a loop, or the derivative of one."""

    def __init__(
        self,
        name: str,
        *,
        compute: Callable[..., Sequence[Any]],
        pull: Callable[..., list[Any]],
        push: Callable[..., list[Any]],
        batch: Callable[..., Sequence[Any]],
        **traits: Any,
    ) -> None:
        """Create the primitive.

        Args:
            name: its name in lists.
            compute: `compute(*arrays, **params)` on known values, including Tensors of concrete traces.
            pull: `pull(gs, wrt, arrays, out, params)` returns the cotangents of the arguments at the positions `wrt`.
            push: `push(ts, arrays, params)` returns the tangents of the results; `None` in `ts` and in the result means zero.
            batch: `batch(values, batched, size, params)` returns the results for all examples; the values are unknown.
            traits: the shape rule `spec` and other traits of a primitive.
        """

        def pull_all(gs: Any, active: tuple[int, ...], arrays: Any, out: Any, params: Any) -> list[Any]:
            params = pure_params(params)
            wrt = [i for i in active if is_inexact(arrays[i])]
            zeros = [absent(shape_of(a), dtype_of(a)) for a in arrays]
            return replaced(zeros, wrt, pull(gs, wrt, arrays, out, params) if wrt else [])

        def push_all(ts: Any, arrays: Any, out: Any, params: Any) -> tuple[Any, ...]:
            params = pure_params(params)
            found = push([t if is_inexact(a) else None for t, a in zip(ts, arrays, strict=True)], arrays, params)
            return tuple([absent(shape_of(o), dtype_of(o)) if t is None else t for t, o in zip(found, out, strict=True)])

        super().__init__(
            compute,
            name=name,
            compute=lambda *arrays, **params: tuple(compute(*arrays, **params)),
            pull=pull_all,
            push=push_all,
            batch=lambda primitive, size, values, batched, params: tuple(batch(values, batched, size, params)),
            **traits,
        )

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Run the lists if values are known; record one equation if they are unknown."""
        return dispatch(self, arrays, params) if any(map(unknown, arrays)) else self.compute(*arrays, **params)


def pure(expressions: Expressions) -> Expressions:
    """Return a list without its calls with an effect, those in inner lists included."""
    if not has_effects({"": expressions}):
        return expressions
    from functad.primitives.effects import TIE  # noqa: PLC0415 - few functions have effects

    moved: dict[Any, Any] = {}
    equations = []
    for e in expressions.equations:
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in e.inputs])
        if e.primitive is TIE:
            moved[e.outputs[0]] = inputs[0]
        elif not e.primitive.effect:
            params = pure_params(e.params) if e.primitive.lists else e.params
            equations.append(Equation(e.primitive, inputs, params, e.outputs, e.place))
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs)


def pure_params(params: Any) -> Any:
    """Return the parameters of control flow with lists without calls with an effect."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        if isinstance(value, Expressions):
            found = pure(value)
            return value if found is value else extract(found)
        return value

    return {name: plain(value) for name, value in params.items()} if has_effects(params) else params


def over_examples(f: LeafFunction, batched: Sequence[bool], size: int) -> LeafFunction:
    """Return a flat function for all examples of a batch. `batched` is `True` for arguments with the batch axis in front."""
    return vmap(lambda *leaves: list(f(*leaves)), in_axes=tuple([0 if own else None for own in batched]), axis_size=size)


def selected(condition: Any, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return for each example the leaves of `first` where the condition holds, else the leaves of `second`.

    Values that are not selected get a cotangent of exactly zero, which stays zero even if their derivative is infinite.
    """
    return [a if a is b else np.where(condition, a, b) for a, b in zip(first, second, strict=True)]


def part(values: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Return values in groups of the given sizes, followed by the remaining values."""
    result, start = [], 0
    for count in counts:
        result.append(list(values[start : start + count]))
        start += count
    return [*result, list(values[start:])]


def unknown(value: Any) -> bool:
    """Return `True` if only shape and dtype of a value are known."""
    return isinstance(value, Recorded) and isinstance(all_examples(value), ArraySpec)


def listing(leaves: Sequence[Any]) -> bool:
    """Return `True` if control flow on these values is recorded as an equation of an expression list."""
    return any(map(unknown, leaves)) or isinstance(OPEN.get(), AbstractRecorder)


def close_bodies(
    transform: str, *bodies: tuple[Callable[..., Any], Sequence[Any]], operands: Sequence[Any] = ()
) -> tuple[list[Expressions], list[Any]]:
    """Return closed lists of `bodies`, traced without values, and the captured Tensors.

    Args:
        transform: the name of the transform, for messages.
        bodies: pairs of a function and its arguments or their specs.
        operands: the sources of these arguments. Unless all are in C order, the memory order of the arguments is unknown.
    """
    from functad.transforms.outside import frozen_in_bodies  # noqa: PLC0415 - `import functad` needs no lists

    ordered = all(map(in_c_order, operands))
    with frozen_in_bodies(transform, [f for f, _ in bodies]):
        *lists, captured = close(*[trace(transform, f, args, ordered=ordered, ties=True) for f, args in bodies])
    return lists, captured


def any_example(predicate: Any) -> bool:
    """Return `True` if a known predicate holds for some example."""
    return bool(np.any(all_examples(predicate)))


def is_batched(predicate: Any) -> bool:
    """Return `True` if a known predicate has several examples."""
    return isinstance(predicate, Recorded) and np.ndim(all_examples(predicate)) > 0


BOOLS = frozenset({bool, np.bool_})
_ARRAYS = frozenset({np.ndarray, np.float64, np.float32})


def joined(before: ArraySpec, after: ArraySpec) -> ArraySpec | None:
    """Return the common spec of two specs to which both convert without loss; `None` if there is none.

    Only Python numbers change their dtype, and byte-swapped arrays their byte order.
    """
    if before.shape != after.shape:
        return None
    if before.dtype == after.dtype.newbyteorder("="):
        return before if before.weak == after.weak else ArraySpec(before.shape, before.dtype)
    if before.dtype.kind == "b" or after.dtype.kind == "b":
        return None
    if before.weak:
        return ArraySpec(before.shape, np.result_type(_as_operand(before), _as_operand(after)), after.weak)
    if after.weak and np.result_type(before.dtype, _as_operand(after)) == before.dtype:
        return before
    return None


def _as_operand(spec: ArraySpec) -> Any:
    return spec.dtype.type(1).item() if spec.weak else spec.dtype


def cast(leaf: Any, spec: ArraySpec) -> Any:
    """Return a leaf with the dtype of a spec from `joined`."""
    own = spec_of(leaf)
    if own == spec:
        return leaf
    if type(leaf) in PYTHON_SCALARS:
        value = spec.dtype.type(leaf)
        return value.item() if spec.weak else value
    if spec.weak:  # a Tensor of a Python integer becomes a Tensor of a Python float
        return leaf * _as_operand(spec)
    return leaf.astype(spec.dtype)


def _native(leaf: Any) -> Any:
    """Return a leaf in native byte order, like results of operations."""
    dtype = getattr(leaf, "dtype", None)
    return leaf.astype(dtype.newbyteorder("=")) if isinstance(dtype, np.dtype) and not dtype.isnative else leaf


def in_form(leaf: Any, spec: ArraySpec) -> Any:
    """Return a leaf of shape `()` as an array or a scalar, according to a spec; unchanged if its value is unknown."""
    if spec.shape or spec.weak or is_number(leaf) is not spec.zero_d or unknown(leaf):
        return leaf
    if not spec.zero_d:
        return leaf[()]
    return array_of_number(leaf) if isinstance(leaf, Recorded) else np.asarray(leaf)


def in_forms(leaves: Sequence[Any], first: Sequence[Any]) -> list[Any]:
    """Return the last carry of a loop. Each leaf of shape `()` is an array or a scalar, like its leaf of the first carry."""
    return [in_form(leaf, spec_of(given)) for leaf, given in zip(leaves, first, strict=True)]


class Agreement:
    """A tree that must keep its structure, shapes and dtypes.

    Attributes:
        transform, name: the names of the transform and of the user's function, for messages.
        root: the name of the tree in messages, such as `carry`.
        rule: the sentence with the violated rule, for messages.
        structure, specs: the structure and leaf specs of the tree; `structure` is `None` until the first tree is known.
        yielded: `True` if a weak leaf has taken a dtype, so that earlier trees need a cast.
        keeps_form: `True` for a carry: a leaf that begins as an array of shape `()` stays an array, a scalar stays a scalar. So
            the body of a loop gets the same kind of value in all steps.
    """

    def __init__(self, transform: str, name: str, root: str, rule: str, *, keeps_form: bool = False) -> None:
        self.transform = transform
        self.name = name
        self.root = root
        self.rule = rule
        self.structure: Structure | None = None
        self.specs: list[ArraySpec] = []
        self.yielded = False
        self.keeps_form = keeps_form

    def start(self, tree: Any) -> list[Any]:
        """Set the structure and specs from a tree, and return its leaves.

        Raises:
            ControlFlowError: the tree contains leaves other than arrays and numbers.
        """
        given, structure = flatten(tree)
        leaves = [value_of(leaf) for leaf in given]
        for leaf, path in zip(leaves, structure.paths(self.root), strict=True):
            if not is_array_or_number(leaf):
                raise self._error(f"{path} is a {type(leaf).__name__}, not an array or a number.")
            if type(leaf) not in PLAIN and (reason := foreign_rules(leaf)) is not None:
                raise self._error(f"{path} is a {type(leaf).__name__}. {reason}")
        leaves = [_native(leaf) for leaf in leaves]
        self.structure, self.specs = structure, [spec_of(leaf) for leaf in leaves]
        return leaves

    def fit(self, tree: Any) -> list[Any]:
        """Return the leaves of a tree, with Python numbers cast to the specs. Weak specs may take the dtype of a leaf.

        Raises:
            ControlFlowError: the tree does not agree; the message names the leaf.
        """
        if self.structure is None:
            return self.start(tree)
        leaves, structure = flatten(tree)
        if structure != self.structure:
            raise self._error(f"{self.rule}: {difference(self.structure, structure, self.root)}.")
        for i, (leaf, spec) in enumerate(zip(leaves, self.specs, strict=True)):
            value = leaf.below if isinstance(leaf, Recorded) else leaf
            kind = type(value)
            if kind in _ARRAYS and value.dtype is spec.dtype and value.shape == spec.shape and not spec.weak:
                if not value.shape and self.keeps_form and (kind is np.ndarray) is not spec.zero_d:
                    leaves[i] = in_form(leaf, spec)
                continue  # the common case
            if spec.weak and kind in PYTHON_SCALARS and PYTHON_SCALARS[kind] is spec.dtype:
                continue
            leaf = leaves[i] = value_of(leaf)
            if type(leaf) not in PYTHON_SCALARS and not hasattr(leaf, "dtype"):
                raise self._error(f"{self._path(i)} is a {type(leaf).__name__}, not an array or a number.")
            if type(leaf) not in PLAIN and (reason := foreign_rules(leaf)) is not None:
                raise self._error(f"{self._path(i)} is a {type(leaf).__name__}. {reason}")
            own = spec_of(leaf)
            if own != spec:
                self.specs[i] = self._joined(spec, own, i)
                leaves[i] = cast(leaf, self.specs[i])
            if self.keeps_form:
                leaves[i] = in_form(leaves[i], self.specs[i])
        return leaves

    def _joined(self, before: ArraySpec, after: ArraySpec, i: int) -> ArraySpec:
        both = joined(before, after)
        if both is None:
            if before.shape != after.shape:
                cure = f"Return an array of shape {before.shape} there, or begin with one of shape {after.shape}."
            else:
                cure = f"Return .astype({np.dtype(before.dtype).name!r}) of it, or begin with an array of {after.dtype}."
            raise self._error(f"{self.rule}, but {self._path(i)} is {before} at first and {after} later. {cure}")
        self.yielded = self.yielded or both != before
        return both

    def cast(self, leaves: Sequence[Any]) -> list[Any]:
        """Return leaves cast to the final dtypes."""
        return [cast(leaf, spec) for leaf, spec in zip(leaves, self.specs, strict=True)]

    def build(self, leaves: Sequence[Any]) -> Any:
        """Return the tree with the given leaves."""
        assert self.structure is not None
        return self.structure.unflatten(leaves)

    def settled(self, trace: Callable[[Any], Any]) -> Any:
        """Trace with the tree of specs until `trace` leaves the specs unchanged; return the last result."""
        while True:
            specs = list(self.specs)
            found = trace(self.build(specs))
            if specs == self.specs:
                return found

    def hand(self, leaves: Sequence[Any]) -> Any:
        """Return the tree to pass to the user's function."""
        return self.build(handed(leaves))

    def _path(self, i: int) -> str:
        assert self.structure is not None
        return self.structure.paths(self.root)[i]

    def _error(self, text: str) -> ControlFlowError:
        return ControlFlowError(f"{self.transform} of {self.name}, called at {here()}: {text}")


def carry_of(transform: str, function: Callable[..., Any]) -> Agreement:
    """Return the agreement for the carry of a loop."""
    rule = "the carry must keep its structure, shapes and dtypes from step to step"
    return Agreement(transform, name_of(function), "carry", rule, keeps_form=True)


def number(value: Any, kinds: str, wanted: str, cure: str) -> Any:
    """Return a predicate, an index or a bound as one number.

    Args:
        value: the predicate, index or bound.
        kinds: the accepted kinds of dtypes.
        wanted: the beginning of the error message: the place and the requirement.
        cure: the end of the error message.

    Raises:
        ControlFlowError: the value is not one number of these kinds.
    """
    value = numpy_values(value_of(value), "control flow")
    spec = spec_or_none(value)
    if spec is None or spec.shape != () or spec.dtype.kind not in kinds:
        what = f"a {type(value).__name__}" if spec is None else repr(spec)
        raise ControlFlowError(f"{wanted} of shape (), not {what}. {cure}".rstrip())
    return value
