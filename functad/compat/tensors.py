"""The table of TensorFlow's names, and Tensors, dtypes and `IndexedSlices` with TensorFlow's conventions.

Each object is registered once, under all its names. Namespaces such as `tf.math` are made from the table. A missing name raises
an error with the NumPy spelling, if there is one.

Python floats become float32, integers int32. Shapes have `as_list()`. Gradients are dense; code that creates or takes
`IndexedSlices` still runs.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

import functad
from functad.eager.containers import mapped
from functad.eager.variable import TensorLike
from functad.expressions.spec import dtype_of
from functad.places import here
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.indexing.write import add
from functad.primitives.operands import read
from functad.tracing.concrete import idle
from functad.tracing.methods import not_assigned
from functad.tracing.trace import Recorded

F = TypeVar("F")

ROOT = "functad.compat.tf"

TABLE: dict[str, Any] = {}
"""Each registered object, by its path under `tf`, such as `math.exp`."""

LATER: dict[str, tuple[str, str]] = {}
"""Names that are imported at the first lookup: the module and the name in it, by path."""

SPELLINGS = {
    "adjoint": "np.conj(x.mT)",
    "Assert": "assert np.all(condition)",
    "batch_normalization": "(x - mean) / np.sqrt(variance + epsilon) * scale + offset",
    "bfloat16": "tf.float32, as NumPy has no bfloat16",
    "bias_add": "x + bias",
    "broadcast_static_shape": "np.broadcast_shapes(a, b)",
    "case": "Python's if and elif",
    "cholesky": "np.linalg.cholesky(x)",
    "compat": "functad.compat.tf",
    "confusion_matrix": "np.add.at(table, (labels, predictions), 1)",
    "control_dependencies": "the lines one after the other",
    "crelu": "np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], -1)",
    "cumulative_logsumexp": "np.logaddexp.accumulate(x, axis)",
    "data": "a Python loop over arrays",
    "expint": "scipy.special.expi(x)",
    "foldl": "functools.reduce(f, xs, first)",
    "fresnel_cos": "scipy.special.fresnel(x)[1]",
    "fresnel_sin": "scipy.special.fresnel(x)[0]",
    "group": "the lines one after the other",
    "igamma": "scipy.special.gammainc(a, x)",
    "igammac": "scipy.special.gammaincc(a, x)",
    "in_top_k": "np.sum(x > own, -1) < k",
    "invert_permutation": "np.argsort(x)",
    "io": "np.save and np.load",
    "is_non_decreasing": "np.all(np.diff(x) >= 0)",
    "is_strictly_increasing": "np.all(np.diff(x) > 0)",
    "keras.initializers.HeUniform": "tf.random.uniform(shape, -a, a), with a = np.sqrt(6 / shape[0]),",
    "keras.initializers.RandomUniform": "lambda shape, dtype: tf.random.uniform(shape, -0.05, 0.05, dtype)",
    "keras.initializers.TruncatedNormal": "lambda shape, dtype: tf.random.truncated_normal(shape, 0.0, 0.05, dtype)",
    "keras.Input": "keras.Sequential without it: layers are built at their first call",
    "keras.layers.Dropout": "x * (rng.random(x.shape) < keep) / keep",
    "keras.metrics": "np.mean(np.argmax(logits, axis=-1) == labels) and the like",
    "keras.optimizers.schedules": "functad.optimizers.exponential_decay or another schedule",
    "lbeta": "np.sum(scipy.special.gammaln(x), -1) - scipy.special.gammaln(np.sum(x, -1))",
    "lgamma": "scipy.special.gammaln(x)",
    "linalg.expm": "scipy.linalg.expm(x), of constants",
    "linalg.logdet": "np.linalg.slogdet(x)[1]",
    "linalg.lstsq": "np.linalg.lstsq(a, b)",
    "linalg.triangular_solve": "np.linalg.solve(np.tril(a), b)",
    "log_poisson_loss": "np.exp(c) - c * z",
    "log_sigmoid": "-functad.nn.softplus(-x)",
    "math.special": "scipy.special",
    "multiply_no_nan": "np.where(y == 0, 0, x) * y",
    "nn.avg_pool": "np.mean(np.lib.stride_tricks.sliding_window_view(x, window, axes), (-2, -1))",
    "nn.conv1d": "np.einsum over np.lib.stride_tricks.sliding_window_view(x, width, axis)",
    "nn.conv2d": "np.einsum over np.lib.stride_tricks.sliding_window_view(x, shape, axes)",
    "nn.max_pool": "np.max(np.lib.stride_tricks.sliding_window_view(x, window, axes), (-2, -1))",
    "nn.moments": "np.mean(x, axes) and np.var(x, axes)",
    "no_op": "nothing",
    "numpy_function": "the NumPy function itself",
    "placeholder": "a parameter of a function",
    "polygamma": "(-1) ** (n + 1) * scipy.special.gamma(n + 1) * scipy.special.zeta(n + 1, x)",
    "py_function": "the Python function itself",
    "reciprocal_no_nan": "tf.math.divide_no_nan(1, x)",
    "reduce_euclidean_norm": "tf.norm(x, axis=axis)",
    "relu6": "np.clip(x, 0, 6)",
    "saved_model": "functad.save(module, path)",
    "scalar_mul": "number * x",
    "scan": "functad.scan",
    "segment_max": "np.maximum.reduceat(x, starts)",
    "segment_mean": "np.add.reduceat(x, starts) / counts",
    "segment_min": "np.minimum.reduceat(x, starts)",
    "segment_prod": "np.multiply.reduceat(x, starts)",
    "segment_sum": "np.add.reduceat(x, starts)",
    "selu": "1.0507009873554805 * functad.nn.elu(x, 1.6732632423543772)",
    "sequence_mask": "np.arange(length) < np.expand_dims(lengths, -1)",
    "Session": "functad.graph()",
    "signal": "np.fft",
    "softsign": "x / (1 + np.abs(x))",
    "switch_case": "branches[index]()",
    "train.Checkpoint": "functad.save(module, path) and functad.restore",
    "unique": "np.unique(x)",
    "unsorted_segment_max": "np.maximum.at(whole, numbers, x)",
    "unsorted_segment_mean": "tf.scatter_nd(np.expand_dims(numbers, -1), x, shape) / counts",
    "unsorted_segment_min": "np.minimum.at(whole, numbers, x)",
    "unsorted_segment_prod": "np.multiply.at(whole, numbers, x)",
    "unsorted_segment_sqrt_n": "tf.scatter_nd(np.expand_dims(numbers, -1), x, shape) / np.sqrt(counts)",
    "unsorted_segment_sum": "tf.scatter_nd(np.expand_dims(numbers, -1), x, shape)",
    "weighted_cross_entropy_with_logits": "(1 - p) * x + (1 + (weight - 1) * p) * np.logaddexp(0, -x)",
    "weighted_moments": "np.average(x, axes, weights)",
    "xdivy": "np.where(x == 0, 0, x / np.where(x == 0, 1, y))",
    "zero_fraction": "np.mean(x == 0)",
}
"""Alternatives for names that are not in the table, unless NumPy has a function of the same name."""


def enter(paths: str, value: Any) -> None:
    """Register an object under the given names."""
    for path in paths.split():
        TABLE[path] = value


def named(paths: str) -> Callable[[F], F]:
    """Return a decorator that registers a function or class under the given names."""

    def decorate(value: F) -> F:
        enter(paths, value)
        return value

    return decorate


def later(module: str, names: str) -> None:
    """Register names that are imported from a module at the first lookup: `path` or `path=name in module`."""
    for entry in names.split():
        path, _, name = entry.partition("=")
        LATER[path] = module, name or path.rpartition(".")[2]


def find(path: str) -> Any:
    """Return the object with a TensorFlow name.

    Raises:
        AttributeError: there is no such name; the message gives an alternative.
    """
    if path in TABLE:
        return TABLE[path]
    if path in LATER:
        module, name = LATER[path]
        TABLE[path] = getattr(importlib.import_module(module), name)
        return TABLE[path]
    raise AttributeError(f"functad.compat.tf has no tf.{path}, asked for at {here()}. {_instead_of(path)}")


def _instead_of(path: str) -> str:
    import difflib  # noqa: PLC0415 - only an error needs it

    last = path.rpartition(".")[2]
    for known, spelling in SPELLINGS.items():
        if known in (path, last) or known.rpartition(".")[2] == path:
            return f"Write {spelling} instead."
    elsewhere = sorted(known for known in (*TABLE, *LATER) if known.rpartition(".")[2] == last)
    if elsewhere:
        return f"Write tf.{elsewhere[0]} instead."
    for module, spelling in ((np.linalg, "np.linalg"), (np.fft, "np.fft"), (np, "np")):
        if callable(getattr(module, last, None)) and (module is np or spelling.rpartition(".")[2] in path):
            return f"NumPy functions act on Tensors: write {spelling}.{last}."
    name = last.removeprefix("bessel_")
    if importlib.util.find_spec("scipy") and hasattr(importlib.import_module("scipy.special"), name):
        return f"SciPy's functions act on Tensors: write scipy.special.{name}."
    near = difflib.get_close_matches(last, [known.rpartition(".")[2] for known in (*TABLE, *LATER)], 1, cutoff=0.85)
    if near:  # below this cutoff, names have little in common
        fitting = [known for known in (*TABLE, *LATER) if known.rpartition(".")[2] == near[0]]
        return f"The nearest name that it has is tf.{difflib.get_close_matches(path, fitting, 1, cutoff=0)[0]}."
    return "It has no name like this one. NumPy functions act on Tensors: use the NumPy spelling."


class Namespace(ModuleType):
    """A namespace such as `tf.math`; its attributes are looked up in the table."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{ROOT}.{path}", f"TensorFlow's names in `tf.{path}`, of what functad has.")
        self.__dict__["_path"] = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return find(f"{self.__dict__['_path']}.{name}")

    def __dir__(self) -> list[str]:
        return names_in(self.__dict__["_path"])

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}>"


def names_in(path: str) -> list[str]:
    """Return the names directly in a namespace; an empty path means `tf` itself."""
    start = f"{path}." if path else ""
    return sorted({known[len(start) :].split(".")[0] for known in (*TABLE, *LATER) if known.startswith(start)})


def make_namespaces() -> None:
    """Register a namespace for each path with names, so that it can be imported."""
    paths = {known.rpartition(".")[0] for known in (*TABLE, *LATER)} - {""}
    paths |= {path.rpartition(".")[0] for path in paths} - {""}
    for path in sorted(paths):
        namespace = Namespace(path)
        TABLE[path] = namespace
        sys.modules[namespace.__name__] = namespace


@named("DType dtypes.DType")
class DType:
    """An element type with TensorFlow's attributes; NumPy accepts it as a dtype.

    Args:
        dtype: any argument of `numpy.dtype`.

    Example:
        >>> from functad.compat import tf
        >>> tf.float32.name, tf.float32.as_numpy_dtype is np.float32, np.zeros(2, tf.float32).dtype == tf.float32
        ('float32', True, True)
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def real_dtype(self) -> DType:
        """The dtype of the real part."""
        return DType(np.zeros((), self.dtype).real.dtype)

    def _limits(self) -> Any:
        return (np.finfo if self.dtype.kind in "fc" else np.iinfo)(self.dtype)

    min = property(lambda self: self._limits().min, doc="The lowest finite number.")
    max = property(lambda self: self._limits().max, doc="The highest finite number.")
    is_floating = property(lambda self: self.dtype.kind == "f", doc="Whether the elements are real floating-point numbers.")
    is_integer = property(lambda self: self.dtype.kind in "iu", doc="Whether the elements are integers.")
    is_complex = property(lambda self: self.dtype.kind == "c", doc="Whether the elements are complex numbers.")
    is_bool = property(lambda self: self.dtype.kind == "b", doc="Whether the elements are truth values.")
    size = property(lambda self: self.dtype.itemsize, doc="Bytes of an element.")
    name = property(lambda self: self.dtype.name, doc="The name, as of `numpy.dtype`.")
    as_numpy_dtype = property(lambda self: self.dtype.type, doc="NumPy's scalar type.")
    base_dtype = property(lambda self: self, doc="The type itself: there are no references.")

    def __eq__(self, other: object) -> bool:
        try:
            return other is not None and self.dtype == numpy_dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"tf.{self.name}"


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype for a TensorFlow dtype, a name, or any other argument of `numpy.dtype`."""
    return dtype.dtype if isinstance(dtype, DType) else np.dtype(dtype)


@named("as_dtype dtypes.as_dtype")
def as_dtype(type_value: Any) -> DType:
    """Return the dtype object for a NumPy dtype or a name."""
    return type_value if isinstance(type_value, DType) else DType(type_value)


for _name in ("float16", "float32", "float64", "complex64", "complex128", "bool"):
    enter(f"{_name} dtypes.{_name}", DType(_name))
for _bits in (8, 16, 32, 64):
    enter(f"int{_bits} dtypes.int{_bits}", DType(f"int{_bits}"))
    enter(f"uint{_bits} dtypes.uint{_bits}", DType(f"uint{_bits}"))
enter("double", DType("float64"))
enter("half", DType("float16"))


@named("TensorShape")
class TensorShape(tuple[int, ...]):
    """A shape: a tuple of the lengths of the axes, with TensorFlow's methods.

    Args:
        dims: the lengths, or one length.

    Example:
        >>> from functad.compat import tf
        >>> tf.zeros([2, 3]).shape.as_list(), tf.zeros([2, 3]).shape == (2, 3)
        ([2, 3], True)
    """

    __slots__ = ()

    def __new__(cls, dims: Any) -> Self:
        """Return a shape; a single number gives one axis."""
        if dims is None:
            raise ValueError(f"a shape of unknown rank, at {here()}: shapes are always known here. Give the lengths.")
        return super().__new__(cls, (int(dims),) if isinstance(dims, (int, np.integer)) else map(int, dims))

    def as_list(self) -> list[int]:
        """Return the lengths as a list."""
        return list(self)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self)

    ndims = rank

    dims = property(as_list)

    def num_elements(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self, dtype=np.int64))

    def is_fully_defined(self) -> bool:
        """Return True: shapes are always known."""
        return True

    def is_compatible_with(self, other: Any) -> bool:
        """Return `True` if another shape is equal; `None` in it matches any length, and `None` any shape."""
        if other is None:
            return True
        wanted = [None if n is None else int(n) for n in other]
        return len(wanted) == len(self) and all(n in (None, own) for n, own in zip(wanted, self, strict=True))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if another shape is not compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"shapes {self} and {tuple(other)} are not compatible, at {here()}.")

    def concatenate(self, other: Any) -> TensorShape:
        """Return the concatenation of this shape and another."""
        return TensorShape((*self, *TensorShape(other)))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, (list, tuple)) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"

    def __str__(self) -> str:
        return tuple.__repr__(self)


@named("TensorSpec")
class TensorSpec:
    """The shape and dtype of a Tensor, for `tf.function(input_signature=...)`; functad checks nothing against it."""

    def __init__(self, shape: Any, dtype: Any = np.float32, name: str | None = None) -> None:
        self.shape = tuple(shape) if shape is not None else None
        self.dtype = as_dtype(dtype)
        self.name = name

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


@named("IndexedSlices")
class IndexedSlices:
    """Rows of an array and their positions; repeated rows add up.

    Args:
        values: a Tensor of shape `(n, ...)`.
        indices: n integers, the positions along the first axis.
        dense_shape: the shape of the whole array.

    Example:
        >>> from functad.compat import tf
        >>> slices = tf.IndexedSlices(tf.constant([1.0, 2.0, 3.0]), [0, 2, 0], (3,))
        >>> tf.convert_to_tensor(slices).numpy()
        array([4., 0., 2.], dtype=float32)
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    def dense(self) -> Any:
        """Return the whole array, with zeros outside the rows.

        Raises:
            ValueError: `dense_shape` was not given.
        """
        if self.dense_shape is None:
            raise ValueError(f"IndexedSlices without dense_shape cannot be made dense, at {here()}: give the shape.")
        shape = tuple(int(n) for n in self.dense_shape)
        return add(np.zeros(shape, self.values.dtype), self.values, path=(), index=np.asarray(self.indices))

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(values={self.values!r}, indices={self.indices!r}, dense_shape={self.dense_shape!r})"


_PYTHON = {float: np.dtype(np.float32), int: np.dtype(np.int32), bool: np.dtype(np.bool_), complex: np.dtype(np.complex128)}
_INT32 = np.iinfo(np.int32)
_set_type = object.__dict__["__class__"].__set__  # the `__class__` of a Tensor is the type of its value


class Tensor(functad.Tensor):
    """A `functad.Tensor` whose shape is a `TensorShape`; NumPy functions and operators return such Tensors too."""

    __slots__ = ()

    @property  # type: ignore[override]
    def shape(self) -> TensorShape:
        """The lengths of the axes."""
        return TensorShape(functad.Tensor.shape.__get__(self))

    @shape.setter
    def shape(self, value: Any) -> NoReturn:
        raise not_assigned("shape", value, "t = t.reshape(shape)")

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    def __reduce_ex__(self, protocol: Any) -> Any:
        return tensor_of, super().__reduce_ex__(protocol)[1]


def _comparing(name: str) -> Any:
    """Return an operator whose masks are Tensors too, so that they have `numpy()` as in TensorFlow."""
    method = getattr(functad.Tensor, name)

    @functools.wraps(method)
    def compare(self: Any, *others: Any) -> Any:
        found = method(self, *others)
        return found if found is NotImplemented else tensor_of(found)

    return compare


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "rand", "ror", "rxor", "invert"):
    setattr(Tensor, f"__{_name}__", _comparing(f"__{_name}__"))


def tensor_of(value: Any) -> Any:
    """Return a result as a Tensor of this module."""
    if type(value) is functad.Tensor:
        _set_type(value, Tensor)  # the object must stay the same: a tape identifies it
        return value
    if isinstance(value, Recorded):
        return value
    if isinstance(value, functad.RowSlices):
        return value.with_values(tensor_of(value.values))
    return idle(Tensor, np.asarray(value)[()])


def tensors_of(tree: Any) -> Any:
    """Return a nested result with Tensors of this module; `None` stays `None`."""
    if issubclass(type(tree), (Recorded, np.ndarray, np.generic)):  # the usual case; a pytree costs 6 us
        return tensor_of(tree)
    return mapped(tensor_of, tree)


def returning_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the same results as Tensors, or pytrees of Tensors."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return tensors_of(function(*args, **kwargs))

    return wrapper


def operation(paths: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function, with its results as Tensors, under the given names."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return named(paths)(returning_tensors(function))

    return decorate


def enter_calls(rows: Mapping[str, tuple[Callable[..., Any], Callable[..., Iterable[Any]]]]) -> None:
    """Register functions, mostly of NumPy, under TensorFlow's names.

    Args:
        rows: by names, the function and a converter with TensorFlow's signature, which returns the arguments of the function.
    """
    for paths, (function, arguments) in rows.items():
        enter(paths, _call(function, arguments, paths.partition(" ")[0]))


def _call(function: Callable[..., Any], arguments: Callable[..., Iterable[Any]], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return tensors_of(function(*arguments(*args, **kwargs)))

    functools.update_wrapper(call, arguments)
    own, module = getattr(function, "__name__", ""), getattr(function, "__module__", "numpy")
    by = f", by `{module.replace('numpy', 'np')}.{own}`" if module.startswith("numpy") else ""
    call.__doc__ = f"TensorFlow's `tf.{name}`{by}."
    call.__name__ = call.__qualname__ = arguments.__qualname__ = name.rpartition(".")[2]  # for messages about arguments
    return call


def as_tensor(value: Any, dtype: Any = None) -> Any:
    """Convert a value to a Tensor as TensorFlow does; a Tensor of the requested dtype is returned unchanged.

    Raises:
        TypeError: the value holds no numbers.
    """
    if dtype is None and isinstance(value, Recorded):
        return value
    value = read(value)
    if isinstance(value, IndexedSlices):
        value = value.dense()
    wanted = None if dtype is None else numpy_dtype(dtype)
    if isinstance(value, (list, tuple)) and any(map(_holds_tensor, value)):
        return np.stack([as_tensor(part, _common_dtype(value) if wanted is None else wanted) for part in value])
    if isinstance(value, Recorded):
        return value if wanted is None or dtype_of(value) == wanted else cast(value, wanted)
    array = np.asarray(value, wanted)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"a {type(value).__name__}, at {here()}, is no array of numbers: pass numbers or Tensors.")
    if wanted is None and not issubclass(type(value), (np.ndarray, np.generic)):
        kind = _python_kind(value)
        if kind is not None and not (kind is int and array.size and not _fits(array)):
            array = array.astype(_PYTHON[kind])
    return idle(Tensor, array.copy()[()])


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    return isinstance(value, (Recorded, TensorLike))


def _common_dtype(values: Iterable[Any]) -> Any:
    """Return the dtype of the first Tensor in a list, which Python numbers beside it take; `None` if there is no Tensor."""
    for value in values:
        if isinstance(value, (list, tuple)):
            found = _common_dtype(value)
            if found is not None:
                return found
        elif isinstance(value, (Recorded, TensorLike)):
            return dtype_of(read(value))
    return None


def _fits(array: Any) -> bool:
    return bool(array.min() >= _INT32.min and array.max() <= _INT32.max)


def _python_kind(value: Any) -> type | None:
    """Return the widest type of the Python numbers in a nested list; `None` if NumPy numbers are among them."""
    if isinstance(value, (list, tuple, range)):
        kinds = [_python_kind(part) for part in value]
        if None in kinds:
            return None
        return max(kinds, key=[bool, int, float, complex].index, default=float)  # type: ignore[arg-type]
    return type(value) if type(value) in _PYTHON else None


def operands(*values: Any) -> list[Any]:
    """Return operands as Tensors; numbers, lists and arrays take the dtype of the first Tensor among them."""
    if all(isinstance(value, Recorded) for value in values):
        return list(values)
    dtype = _common_dtype(values)
    return [as_tensor(v, None if dtype is None or isinstance(v, (Recorded, TensorLike)) else _taken(v, dtype)) for v in values]


def _taken(value: Any, dtype: Any) -> Any:
    """Return the dtype of an operand beside a Tensor; `None` if it keeps its own, as floats beside integers do."""
    own = dtype_of(as_tensor(value))
    return dtype if np.can_cast(own, dtype, "same_kind") else None


@operation("constant")
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Any:
    """Return a value as a Tensor; a single number is broadcast to `shape`."""
    out = as_tensor(value, dtype)
    if shape is None:
        return out
    return np.broadcast_to(out, tuple(shape)) if out.size == 1 else np.reshape(out, tuple(shape))


@operation("cast dtypes.cast")
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Return a Tensor with another dtype; a conversion from complex to real drops the imaginary part."""
    x, wanted = as_tensor(x), numpy_dtype(dtype)
    if dtype_of(x).kind == "c" and wanted.kind not in "cb":
        x = x.real
    return x if dtype_of(x) == wanted else x.astype(wanted)


enter_calls(
    {
        "convert_to_tensor": (as_tensor, lambda value, dtype=None, dtype_hint=None, name=None: (value, dtype)),
        "identity": (COPY, lambda input, name=None: (as_tensor(input),)),
    }
)


@named("is_tensor")
def is_tensor(x: Any) -> bool:
    """Return `True` if `x` is a Tensor, a Variable or `IndexedSlices`."""
    return isinstance(x, (Recorded, TensorLike, IndexedSlices))


named("Tensor")(functad.Tensor)  # `isinstance(x, tf.Tensor)` holds for every Tensor
