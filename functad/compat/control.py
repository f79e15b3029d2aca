"""`tf.Variable`, control flow, `tf.debugging`, `tf.nest`, and TensorFlow's interfaces to derivatives.

Nothing is compiled: Python runs as written. In `tf.nest`, dicts are ordered by sorted keys, and all objects except lists,
tuples and dicts are leaves. The interfaces to derivatives are the interfaces of `functad`. Their results are TensorFlow's kind
of Tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import functad
from functad.compat.arrays import static
from functad.compat.tensors import (
    IndexedSlices,
    Tensor,
    TensorShape,
    as_tensor,
    enter,
    enter_calls,
    named,
    numpy_dtype,
    operands,
    operation,
    returning_tensors,
    tensor_of,
    tensors_of,
)
from functad.eager.containers import mapped
from functad.eager.tape.request import UnconnectedGradients
from functad.eager.variable import TensorLike
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import read


@named("Variable")
class Variable(functad.Variable):
    """A value that changes by assignment; tapes watch it.

    Args:
        initial_value: an array, a number, a nested list, a Tensor, or a function without arguments that returns one of these.
            Python floats become float32, integers int32; arrays keep their dtype.
        trainable: tapes watch the Variable; `None` means `True` for floating-point and complex numbers.
        validate_shape, caching_device, variable_def, import_scope, synchronization, aggregation: have no effect.
        name: `"w"` gives the name `w:0`.
        dtype: the dtype of the elements.
        constraint: stored as an attribute.
        shape: if given, it must match the shape of the value.

    Example:
        >>> from functad.compat import tf
        >>> v = tf.Variable(3.0)
        >>> v.name, v.dtype.name, float(v.assign_add(1.0))
        ('Variable:0', 'float32', 4.0)
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        given = initial_value() if callable(initial_value) and not isinstance(initial_value, TensorLike) else initial_value
        value = None if given is None else as_tensor(given, None if dtype is None else numpy_dtype(dtype))
        super().__init__(value, trainable, f"{name or 'Variable'}:0")
        self.constraint = constraint
        if shape is not None:
            self.shape.assert_is_compatible_with(shape)

    @property
    def shape(self) -> TensorShape:
        """The lengths of the axes."""
        return TensorShape(super().shape)

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    def __functad_read__(self) -> Tensor:
        return tensor_of(super().__functad_read__())  # type: ignore[no-any-return]

    initialized_value = functad.Variable.read_value

    def ref(self) -> Reference:
        """Return a hashable reference, for sets and dicts."""
        return Reference(self)

    experimental_ref = ref

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> functad.Variable | None:
        """Replace the value by one of the same shape; tapes do not record the assignment."""
        return super().assign(_plain(value), read_value=read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> functad.Variable | None:
        """Add to the value."""
        return super().assign_add(_plain(delta), read_value=read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> functad.Variable | None:
        """Subtract from the value."""
        return super().assign_sub(_plain(delta), read_value=read_value)

    def __reduce__(self) -> Any:
        return Variable, (self.copied(), self._trainable), {"name": self.name, "constraint": self.constraint}

    def _scatter(self, slices: IndexedSlices, change: Callable[[Any, Any, Any], Any]) -> Variable:
        array = np.array(self.copied())
        indices = slices.indices if isinstance(slices.indices, tuple) else np.asarray(as_tensor(slices.indices).numpy())
        change(array, indices, np.asarray(as_tensor(slices.values, self.dtype).numpy()))
        super().assign(array)
        return self


def _scattering(change: Callable[[Any, Any, Any], Any], doc: str) -> tuple[Callable[..., Variable], Callable[..., Variable]]:
    """Return a method that changes rows, and one that changes the elements or slices at given positions."""

    def by_row(self: Variable, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Variable:
        return self._scatter(sparse_delta, change)

    def by_position(self: Variable, indices: Any, updates: Any, name: str | None = None) -> Variable:
        index = np.asarray(as_tensor(indices).numpy())
        return self._scatter(IndexedSlices(updates, tuple(np.moveaxis(index, -1, 0))), change)

    by_row.__doc__ = f"{doc} rows."
    by_position.__doc__ = f"{doc} the elements or slices at the positions along the last axis of `indices`."
    return by_row, by_position


for _name, _change, _doc in (
    ("update", lambda old, index, new: old.__setitem__(index, new), "Replace"),
    ("add", np.add.at, "Add to"),
    ("sub", np.subtract.at, "Subtract from"),
):
    for _prefix, _method in zip(("scatter", "scatter_nd"), _scattering(_change, _doc), strict=True):
        setattr(Variable, f"{_prefix}_{_name}", _method)


def _plain(value: Any) -> Any:
    """Return a value to assign; nested lists become arrays of TensorFlow's default dtypes."""
    return as_tensor(value) if isinstance(value, (list, tuple, IndexedSlices)) else read(value)


class Reference:
    """A hashable reference to a Variable."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    def deref(self) -> Variable:
        """Return the Variable."""
        return self._variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._variable is self._variable

    def __hash__(self) -> int:
        return id(self._variable)


@named("nest.is_nested")
def is_nested(structure: Any) -> bool:
    """Return `True` if `structure` is a list, a tuple, a namedtuple, a dict or a range."""
    return isinstance(structure, (list, tuple, dict, range))


def _sorted_keys(structure: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError(
            f"a dict with the keys {list(structure)}, at {here()}, has no order: its keys must be sortable."
        ) from None


def _parts(structure: Any) -> list[Any]:
    if isinstance(structure, dict):
        return [structure[key] for key in _sorted_keys(structure)]
    return list(structure)


def _rebuilt(structure: Any, parts: Sequence[Any]) -> Any:
    """Return a container of the same type and key order with new parts."""
    if isinstance(structure, dict):
        by_key = dict(zip(_sorted_keys(structure), parts, strict=True))
        pairs = [(key, by_key[key]) for key in structure]
        return defaultdict(structure.default_factory, pairs) if isinstance(structure, defaultdict) else type(structure)(pairs)
    if isinstance(structure, range):
        return list(parts)
    return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)


@named("nest.flatten")
def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return the leaves of a nested structure; an object that is not nested is its own leaf."""
    return [leaf for part in _parts(structure) for leaf in flatten(part)] if is_nested(structure) else [structure]


@named("nest.pack_sequence_as")
def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Return leaves in the structure of another object.

    Raises:
        TypeError: the leaves are not in a list or tuple.
        ValueError: the number of leaves differs from the structure.
    """
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError(f"flat_sequence is a {type(flat_sequence).__name__}, at {here()}: give a list of the leaves.")
    wanted = len(flatten(structure))
    if len(flat_sequence) != wanted:
        raise ValueError(f"flat_sequence has {len(flat_sequence)} elements, and the structure {wanted}, at {here()}.")
    return _packed(structure, iter(flat_sequence))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    return _rebuilt(structure, [_packed(part, leaves) for part in _parts(structure)])


@named("nest.assert_same_structure")
def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise an error if two structures are nested differently.

    Args:
        nest1: a nested structure.
        nest2: the other structure.
        check_types: container types must match too; all dicts count as one type.
        expand_composites: has no effect.

    Raises:
        ValueError: numbers of parts or keys differ, or only one of the structures is a leaf.
        TypeError: container types differ.
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(f"{nest1!r} and {nest2!r} do not have the same structure, at {here()}: one of them is a leaf.")
    if not is_nested(nest1):
        return
    if check_types and not _same_type(nest1, nest2):
        raise TypeError(
            f"a {type(nest1).__name__} and a {type(nest2).__name__} are not the same type of container, at {here()}. "
            f"check_types=False compares the numbers of parts alone."
        )
    if len(nest1) != len(nest2):
        raise ValueError(
            f"a {type(nest1).__name__} of {len(nest1)} and a {type(nest2).__name__} of {len(nest2)} do not have the same "
            f"structure, at {here()}."
        )
    if isinstance(nest1, dict) and isinstance(nest2, dict) and set(nest1) != set(nest2):
        raise ValueError(f"dicts with the keys {list(nest1)} and {list(nest2)}, at {here()}, do not have the same structure.")
    for one, other in zip(_parts(nest1), _parts(nest2), strict=True):
        assert_same_structure(one, other, check_types)


def _same_type(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return True
    if hasattr(one, "_fields") and hasattr(other, "_fields"):
        return type(one).__name__ == type(other).__name__ and one._fields == other._fields
    return type(one) is type(other)


@named("nest.map_structure")
def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True, expand_composites: bool = False) -> Any:
    """Apply a function to the corresponding leaves of several structures.

    Raises:
        TypeError: `func` is not callable, or container types differ.
        ValueError: no structure was given, or the numbers of parts differ.
    """
    if not callable(func):
        raise TypeError(f"map_structure() of a {type(func).__name__}, at {here()}: its first argument is the function.")
    if not structure:
        raise ValueError(f"map_structure() without a structure, at {here()}: give at least one.")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*map(flatten, structure), strict=True)])


@operation("map_fn vectorized_map")
def map_fn(fn: Callable[[Any], Any], elems: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the stacked results of a function of each slice along the first axis; arguments and results may be nested.

    Further arguments of TensorFlow, such as `fn_output_signature`, have no effect.

    Raises:
        ValueError: there are no slices, or the arrays have different numbers of slices.
    """
    leaves = [as_tensor(leaf) for leaf in flatten(elems)]
    if not all(map(shape_of, leaves)):
        raise ValueError(f"map_fn of a number, at {here()}: each array needs a first axis.")
    counts = {shape_of(leaf)[0] for leaf in leaves}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"map_fn of {sorted(counts)} parts, at {here()}: there must be as many, and one at least, of each.")
    rows = [fn(pack_sequence_as(elems, [leaf[i] for leaf in leaves])) for i in range(counts.pop())]
    return map_structure(lambda *parts: np.stack(operands(*parts)), *rows)


@named("errors.InvalidArgumentError")
class InvalidArgumentError(ValueError):
    """A check of `tf.debugging` failed."""


@named("function")
def function(func: Callable[..., Any] | None = None, **options: Any) -> Callable[..., Any]:
    """Return `func` unchanged: nothing is compiled, and options such as `jit_compile` have no effect.

    Example:
        >>> from functad.compat import tf
        >>> @tf.function(jit_compile=True)
        ... def double(x):
        ...     return x * 2
        >>> double(tf.constant(3.0)).numpy()
        np.float32(6.0)
    """
    return function if func is None else func


@named("executing_eagerly")
def executing_eagerly() -> bool:
    """Return `True`."""
    return True


@named("enable_eager_execution enable_v2_behavior")
def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Do nothing: execution is always eager."""


@named("cond")
def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None) -> Any:
    """Return the result of one of two functions; only this function is called."""
    return true_fn() if bool(as_tensor(pred).numpy()) else false_fn()


@named("while_loop")
def while_loop(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the loop variables after calls of `body(*loop_vars)` while `cond(*loop_vars)` holds."""
    state = loop_vars
    while bool(as_tensor(cond(*state)).numpy()):
        found = body(*state)
        state = found if isinstance(found, (list, tuple)) else (found,)
    return state


@named("name_scope")
@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Return a context without effect: operations have no names."""
    yield name


@named("device")
@contextmanager
def device(device_name: Any) -> Iterator[None]:
    """Return a context without effect: arrays are in CPU memory."""
    yield


enter("print", print)


# Checks


def _check(holds: bool, what: str, x: Any, y: Any, message: str | None) -> None:
    if not holds:
        note = "" if message is None else f"{message}: "
        raise InvalidArgumentError(f"{note}{x!r} is not {what} {y!r}, at {here()}.")


@named("debugging.assert_near")
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: str | None = None,
    summarize: int | None = None,
    name: Any = None,
) -> None:
    """Raise InvalidArgumentError if `abs(x - y) > atol + rtol * abs(y)`; each default is ten spacings of the dtype at 1."""
    a, b = static(x), static(y)
    spacing = 10 * np.finfo(a.dtype if a.dtype.kind in "fc" else np.float32).eps
    allowed = (spacing if atol is None else static(atol)) + (spacing if rtol is None else static(rtol)) * np.abs(b)
    _check(bool(np.all(np.abs(a - b) <= allowed)), "near", a, b, message)


def _comparison(compare: Callable[[Any, Any], Any], what: str) -> Callable[..., None]:
    def check(x: Any, y: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
        a, b = static(x), static(y)
        _check(bool(np.all(compare(a, b))), what, a, b, message)

    check.__doc__ = f"Raise InvalidArgumentError if `x` is not {what} `y` everywhere."
    return check


for _name, _compare, _what in (
    ("equal", np.equal, "equal to"),
    ("greater", np.greater, "greater than"),
    ("greater_equal", np.greater_equal, "greater than, or equal to,"),
    ("less", np.less, "less than"),
    ("less_equal", np.less_equal, "less than, or equal to,"),
):
    enter(f"debugging.assert_{_name}", _comparison(_compare, _what))


@named("debugging.check_numerics")
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """Return a Tensor; raise InvalidArgumentError if an element is infinite or NaN."""
    if not np.all(np.isfinite(static(tensor))):
        raise InvalidArgumentError(f"{message}: there is an infinite number or a NaN, at {here()}.")
    return tensor


enter_calls({"debugging.assert_all_finite": (check_numerics, lambda x, message, name=None: (x, message))})


enter("custom_gradient", functad.custom_gradient)
enter("recompute_grad", functad.recompute_grad)
enter("grad_pass_through", functad.grad_pass_through)
enter("UnconnectedGradients", UnconnectedGradients)
enter("AggregationMethod", functad.AggregationMethod)
enter("hessians", returning_tensors(functad.hessians))


@named("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return gradients like `functad.gradients`, with the arguments in TensorFlow's order.

    Example:
        >>> from functad.compat import tf
        >>> with tf.Graph().as_default():
        ...     x = tf.constant(3.0)
        ...     (g,) = tf.gradients(x * x, x, None, "slope")
        >>> g.numpy()
        np.float32(6.0)
    """
    options: Any = (stop_gradients, unconnected_gradients, aggregation_method, gate_gradients)
    return tensors_of(functad.gradients(ys, xs, grad_ys, *options, name=name))  # type: ignore[no-any-return]


@named("GradientTape")
class GradientTape(functad.GradientTape):
    """`functad.GradientTape`; TensorFlow's options for the computation of Jacobians have no effect.

    Example:
        >>> from functad.compat import tf
        >>> x = tf.constant(3.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x).numpy()
        np.float32(6.0)
    """

    def gradient(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Return derivatives like `functad.GradientTape.gradient`; for plain results, such as `x // 2`, return `None`."""
        tensors = mapped(lambda leaf: as_tensor(leaf) if issubclass(type(leaf), (np.ndarray, np.generic)) else leaf, target)
        return tensors_of(super().gradient(tensors, *args, **kwargs))

    jacobian = returning_tensors(functad.GradientTape.jacobian)
    batch_jacobian = returning_tensors(functad.GradientTape.batch_jacobian)


@named("autodiff.ForwardAccumulator")
class ForwardAccumulator(functad.ForwardAccumulator):
    """`functad.ForwardAccumulator`.

    Example:
        >>> from functad.compat import tf
        >>> x = tf.constant(3.0)
        >>> with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        ...     y = x * x
        >>> accumulator.jvp(y).numpy()
        np.float32(6.0)
    """

    jvp = returning_tensors(functad.ForwardAccumulator.jvp)


named("autodiff.GradientTape")(GradientTape)


@named("Graph")
class Graph:
    """A scope for `tf.gradients` that records all operations in it: `with tf.Graph().as_default():`.

    Example:
        >>> from functad.compat import tf
        >>> with tf.Graph().as_default():
        ...     x = tf.constant(3.0)
        ...     (g,) = tf.gradients(x * x, x)
        >>> g.numpy()
        np.float32(6.0)
    """

    def __init__(self) -> None:
        self._scope = functad.graph()

    def as_default(self) -> functad.graph:
        """Return the scope."""
        return self._scope

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"tf.Graph has no {name!r} here, at {here()}: it is only a scope for tf.gradients.")
