"""`graph()`: a scope that records all operations on Tensors, and `gradients` and `hessians` of results in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from functad.eager import containers
from functad.eager.tape.recorder import EagerRecorder, has_value, refuse_within, shared_recorder, watch_tensor
from functad.eager.tape.request import (
    UnconnectedGradients,
    check_option,
    checked_conj,
    finished,
    gradients_of,
    leaves_of,
    seeds_for,
    zero_wanted,
)
from functad.eager.tape.tape import GradientTape
from functad.eager.variable import ACTIVE, Variable
from functad.errors import SourceError, TapeError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, name_of
from functad.primitives.operands import read
from functad.process import setting
from functad.tracing.trace import GRAPH_HOOK, Recorded, Recorder, resolve
from functad.trees import Structure


class AggregationMethod:
    """The options of TensorFlow for sums of gradients. functad accepts and ignores them.

    Example:
        >>> import functad
        >>> with functad.graph():
        ...     x = functad.constant(3.0)
        ...     (g,) = functad.gradients(x * x, x, aggregation_method=functad.AggregationMethod.ADD_N)
        >>> float(g)
        6.0
    """

    ADD_N = 0
    DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class graph(GradientTape):  # noqa: N801 - used as a function: `with functad.graph():`
    """Record all operations on Tensors and Variables in the scope, for `gradients`.

    `watch` is not needed: every constant, intermediate result and Variable, trainable or not, can be a source. The records
    live as long as any Tensor that was made in the scope. If a function under a transform, such as `functad.grad`, opens the
    scope, its argument is a source only after `x = functad.constant(x)` in the scope. A function that is put under a
    transform inside the scope needs its own scope or tape.

    Example:
        >>> import functad
        >>> with functad.graph():
        ...     x = functad.constant(3.0)
        ...     y = x * x
        ...     (g,) = functad.gradients(y, x)
        ...     (h,) = functad.gradients(g, x)
        >>> float(g), float(h)
        (6.0, 2.0)
    """

    _warned = True  # `gradients` is meant to be called inside the scope

    def __init__(self) -> None:
        super().__init__(persistent=True)
        self._hooks: list[tuple[Any, AbstractContextManager[None]]] = []

    def __enter__(self) -> Self:
        if self.recorder is None:
            self.recorder = shared_recorder("graph")
            if self.recorder.scope is not None:  # `gradients` must find the outer scope from its Tensors
                self.recorder = EagerRecorder("graph")
            self.recorder.scope = self
        outer, hook = GRAPH_HOOK.get(), setting(GRAPH_HOOK, self._record_constants)
        try:
            super().__enter__()
            hook.__enter__()
            self._hooks.append((outer, hook))
        except BaseException:
            super().__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            super().__exit__(*exception)
        finally:
            self._hooks.pop()[1].__exit__(None, None, None)

    def wants(self, variable: Variable) -> bool:
        """Note a Variable, and return `True`: a scope follows all Variables."""
        self._variables[id(variable)] = variable
        return True

    def _mark(self) -> None:
        """Mark all slots: the scope owns every record in its stretches."""
        assert self.recorder is not None
        self._seen = len(self.recorder.records)
        self._marks = bytearray(b"\x01") * self._seen

    def _record_constants(self, tensors: Sequence[Recorded]) -> bool:
        """Add constant Tensors to the list, and return `True` if all Tensors are then recorded."""
        if not self.recording or self.recorder is None or self.recorder not in ACTIVE.get():
            return False
        outer = self._hooks[-1][0]
        if outer is not None:  # an outer scope records the operation too
            outer(tensors)
        for tensor in tensors:
            if dtype_of(tensor).kind in "fc" and has_value(tensor, self.recorder):
                watch_tensor(tensor, self.recorder)
        return not any(tensor.recorder.inactive for tensor in tensors)


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = "none",
    aggregation_method: int | None = None,
    gate_gradients: bool = False,
    *,
    name: str = "gradients",
    conj: bool = True,
) -> list[Any]:
    """Return the gradients of the sum of `ys` with respect to each of `xs`, in a scope `functad.graph()`.

    Args:
        ys: a Tensor or Variable, or a list of them.
        xs: a Tensor or Variable, or a list of them. Intermediate results and constants are allowed.
        grad_ys: one seed for each of `ys`, with its shape; `None` means ones.
        stop_gradients: Tensors that count as constants: no cotangent flows through them.
        unconnected_gradients: `"none"` or `"zero"`: the result for an `x` without a recorded path to `ys`.
        aggregation_method: one of `AggregationMethod`; ignored.
        gate_gradients, name: ignored; for compatibility with TensorFlow.
        conj: as for `GradientTape.gradient`.

    Returns:
        A list of Tensors, one for each of `xs`.

    Raises:
        RuntimeError: `ys` were not computed in a scope.
        TypeError: an argument is not a Tensor or Variable, or is a Tensor of a transform that the scope does not follow; or
            `ys` are complex and `grad_ys` is missing.
        ValueError: an option is unknown, or a seed does not fit.

    Example:
        >>> import functad
        >>> with functad.graph():
        ...     a = functad.constant(1.0)
        ...     b = 2 * a
        ...     total, partial = functad.gradients(a + b, a), functad.gradients(a + b, a, stop_gradients=b)
        >>> float(total[0]), float(partial[0])
        (3.0, 1.0)
    """
    _check_options(name, gate_gradients, aggregation_method)
    zero, conj = zero_wanted(unconnected_gradients), checked_conj(conj)
    targets, structure = _listed(ys, "ys")
    sources = _sources(xs)
    cuts = [] if stop_gradients is None else [leaf for leaf, _ in _listed(stop_gradients, "stop_gradients")[0]]
    given = grad_ys if grad_ys is None or isinstance(grad_ys, (list, tuple)) else [grad_ys]
    if given is None and any(dtype_of(y).kind == "c" for y, _ in targets):
        raise TypeError(f"gradients() of complex ys needs grad_ys, at {here()}: the gradient depends on the direction.")
    seeds = seeds_for(targets, structure, given)
    if not targets:
        return [finished(None, source, zero) for source in sources]
    scope = _scope_of(targets)
    for source in sources:
        if not scope.slots_of(source):
            _refuse_outside(read(source), scope.recorder)
    found = gradients_of(scope, targets, seeds, sources, cuts, conj=conj)
    return [finished(g, source, zero) for g, source in zip(found, sources, strict=True)]


def _check_options(name: Any, gate_gradients: Any, aggregation_method: Any) -> None:
    """Check the options of TensorFlow that functad ignores.

    Raises:
        ValueError, TypeError: an option has a value that TensorFlow does not accept.
    """
    check_option("aggregation_method", aggregation_method, (None, 0, 1, 2), "use one of AggregationMethod")
    check_option("gate_gradients", gate_gradients, (True, False), "it has no meaning here; leave it out")
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}, at {here()}: it must be a string, and has no meaning here; leave it out.")


def _refuse_outside(value: Any, recorder: Recorder) -> None:
    """Refuse a Tensor of a transform as a source of `graph`: the list does not hold the operations that depend on it.

    Raises:
        SourceError: `value` is such a Tensor.
    """
    value = resolve(value)
    if isinstance(value, Recorded) and not value.recorder.reassigns:
        refuse_within(value, recorder, "gradients()")
        outer = value.recorder
        raise SourceError(
            f"gradients() by a Tensor of {outer.transform} of {name_of(outer.function)}, at {here()}, which began before the "
            f"graph. Make it a source, x = functad.constant(x), in the graph and before it is used."
        )


def hessians(
    ys: Any, xs: Any, gate_gradients: bool = False, aggregation_method: int | None = None, name: str = "hessians"
) -> list[Any]:
    """Return the Hessian of the sum of `ys` with respect to each of `xs`, in a scope `functad.graph()`.

    Args:
        ys: a scalar Tensor, or a list of scalar Tensors.
        xs: a Tensor or Variable, or a list of them.
        gate_gradients, aggregation_method, name: as for `gradients`.

    Returns:
        A list of Tensors of shape `x.shape + x.shape`, with `None` for an `x` that `ys` do not depend on.

    Raises:
        RuntimeError, TypeError, ValueError: as `gradients`.

    Example:
        >>> import numpy as np, functad
        >>> with functad.graph():
        ...     x = functad.constant([1.0, 2.0])
        ...     (h,) = functad.hessians(np.sum(x**3), x)
        >>> h.numpy()
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    _check_options(name, gate_gradients, aggregation_method)
    scope = _scope_of(_listed(ys, "ys")[0])
    result: list[Any] = []
    for x, g in zip(_sources(xs), gradients(ys, xs), strict=True):
        if g is None:
            result.append(None)
        elif scope.slots_of(g):
            result.append(scope.jacobian(g, x, UnconnectedGradients.ZERO))
        else:
            shape = (*shape_of(x), *shape_of(x))
            result.append(finished(None, ArraySpec(shape, dtype_of(x)), True))
    return result


def _listed(given: Any, what: str) -> tuple[list[tuple[Any, str]], Structure]:
    """Return the Tensors in a list, or the single Tensor, each with its expression; and the structure."""
    if isinstance(given, dict):
        raise SourceError(f"{what} is a dict, at {here()}: give a Tensor or a list of them.")
    return leaves_of(list(given) if isinstance(given, (list, tuple)) else given, what)


def _sources(xs: Any) -> list[Any]:
    """Return the sources in TensorFlow's order."""
    pairs, structure = _listed(xs, "xs")
    return [pairs[place][0] for place in containers.sorted_places(structure)]


def _scope_of(targets: Sequence[tuple[Any, str]]) -> Any:
    """Return the scope that computed the targets, an open scope first; else the innermost open scope.

    Raises:
        RuntimeError: no such scope exists.
    """
    found: list[Any] = []
    for target, _ in targets:
        tensor = read(target)
        while isinstance(tensor, Recorded):
            if getattr(tensor.recorder, "scope", None) is not None:
                found.append(tensor.recorder)
            tensor = tensor.below
    found.sort(key=lambda recorder: recorder not in ACTIVE.get())  # open scopes first
    if found:
        return found[0].scope
    for recorder in reversed(ACTIVE.get()):
        if recorder.scope is not None:
            return recorder.scope
    raise TapeError(
        f"gradients() at {here()} looks back at what was recorded, and nothing was: compute inside `with functad.graph():`, "
        f"use a GradientTape, or functad.grad, which takes a function."
    )
