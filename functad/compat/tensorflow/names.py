"""The table of names: each object is registered once, under all its TensorFlow names.

Namespaces such as `tf.math` are made from the table. A missing name raises an error with the NumPy spelling, if there is one.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from functad.places import here

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
