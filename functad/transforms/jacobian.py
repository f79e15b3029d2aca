"""`jacobian`, `jacrev`, `jacfwd`, `value_and_jacobian` and `elementwise_grad`, and batches of seeds.

The function runs once, on concrete values, so masks and branches on values work. Only cotangents or tangents are batched: many
of them, such as the rows of an identity matrix, take one pass over the records. Reverse mode computes one row per element of
the result, forward mode one column per element of the arguments. `mode="auto"` records a reverse trace. If rows outnumber
columns, the columns come from the same trace by double transposition (`pushforward`), without a second run of the function.
`elementwise_grad` needs one backward pass, because the Jacobian of an elementwise function is diagonal.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np

from functad.errors import InputError, OutputError
from functad.expressions.records import checker
from functad.expressions.spec import PLAIN, dtype_of, inexact, shape_of, spec_of
from functad.places import here, name_of
from functad.primitives.operands import all_examples, zeros_for
from functad.tracing.batch import BatchRecorder
from functad.tracing.concrete import ForwardRecorder, ReverseRecorder
from functad.tracing.ownership import own_results, unrecorded
from functad.tracing.trace import Recorded, Recorder
from functad.transforms.boundary import (
    Inputs,
    check_result,
    check_slope,
    own_aux,
    split_aux,
    traced,
    wrap_inputs,
)
from functad.transforms.forward import push_through
from functad.transforms.grad import Pullback, gradient_function
from functad.transforms.linear import pushforward
from functad.transforms.reverse import foreign_array
from functad.transforms.transform import ArgNames, ArgNums, Selection, check_chunk_size, transform
from functad.trees import flatten

if TYPE_CHECKING:
    pass


P = ParamSpec("P")
R = TypeVar("R")
Mode = Literal["auto", "forward", "reverse"]
Pass = Callable[[Sequence[Any]], Sequence[Any]]
"""A forward or backward pass: a function from seeds to results; `None` means zero in both."""


@transform
def jacobian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    mode: Mode = "auto",
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of `f`: `J[i, j] = d f(x)[i] / d x[j]`.

    `f` runs once, on concrete values. Many rows or columns are computed at a time.

    Args:
        f: a function of NumPy code that returns an array or a pytree of arrays. Without `f`, the transform returns a decorator.
        argnums: position, or positions, of the arguments to differentiate with respect to: arrays, numbers, or pytrees of them.
        argnames: name, or names, of these arguments. If given, the default of `argnums` does not apply.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is returned unchanged.
        holomorphic: arguments and values are complex, and the Jacobian is the complex derivative.
        allow_int: accept integers among the selected arguments and in the result; their derivative is zero.
        mode: `"reverse"` computes rows, `"forward"` computes columns, `"auto"` selects the cheaper mode.
        chunk_size: the maximal number of rows or columns computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function with the signature of `f`. For an array result and an array argument it returns an array of shape
        `value.shape + argument.shape`. For pytrees it returns the structure of the result, with the structure of the argument
        at each leaf. The Jacobian has the dtype of the argument, or the complex dtype of the same precision if the result is
        complex. With `has_aux` the function returns `(jacobian, aux)`.

    Raises:
        InputError: an argument cannot be differentiated; or arguments and results are complex without `holomorphic`.
        OutputError: the result of `f` is not a pytree of real or complex arrays.

    Example:
        >>> import numpy as np
        >>> jacobian(lambda x: np.stack([x[0] * x[1], x[0] ** 2]))(np.array([2.0, 3.0]))
        array([[3., 2.],
               [4., 0.]])
    """
    selection = Selection("jacobian", f, argnums, argnames)
    return jacobian_function(selection, has_aux, holomorphic, allow_int, mode, chunk_size)


@transform
def jacrev(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of `f` in reverse mode, row by row: `J[i] = e_i^T J`.

    `jacrev` is `jacobian` with `mode="reverse"`. It takes one backward pass per element of the result.

    Args:
        f: the function. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, holomorphic, allow_int: as for `jacobian`.
        chunk_size: the maximal number of rows computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function that returns the Jacobian, as for `jacobian`.

    Raises:
        InputError, OutputError: as for `jacobian`.

    Example:
        >>> import numpy as np
        >>> jacrev(lambda x: np.sum(x**2, keepdims=True))(np.array([1.0, 2.0]))
        array([[2., 4.]])
    """
    selection = Selection("jacrev", f, argnums, argnames)
    return jacobian_function(selection, has_aux, holomorphic, allow_int, "reverse", chunk_size)


@transform
def jacfwd(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of `f` in forward mode, column by column: `J[:, j] = J e_j`.

    `jacfwd` is `jacobian` with `mode="forward"`. It takes one forward pass per element of the arguments.

    Args:
        f: the function. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, holomorphic, allow_int: as for `jacobian`.
        chunk_size: the maximal number of columns computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function that returns the Jacobian, as for `jacobian`.

    Raises:
        InputError, OutputError: as for `jacobian`.

    Example:
        >>> import numpy as np
        >>> jacfwd(lambda t: np.stack([np.cos(t), np.sin(t)]))(0.0)
        array([-0.,  1.])
    """
    selection = Selection("jacfwd", f, argnums, argnames)
    return jacobian_function(selection, has_aux, holomorphic, allow_int, "forward", chunk_size)


@transform
def value_and_jacobian(
    f: Callable[P, R],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    mode: Mode = "auto",
    chunk_size: int | None = None,
) -> Callable[P, tuple[R, Any]]:
    """Return a function that computes the value and the Jacobian of `f` in one evaluation: `(f(x), J)`.

    `J[i, j] = d f(x)[i] / d x[j]`, as for `jacobian`.

    Args:
        f: the function. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, holomorphic, allow_int, mode, chunk_size: as for `jacobian`.

    Returns:
        A function with the signature of `f` that returns `(value, jacobian)`, or `((value, aux), jacobian)`.

    Raises:
        InputError, OutputError: as for `jacobian`.

    Example:
        >>> import numpy as np
        >>> value_and_jacobian(lambda x: x**2)(np.array([1.0, 3.0]))
        (array([1., 9.]), array([[2., 0.],
               [0., 6.]]))
    """
    selection = Selection("value_and_jacobian", f, argnums, argnames)
    return jacobian_function(selection, has_aux, holomorphic, allow_int, mode, chunk_size, with_value=True)


@transform
def elementwise_grad(
    f: Callable[P, Any], argnums: ArgNums = 0, argnames: ArgNames | None = None, has_aux: bool = False
) -> Callable[P, Any]:
    """Return a function that computes the elementwise derivative of `f`: `f'(x[i])` for each element of `x`.

    The result is the gradient of `sum(f(x))`. If `f` is not elementwise, the result is the sum of the rows of its Jacobian.

    Args:
        f: a function of NumPy code that returns one array. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux: as for `grad`.

    Returns:
        A function with the signature of `f` that returns an array with the shape and dtype of the argument, or `(array, aux)`.

    Raises:
        OutputError: the result of `f` is not one real floating-point array or number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> elementwise_grad(np.tanh)(np.array([0.0, 1.0])).round(4)
        array([1.  , 0.42])
        >>> elementwise_grad(elementwise_grad(lambda x: x**3))(np.array([1.0, 2.0]))
        array([ 6., 12.])
    """
    selection = Selection("elementwise_grad", f, argnums, argnames)

    @functools.wraps(f)
    def total(*args: P.args, **kwargs: P.kwargs) -> Any:
        out, aux = split_aux(f(*args, **kwargs), has_aux, selection)
        leaves = flatten(out)[0]
        if len(leaves) != 1 or leaves[0] is not out:
            raise OutputError(
                f"{selection.call}: the result is a {type(out).__name__}, and should be one array. Use jacobian or vjp."
            )
        check_result(out, "result", "elementwise_grad", f)
        check_slope(out, "the result", selection)
        if np.dtype(spec_of(out).dtype).kind == "c":
            raise OutputError(
                f"{selection.call}: the result is {spec_of(out)}, and should be real. Use jvp, or grad with holomorphic=True."
            )
        result = np.sum(out) if shape_of(out) else out
        return (result, aux) if has_aux else result

    return gradient_function(Selection("elementwise_grad", total, argnums, argnames), has_aux)


def jacobian_function(
    selection: Selection,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool | None = None,
    mode: Mode = "auto",
    chunk_size: int | None = None,
    *,
    with_value: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian, or value and Jacobian, of the function of `selection`."""
    f = selection.function
    if mode not in ("auto", "forward", "reverse"):
        raise InputError(
            f"{selection.transform} of {name_of(f)}, at {here()}: mode is {mode!r}; it is 'auto', 'forward' or 'reverse'."
        )
    check_chunk_size(selection.transform, f, chunk_size)

    @functools.wraps(f)
    def derived(*args: Any, **kwargs: Any) -> Any:
        trace = _Trace(selection, has_aux, holomorphic, allow_int, mode, chunk_size, args, kwargs)
        blocks = trace.columns() if trace.forward else trace.rows()
        if len(blocks) > 1 or any(len(row) > 1 for row in blocks):  # slices of one pass share memory
            leaves = iter(own_results([block for row in blocks for block in row], ()))
            blocks = [[next(leaves) for _ in row] for row in blocks]
        result = trace.pull.structure.unflatten([trace.inputs.pack(row) for row in blocks])
        recorder, primals, values = trace.recorder, trace.inputs.primals, trace.pull.values
        if with_value:
            values = own_results(values, [*primals, *unrecorded(recorder, trace.results)])
        aux = own_aux(trace.aux, recorder, primals, values) if has_aux else None
        if with_value:
            value = trace.pull.structure.unflatten(values)
            return ((value, aux), result) if has_aux else (value, result)
        return (result, aux) if has_aux else result

    return derived


class _Trace:
    """One evaluation of a function, and the blocks of its Jacobian: one per pair of a result leaf and an argument leaf.

    Attributes:
        forward: compute columns instead of rows.
    """

    def __init__(
        self,
        selection: Selection,
        has_aux: bool,
        holomorphic: bool,
        allow_int: bool | None,
        mode: Mode,
        chunk_size: int | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        f = selection.function
        self.selection = selection
        self.recorder = (ForwardRecorder if mode == "forward" else ReverseRecorder)(selection.transform, f)
        self.chunk_size = chunk_size if self.recorder.monitor is None else 1
        self.inputs: Inputs = wrap_inputs(self.recorder, selection, args, kwargs, holomorphic=holomorphic, allow_int=allow_int)
        out = traced(self.recorder, f, self.inputs.args, self.inputs.kwargs)
        out, self.aux = split_aux(out, has_aux, selection)
        self.pull = Pullback(self.recorder, self.inputs, out, selection)
        self.results = flatten(out)[0]
        for value, path in zip(self.pull.values, self.pull.structure.paths("result"), strict=True):
            check_slope(value, path, selection, allow_int)
        self.primals = [primal for i, primal in enumerate(self.inputs.primals) if i not in self.inputs.skipped]
        self.forward = mode == "forward" or (
            mode == "auto"
            and sum(map(size_of, self.pull.values)) > 2 * sum(map(size_of, self.primals))
            and not any(dtype_of(primal).kind == "c" for primal in self.primals)
            and self.recorder.monitor is None
        )
        if not holomorphic:
            self._check_real()

    def _check_real(self) -> None:
        """Raise `InputError` if no single complex number is the derivative."""
        leaves, structure = self.inputs.primals, self.pull.structure
        complex_leaf = next((leaf for leaf in leaves if dtype_of(leaf).kind == "c"), None)
        if complex_leaf is None:
            return
        for value, path in zip(self.pull.values, structure.paths("result"), strict=True):
            if dtype_of(value).kind == "c" or self.forward:
                what = f"and {path} is {spec_of(value)}" if dtype_of(value).kind == "c" else "and columns are asked for"
                raise InputError(
                    f"{self.selection.call}: an argument is {spec_of(complex_leaf)} {what}. Pass holomorphic=True if f "
                    f"is holomorphic; otherwise differentiate real and imaginary parts, as two real arguments and two real "
                    f"results."
                )

    def rows(self) -> list[list[Any]]:
        """Return the blocks, computed in reverse mode."""
        width = widest(self.recorder, *self.primals, *self.pull.values)
        blocks = []
        for i, value in enumerate(self.pull.values):
            found = self._products(self.pull.leaves, self.pull.values, i, width)
            if found and dtype_of(value).kind == "c" and not any(dtype_of(primal).kind == "c" for primal in self.primals):
                imaginary = self._products(self.pull.leaves, self.pull.values, i, width, -1j)  # cotangents are real
                found = [a if b is None else 1j * b + (0 if a is None else a) for a, b in zip(found, imaginary, strict=True)]
            blocks.append(self._block(value, found or [None] * len(self.primals)))
        return blocks

    def columns(self) -> list[list[Any]]:
        """Return the blocks, computed column by column."""
        if self.recorder.pushes:
            push: Callable[[Sequence[Any]], list[Any]] = functools.partial(push_through, self.recorder, outs=self.results)
            width = pushed_size(self.recorder) // 4
        else:
            push = pushforward(self.pull)
            width = widest(self.recorder, *self.primals, *self.pull.values)
        found = []
        for j in range(len(self.primals)):
            columns = self._products(push, self.primals, j, width) or [None] * len(self.pull.values)
            found.append([None if column is None else np.moveaxis(column, 0, -1) for column in columns])
        return [self._block(value, [columns[i] for columns in found]) for i, value in enumerate(self.pull.values)]

    def _products(self, walk: Pass, ends: Sequence[Any], i: int, width: int, factor: complex = 1) -> list[Any]:
        return of_identity(self.recorder, ends, i, walk, self.chunk_size, width, factor=factor)

    def _block(self, value: Any, found: list[Any]) -> list[Any]:
        """Return the blocks of the Jacobian for one leaf of the result: one array per leaf of the arguments."""
        waiting = iter(found)
        blocks = []
        for i, primal in enumerate(self.inputs.primals):
            rows = None if i in self.inputs.skipped else next(waiting)
            shape = shape_of(value) + shape_of(primal)
            dtype = inexact(primal)
            if dtype_of(value).kind == "c" and dtype.kind != "c":
                dtype = np.result_type(dtype, np.complex64)
            if rows is None:
                inner = foreign_array(primal)
                blocks.append(np.zeros(shape, dtype)[()] if inner is None else zeros_for(shape, dtype, inner))
                continue
            if type(rows) in PLAIN and (inner := foreign_array(primal)) is not None:  # the seeds themselves, of NumPy
                rows = zeros_for((), dtype, inner) + rows
            rows = rows.reshape(shape)
            rows = rows if dtype_of(rows) == dtype else rows.astype(dtype)
            if type(rows) is np.ndarray and not rows.flags.writeable:
                rows = rows.copy()
            blocks.append(rows if shape else rows[()])
        return blocks


def pushed_size(recorder: Recorder) -> int:
    """Return the number of elements of the tangents of all values of a forward trace, which a pass holds at once."""
    total = 1
    for record in recorder.records:
        if record is not None:
            if record[3] is None:  # as large as the residuals, if there are any
                total += _kept_size(record[2])
                continue
            for shape, _ in record[3][1] if record[0].primitive.multiple else (record[3],):
                total += math.prod(shape)
    return total


def _kept_size(saved: Any) -> int:
    if isinstance(saved, tuple):
        return max(map(_kept_size, saved), default=1)
    return int(getattr(saved, "size", 1))


_ndarray = np.ndarray


MEMORY = 1 << 22
"""Maximal number of elements of a batched value: 32 MiB of float64 (measured: larger is no faster)."""


ONE_BY_ONE = 4
"""Up to this many seeds run one by one, which is faster: plain passes write in place, and records are not wrapped."""


def size_of(value: Any) -> int:
    """Return the number of elements of an array, Tensor or scalar."""
    return math.prod(shape_of(value))


def chunks(count: int, chunk_size: int | None, width: int) -> Iterator[slice]:
    """Yield a slice of `count` seeds per pass; the default size keeps values of `width` elements per seed within `MEMORY`."""
    step = max(1, min(count, MEMORY // max(width, 1))) if chunk_size is None else chunk_size
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def identity_rows(value: Any, part: slice) -> Any:
    """Return rows `part` of the identity matrix over the elements of a value, with shape `(rows, *value.shape)`."""
    rows = part.stop - part.start
    seeds = np.zeros((rows, size_of(value)), inexact(value))
    seeds[np.arange(rows), np.arange(part.start, part.stop)] = 1
    return seeds.reshape((rows, *shape_of(value)))


def in_batch(transform: str, function: object, seeds: Any, walk: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """Run a pass for a batch of seeds and stack its results along a new first axis; `None` for a result that is always zero.

    Args:
        transform: the name of the transform, for messages.
        function: the transformed function, for messages.
        seeds: the seeds, along the first axis.
        walk: the pass: a function of one seed that returns arrays, or `None` for zero.
    """
    size = shape_of(seeds)[0]
    if 0 < size <= ONE_BY_ONE or (size and checker() is not None):  # `debug_nans` checks the values of each seed
        rows = [walk(seed) for seed in seeds]
        return [None if all(row is None for row in column) else _stacked(column) for column in zip(*rows, strict=True)]
    recorder = BatchRecorder(transform, function, size)
    found = []
    for out in walk(recorder.batch(seeds)):
        array = recorder.array(out)
        if array is None and out is not None:
            array = np.broadcast_to(out, (size, *shape_of(out)))
        found.append(array)
    recorder.close()
    return found


def _stacked(column: Sequence[Any]) -> Any:
    known = next(row for row in column if row is not None)
    return np.stack([np.zeros_like(known) if row is None else row for row in column])


def of_identity(
    of: Any,
    ends: Sequence[Any],
    i: int,
    walk: Pass,
    chunk_size: int | None,
    width: int,
    *,
    factor: complex = 1,
    diagonal: bool = False,
) -> list[Any]:
    """Run a pass for the rows of an identity matrix and stack its results; return an empty list if there are no rows.

    Args:
        of: an object with the names `transform` and `function`, for messages: a trace, for example.
        ends: the arrays, numbers or specs at which the pass starts.
        i: the index of the one that has one element per row; the seeds of all others are zero.
        walk: the pass.
        chunk_size: the number of rows per pass, or `None` for as many as fit into `MEMORY`.
        width: the size of the largest value of the pass.
        factor: multiplies the rows.
        diagonal: return only the diagonal of each result, which has the size of `ends[i]`.
    """
    size = size_of(ends[i])
    parts, counts = [], []
    for part in chunks(size, chunk_size, width):
        rows = identity_rows(ends[i], part)
        found = in_batch(
            of.transform,
            of.function,
            rows if factor == 1 else factor * rows,
            lambda seed: walk([seed if j == i else None for j in range(len(ends))]),
        )
        if diagonal:
            own = np.arange(len(rows)), np.arange(part.start, part.stop)
            found = [None if array is None else array.reshape(len(rows), size)[own] for array in found]
        parts.append(found)
        counts.append(len(rows))
    return [_joined(column, counts) for column in zip(*parts, strict=True)]


def _joined(parts: Sequence[Any], counts: Sequence[int]) -> Any:
    """Return the concatenated rows of several chunks, with zeros for a chunk that is `None`; `None` if all are."""
    known = next((part for part in parts if part is not None), None)
    if known is None or len(parts) == 1:
        return known
    shape, dtype = shape_of(known)[1:], dtype_of(known)
    return np.concatenate([np.zeros((n, *shape), dtype) if p is None else p for p, n in zip(parts, counts, strict=True)])


def widest(recorder: Recorder, *leaves: Any) -> int:
    """Return the size of the largest value among `leaves` and the residuals of a trace; a batch counts with all examples."""
    sizes = [size_of(all_examples(leaf)) for leaf in leaves]
    for record in recorder.records:
        if record is not None:
            residuals = record[2]
            for value in residuals if type(residuals) is tuple else (residuals,):
                if type(value) is np.ndarray:
                    sizes.append(value.size)
                elif isinstance(value, Recorded):
                    sizes.append(size_of(all_examples(value)))
                elif type(value) is tuple:
                    sizes += [size_of(all_examples(part)) for part in value if issubclass(type(part), (np.ndarray, Recorded))]
    return max(sizes, default=1)
