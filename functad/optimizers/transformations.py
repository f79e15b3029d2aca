"""Gradient transformations: pairs of pure functions `(init, update)` over pytrees, and the parts of rules.

A transformation converts gradients to updates, which `apply_updates` adds to the parameters. The state is a pytree that the
caller passes from step to step. Nothing is modified in place, and every step is plain NumPy code. A whole run of an optimiser
can therefore be differentiated, for example with respect to the learning rate or the initial parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from functad.errors import InputError, OptimizerError, StructureError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of, spec_of
from functad.places import here
from functad.trees import flatten, tree_map

Schedule = Callable[[Any], Any]
"""A function from the number of completed steps to a number, or from an array of such numbers to an array of the same shape."""


class Update(Protocol):
    """`update(updates, state, params=None) -> (updates, state)`."""

    def __call__(self, updates: Any, state: Any, params: Any = None, /) -> tuple[Any, Any]:
        """Return the transformed updates and the next state."""


class GradientTransformation(NamedTuple):
    """A rule that converts gradients to updates.

    Attributes:
        init: `init(params)` returns the first state.
        update: `update(gradients, state, params=None)` returns the updates and the next state. Only rules with weight decay
            need `params`.

    Example:
        >>> from functad.optimizers import sgd
        >>> halve = GradientTransformation(
        ...     init=lambda params: EmptyState(),
        ...     update=lambda updates, state, params=None: (tree_map(lambda u: u / 2, updates), state),
        ... )
        >>> rule = chain(halve, sgd(0.1))
        >>> rule.update({"w": 3.0}, rule.init({"w": 1.0}))[0]
        {'w': -0.15000000000000002}
    """

    init: Callable[[Any], Any]
    update: Update


class EmptyState(NamedTuple):
    """The state of a transformation without a state."""


class TraceState(NamedTuple):
    """The state of `trace`.

    Attributes:
        trace: the decaying sum of the updates, a pytree like the parameters.
    """

    trace: Any


class ScaleByScheduleState(NamedTuple):
    """The state of `scale_by_schedule`.

    Attributes:
        count: the number of completed steps, an integer.
    """

    count: Any


def map_alike(results: int, function: Callable[..., Any], *named: tuple[str, Any]) -> tuple[Any, ...]:
    """Map a function over the corresponding leaves of several pytrees, and return a pytree for each of its results.

    Args:
        results: the number of results of the function, a tuple.
        function: takes one leaf of each pytree.
        named: pairs of a name for messages and a pytree.

    Raises:
        StructureError: a pytree differs from the first in structure or shapes. Broadcasting would hide this.
    """
    (name, tree), *others = named
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other_name, other in others:
        column = structure.flatten_like(other, other_name)
        for i, (leaf, its) in enumerate(zip(leaves, column, strict=True)):
            if shape_of(leaf) != shape_of(its):
                expected, given = structure.paths(name)[i], structure.paths(other_name)[i]
                raise StructureError(
                    f"{given} is {spec_of(its)}, but {expected} is {spec_of(leaf)}, at {here()}. Both must have one shape."
                )
        columns.append(column)
    rows = [function(*row) for row in zip(*columns, strict=True)]
    return tuple([structure.unflatten([row[k] for row in rows]) for k in range(results)])


def real_dtype(leaf: Any) -> np.dtype[Any]:
    """Return the dtype of the magnitude of a leaf: float32 for float32 and complex64."""
    dtype = dtype_of(leaf)
    return np.finfo(dtype).dtype if dtype.kind in "fc" else dtype


def fitted(number: Any, leaf: Any) -> Any:
    """Return a real number in the precision of a leaf, so that a float64 learning rate keeps float32 leaves."""
    if type(number) in PYTHON_SCALARS:
        return number
    dtype = real_dtype(leaf)
    return number if dtype_of(number) == dtype or dtype.kind != "f" else number.astype(dtype)


def stateless(change: Callable[[Any, Any], Any]) -> GradientTransformation:
    """Return a transformation without a state, with the updates `change(updates, params)`."""
    return GradientTransformation(
        lambda params: EmptyState(), lambda updates, state, params=None: (change(updates, params), state)
    )


def remembering(init: Callable[[Any], Any], step: Callable[..., tuple[Any, ...]]) -> GradientTransformation:
    """Return a transformation with a tuple of pytrees like the parameters as its state.

    Args:
        init: `init(params)` returns the first state, a named tuple.
        step: takes one leaf of the updates and of each pytree of the state, and returns their new values.
    """

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        named = [(f"state.{name}", tree) for name, tree in zip(state._fields, state, strict=True)]
        updates, *trees = map_alike(1 + len(named), step, ("updates", updates), *named)
        return updates, type(state)(*trees)

    return GradientTransformation(init, update)


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """Return the composition of transformations; its state is the tuple of their states.

    Args:
        transformations: the transformations, in the order of their application.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Raises:
        OptimizerError: (by `update`) the state does not belong to this chain.

    Example:
        >>> from functad.optimizers import sgd
        >>> rule = chain(clip_by_global_norm(1.0), sgd(0.1, momentum=0.9))
        >>> params = {"w": 1.0}
        >>> updates, state = rule.update({"w": 20.0}, rule.init(params))
        >>> updates
        {'w': np.float64(-0.1)}
    """

    def init(params: Any) -> tuple[Any, ...]:
        return tuple([transformation.init(params) for transformation in transformations])

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, tuple[Any, ...]]:
        if not isinstance(state, tuple) or len(state) != len(transformations):
            raise OptimizerError(
                f"The state of a chain of {len(transformations)} transformations is a tuple of as many, but update, called at "
                f"{here()}, got {type(state).__name__}. Pass on what `init` or the last `update` returned."
            )
        states = []
        for transformation, its in zip(transformations, state, strict=True):
            updates, after = transformation.update(updates, its, params)
            states.append(after)
        return updates, tuple(states)

    return GradientTransformation(init, update)


def apply_updates(params: Any, updates: Any) -> Any:
    """Return `params + updates`, each leaf in the dtype of the parameter.

    Args:
        params: a pytree of arrays or numbers, floating-point or complex.
        updates: a pytree of the same structure and shapes.

    Returns:
        A pytree with the structure, shapes and dtypes of `params`.

    Raises:
        StructureError: the two pytrees differ in structure or shapes.
        InputError: a parameter is an integer or a boolean.

    Example:
        >>> apply_updates({"w": np.array([1.0, 2.0])}, {"w": np.array([0.5, -0.5])})
        {'w': array([1.5, 1.5])}
    """
    (moved,) = map_alike(1, _moved, ("params", params), ("updates", updates))
    return moved


def _moved(parameter: Any, update: Any) -> tuple[Any]:
    if dtype_of(parameter).kind not in "fc":
        raise InputError(
            f"apply_updates, called at {here()}, cannot move a parameter that is {spec_of(parameter)}: only floating-point "
            "and complex numbers can be trained. Keep it outside the tree of parameters."
        )
    moved = parameter + update
    same = type(parameter) in PYTHON_SCALARS or moved.dtype == parameter.dtype
    return (moved if same else moved.astype(parameter.dtype),)


def scale(factor: Any) -> GradientTransformation:
    """Return the transformation `u -> factor u`.

    Args:
        factor: a number, which may be a Tensor.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> scale(-0.5).update([4.0], EmptyState())[0]
        [-2.0]
    """
    return stateless(lambda updates, params: tree_map(lambda u: fitted(factor, u) * u, updates))


def scale_by_schedule(schedule: Schedule) -> GradientTransformation:
    """Return the transformation `u -> schedule(number of completed steps) u`; the first step uses `schedule(0)`.

    Args:
        schedule: a function from the number of completed steps to a number.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = scale_by_schedule(lambda count: 1.0 / (1.0 + count))
        >>> updates, state = rule.update([4.0], rule.init([1.0]))
        >>> updates, rule.update([4.0], state)[0]
        ([np.float64(4.0)], [np.float64(2.0)])
    """

    def init(params: Any) -> ScaleByScheduleState:
        return ScaleByScheduleState(np.int64(0))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, ScaleByScheduleState]:
        factor = schedule(state.count)
        return tree_map(lambda u: fitted(factor, u) * u, updates), ScaleByScheduleState(state.count + 1)

    return GradientTransformation(init, update)


def scale_by_learning_rate(learning_rate: Any) -> GradientTransformation:
    """Return the transformation `u -> -learning_rate u`, which turns gradients into descent steps.

    Args:
        learning_rate: a number, or a schedule.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> scale_by_learning_rate(0.5).update([4.0], EmptyState())[0]
        [-2.0]
    """
    if callable(learning_rate):
        return scale_by_schedule(lambda count: -learning_rate(count))
    return scale(-learning_rate)


def trace(decay: Any, nesterov: bool = False) -> GradientTransformation:
    """Return the transformation that sums updates with decay: `t = u + decay t`, and `u -> t`.

    With `nesterov` it is `u -> u + decay t`: the gradient as if taken one step ahead (Sutskever et al., On the importance of
    initialization and momentum in deep learning, ICML 2013).

    Args:
        decay: the factor of the previous sum, between 0 and 1.
        nesterov: use Nesterov momentum.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = trace(0.5)
        >>> updates, state = rule.update([4.0], rule.init([1.0]))
        >>> rule.update([1.0], state)[0]
        [np.float64(3.0)]
    """

    def summed(u: Any, t: Any) -> tuple[Any, Any]:
        kept = fitted(decay, t)
        t = u + kept * t
        return (u + kept * t if nesterov else t), t

    return remembering(lambda params: TraceState(tree_map(np.zeros_like, params)), summed)


def add_decayed_weights(weight_decay: Any, mask: Any = None) -> GradientTransformation:
    """Return the transformation `u -> u + weight_decay p` for parameters `p`.

    Before a rule that divides by the size of gradients this is L2 regularisation. After such a rule (as in `adamw`) it is
    decoupled weight decay.

    Args:
        weight_decay: the strength.
        mask: selects the parameters with decay: a pytree of `True` and `False`, or a function from the parameters to such a
            pytree. Often biases are excluded.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes. Its `update` needs `params`.

    Raises:
        OptimizerError: (by `update`) no parameters were passed.
        StructureError: (by `update`) the parameters or the mask do not fit the updates.

    Example:
        >>> rule = add_decayed_weights(0.1, mask={"w": True, "b": False})
        >>> rule.update({"w": 0.5, "b": 0.5}, EmptyState(), {"w": 2.0, "b": 2.0})[0]
        {'b': 0.5, 'w': 0.7}
    """

    def decay(updates: Any, params: Any) -> Any:
        if params is None:
            raise OptimizerError(
                f"Weight decay needs the parameters, but update, called at {here()}, got none. Write "
                "`updates, state = rule.update(gradients, state, params)`."
            )
        (decayed,) = map_alike(1, lambda u, p: (u + fitted(weight_decay, p) * p,), ("updates", updates), ("params", params))
        if mask is None:
            return decayed
        leaves, structure = flatten(updates)
        flags = structure.flatten_like(mask(params) if callable(mask) else mask, "mask")
        rows = zip(leaves, flatten(decayed)[0], flags, strict=True)
        return structure.unflatten([after if flag else before for before, after, flag in rows])

    return stateless(decay)


def global_norm(tree: Any) -> Any:
    """Return the Euclidean norm of all elements of a pytree as one vector; its derivative at zero is zero.

    Args:
        tree: a pytree of arrays of any shapes, or numbers, floating-point or complex.

    Returns:
        One number: `sqrt(sum |x|^2)`, and 0 for an empty pytree.

    Example:
        >>> float(global_norm({"w": np.array([3.0, 0.0]), "b": 4.0}))
        5.0
    """
    norms = [np.linalg.norm(leaf) for leaf in flatten(tree)[0]]
    return np.linalg.norm(np.stack(norms)) if norms else 0.0


def clip_by_global_norm(max_norm: Any) -> GradientTransformation:
    """Return the transformation that scales updates down to a global norm of at most `max_norm`.

    `u -> u max_norm / norm` if `norm = global_norm(updates)` exceeds `max_norm` (Pascanu, Mikolov and Bengio, On the difficulty
    of training recurrent neural networks, ICML 2013).

    Args:
        max_norm: the largest norm, positive.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> clip_by_global_norm(1.0).update({"w": np.array([3.0, 0.0]), "b": 4.0}, EmptyState())[0]
        {'b': np.float64(0.8), 'w': array([0.6, 0. ])}
    """
    return stateless(lambda updates, params: _shrunk(updates, max_norm))


def _shrunk(updates: Any, max_norm: Any) -> Any:
    norm = global_norm(updates)
    if type(norm) is float:  # no leaves
        return updates
    limit = fitted(max_norm, norm)
    factor = limit / np.where(norm > limit, norm, limit)
    return tree_map(lambda u: fitted(factor, u) * u, updates)


def clip(max_delta: Any) -> GradientTransformation:
    """Return the transformation that clips each element to `[-max_delta, max_delta]`.

    For complex elements, the modulus is clipped to at most `max_delta`.

    Args:
        max_delta: the largest size of an element, positive.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> clip(1.0).update({"w": np.array([3.0, -4.0]), "b": 0.5}, EmptyState())[0]
        {'b': np.float64(0.5), 'w': array([ 1., -1.])}
    """

    def clipped(u: Any) -> Any:
        limit = fitted(max_delta, u)
        if dtype_of(u).kind == "c":
            return u * (limit / np.maximum(np.abs(u), limit))
        return np.minimum(np.maximum(u, -limit), limit)

    return stateless(lambda updates, params: tree_map(clipped, updates))


def clip_by_norm(max_norm: Any) -> GradientTransformation:
    """Return the transformation that scales each leaf separately down to a norm of at most `max_norm`.

    Args:
        max_norm: the largest norm of a leaf, positive.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> clip_by_norm(1.0).update({"w": np.array([3.0, 4.0]), "b": 0.5}, EmptyState())[0]
        {'b': np.float64(0.5), 'w': array([0.6, 0.8])}
    """
    return stateless(lambda updates, params: tree_map(lambda u: _shrunk(u, max_norm), updates))
