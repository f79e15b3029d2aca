"""Products that sum over axes: `matmul`, `dot` and similar functions. `einsum` has its own module."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.batching import aligned, elementwise, example_ndim
from functad.primitives.elementwise.elementary import MULTIPLY
from functad.primitives.entry import PULL_PRODUCT, Primitive
from functad.primitives.kinds import composite, multilinear
from functad.primitives.linalg.einsum import einsum
from functad.primitives.operands import as_operand, refuse_out, strong

_ndarray = np.ndarray

Shape = tuple[int, ...]
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


def as_array(value: Any) -> Any:
    """Return a list or number as an array; an array, NumPy scalar or Tensor unchanged."""
    value = as_operand(value)
    if not hasattr(value, "ndim"):
        return np.asarray(value)
    return value if value.ndim else strong(value)


def _matmul_a(g: Any, b: Any, a_shape: Shape) -> Any:
    """`g b^T`; for one matrix b and a stack a, one product of matrices instead of many."""
    if b.ndim == 1:
        return g * b if len(a_shape) == 1 else g[..., None] * b
    if len(a_shape) == 1:
        return b @ g if b.ndim == 2 else (b @ g[..., None])[..., 0]
    if b.ndim == 2 and len(a_shape) > 2:
        rows = math.prod(a_shape[:-1])
        return (g.reshape(rows, b.shape[1]) @ b.T).reshape(a_shape)
    return g @ (b.T if b.ndim == 2 else b.swapaxes(-1, -2))


def _matmul_b(g: Any, a: Any, b_shape: Shape) -> Any:
    """`a^T g`; for one matrix b and a stack a, one product of matrices, which includes the sum over the stack."""
    if a.ndim == 1:
        if len(b_shape) == 1:
            return g * a
        return OUTER(a, g) if len(b_shape) == 2 and type(g) is not np.ndarray else a[:, None] * g[..., None, :]
    if a.ndim == 2 and len(b_shape) == 1:
        return g.dot(a) if type(g) is type(a) is np.ndarray else g @ a  # takes half the time on small arrays
    if a.ndim == 2:
        return a.T @ g
    if len(b_shape) > 2:
        return a.swapaxes(-1, -2) @ g
    rows = math.prod(a.shape[:-1])
    a = a.reshape(rows, a.shape[-1])
    return g.reshape(rows) @ a if len(b_shape) == 1 else a.T @ g.reshape(rows, b_shape[1])


def _matmul_spec(a: Any, b: Any) -> ArraySpec:
    a, b = spec_of(a), spec_of(b)
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[max(0, b.ndim - 2)]:
        raise ValueError(f"matmul of {a} and {b}: the last axis of the first must match the last but one of the second")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = batch + a.shape[:-1][-1:] + (b.shape[-1:] if b.ndim > 1 else ())
    return ArraySpec(shape, np.result_type(a.dtype, b.dtype))


def _pairs(*shapes: tuple[Shape, Shape]) -> Any:
    """Return samples with pairs of arrays of the given shapes."""

    def samples(array: Any) -> Calls:
        return [((array(*a), array(*b)), {}) for a, b in shapes]

    return samples


_MATRIX_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 2)), ((2, 2, 3), (3,)), ((0, 3), (3, 2)),
    ((2, 0), (0, 3)), ((2, 2, 0), (0, 3)),
)  # fmt: skip
_BATCH_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (1, 3, 2)),
)  # fmt: skip


def _matmul_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Use one product of matrices for vectors and one matrix; treat other vectors as matrices with one row or column."""
    (a, b), (a_batched, b_batched) = values, batched
    m, n = example_ndim(a, a_batched), example_ndim(b, b_batched)
    if m == 1 and n == 2 and not b_batched:
        return a @ b
    if n == 1 and m == 2 and not a_batched:
        return b @ a.T
    if m > 1 and n == 2 and not b_batched:
        shape = a.shape
        return (a.reshape(math.prod(shape[:-1]), shape[-1]) @ b).reshape((*shape[:-1], b.shape[-1]))
    if m == n == 1:
        return SUM_OF_PRODUCTS(a, b)
    if m == 1:
        a = a[..., None, :]
    if n == 1:
        b = b[..., None]
    out = primitive(*aligned((a, b), batched))
    return out[..., 0, :] if m == 1 else out[..., 0] if n == 1 else out


MATMUL = multilinear(
    np.matmul,
    _matmul_a,
    _matmul_b,
    compute=operator.matmul,
    spec=_matmul_spec,
    samples=_pairs(*_MATRIX_SHAPES, *_BATCH_SHAPES),
    broadcasts=True,
    doc="d(a @ b) = da @ b + a @ db",
    special=PULL_PRODUCT,
    jvps=(lambda t, b, a_shape: t @ b, lambda t, a, b_shape: a @ t),
    batch=_matmul_batch,
    ordered=True,
    dependence="matmul",
)


@composite(np.linalg.matmul, samples=_pairs(((2, 3), (3, 2)), ((2, 2, 3), (3, 2))), doc="as matmul")
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product."""
    return np.matmul(as_array(x1), as_array(x2))


def _dot(a: Any, b: Any) -> Any:
    return a.dot(b) if type(a) is _ndarray else np.dot(a, b)  # the method takes half the time on small arrays


def _dot_a(g: Any, b: Any, a_shape: Shape) -> Any:
    """`g b^T`, with the axes of `g` that come from `b` flattened to one."""
    if not a_shape or not b.ndim:
        return g * b
    if b.ndim <= 2:
        return _matmul_a(g, b, a_shape)
    last = b.ndim - 1
    rows, columns = math.prod(a_shape[:-1]), math.prod(b.shape[:-2]) * b.shape[-1]
    b = b.transpose((last - 1, *range(last - 1), last)).reshape(a_shape[-1], columns)
    return (g.reshape(rows, columns) @ b.T).reshape(a_shape)


def _dot_b(g: Any, a: Any, b_shape: Shape) -> Any:
    """`a^T g`, with all axes of `a` except the last flattened to one."""
    if not b_shape or not a.ndim:
        return g * a
    if len(b_shape) <= 2:
        return _matmul_b(g, a, b_shape)
    last = len(b_shape) - 1
    others = (*b_shape[:-2], b_shape[-1])
    rows, depth = math.prod(a.shape[:-1]), b_shape[-2]
    ct = a.reshape(rows, depth).T @ g.reshape(rows, math.prod(others))
    return ct.reshape((depth, *others)).transpose((*range(1, last), 0, last))


def _dot_spec(a: Any, b: Any) -> ArraySpec:
    a, b = spec_of(a), spec_of(b)
    dtype = np.result_type(a.dtype, b.dtype)
    if not a.ndim or not b.ndim:
        return ArraySpec(a.shape or b.shape, dtype)
    if a.shape[-1] != b.shape[max(0, b.ndim - 2)]:
        raise ValueError(f"dot of {a} and {b}: the last axis of the first must match the last but one of the second")
    return ArraySpec(a.shape[:-1] + b.shape[:-2] + (b.shape[-1:] if b.ndim > 1 else ()), dtype)


_SCALAR_SHAPES: tuple[tuple[Shape, Shape], ...] = (((), ()), ((), (2, 2)), ((3,), ()))
_LARGE_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3), (2, 3, 2)), ((2, 1, 3), (2, 3, 2)), ((3,), (2, 3, 1)), ((2, 0), (2, 0, 3)),
)  # fmt: skip


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the sum of products over the last axis of `a` and the second to last axis of `b`."""
    refuse_out(out, "dot")
    return DOT(as_array(a), as_array(b))


def _dot_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    m, n = map(example_ndim, values, batched)
    if not m or not n:
        return elementwise(MULTIPLY, size, values, batched, params)
    if n <= 2:
        return _matmul_batch(MATMUL, size, values, batched, params)
    a_axes, b_axes = list(range(1, m + 1)), [*range(m + 1, m + n - 1), m, m + n]
    result = [0, *a_axes[:-1], *b_axes[:-2], b_axes[-1]]
    (a, b), (a_batched, b_batched) = values, batched
    return einsum(a, [0] * a_batched + a_axes, b, [0] * b_batched + b_axes, result, optimize=True)


DOT = multilinear(
    np.dot,
    _dot_a,
    _dot_b,
    compute=_dot,
    spec=_dot_spec,
    samples=_pairs(*_MATRIX_SHAPES, *_SCALAR_SHAPES, *_LARGE_SHAPES),
    broadcasts=True,
    doc="d(a . b) = da . b + a . db",
    front=dot,
    batch=_dot_batch,
    ordered=True,
    zero_d=False,
    dependence="dot",
)


def _conjugate(a: Any) -> Any:
    return a.conj() if a.dtype.kind == "c" else a


@composite(np.vdot, samples=_pairs(((3,), (3,)), ((2, 3), (3, 2)), ((), ()), ((0,), (0,))), doc="d(conj(a) . b)")
def vdot(a: Any, b: Any, /) -> Any:
    """Return the sum of `conj(a) * b` over all elements."""
    return DOT(_conjugate(as_array(a)).reshape(-1), as_array(b).reshape(-1))


@composite(
    np.inner,
    samples=_pairs(((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 3)), ((2, 3), (2, 1, 3)), ((), (3,)), ((2,), ()), ((0,), (0,))),
    doc="d inner(a, b) = inner(da, b) + inner(a, db)",
)
def inner(a: Any, b: Any, /) -> Any:
    """Return the sum of products over the last axes."""
    a, b = as_array(a), as_array(b)
    if not a.ndim or not b.ndim:
        return a * b
    return DOT(a, b.T) if b.ndim <= 2 else tensordot(a, b, (-1, -1))


def _outer(a: Any, b: Any) -> Any:
    """Return the matrix of products of the elements of two vectors."""
    return a[:, None] * b


def _outer_spec(a: Any, b: Any) -> ArraySpec:
    a, b = spec_of(a), spec_of(b)
    return ArraySpec(a.shape + b.shape, np.result_type(a.dtype, b.dtype))


def _outer_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    a, b = values
    if type(a) is type(b) is np.ndarray and all(batched):
        return np.einsum("zi,zj->zij", a, b)  # 3/4 of the time of the multiplication; used in gradients of weights
    return a[..., None] * b[..., None, :]


# A primitive, because the rule of a broadcast multiplication would create two matrices and sum them.
OUTER: Primitive = multilinear(
    _outer,
    lambda g, b: g @ b,
    lambda g, a: a @ g,
    name="outer_product",
    spec=_outer_spec,
    samples=_pairs(((2,), (3,)), ((1,), (2,)), ((0,), (2,))),
    internal=True,
    doc="d(a b^T) = da b^T + a db^T",
    batch=_outer_batch,
    ordered=True,
    decomposition=True,
    dependence="outer",
)


@composite(np.outer, samples=_pairs(((2,), (3,)), ((2, 2), (3,)), ((), (2,)), ((0,), (2,))), doc="d(a b^T) = da b^T + a db^T")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return the matrix of products of the elements of `a` and `b`."""
    refuse_out(out, "outer")
    return OUTER(as_array(a).reshape(-1), as_array(b).reshape(-1))


@composite(np.linalg.outer, samples=_pairs(((2,), (3,))), doc="d(a b^T) = da b^T + a db^T")
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    """Return the matrix of products of the elements of two vectors."""
    x1, x2 = as_array(x1), as_array(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"np.linalg.outer takes vectors; the shapes are {x1.shape} and {x2.shape}")
    return OUTER(x1, x2)


def _tensordot_samples(array: Any) -> Calls:
    a, b = array(2, 3, 2), array(3, 2, 2)
    return [
        ((a, array(3, 2)), {}), ((a, array(2, 3), 1), {}), ((a, b), {"axes": ([1, 2], [0, 1])}),
        ((a, b), {"axes": ((0, -2), (-1, 0))}), ((array(2), array(3), 0), {}), ((array(3), array(3), 1), {}),
        ((a, array(2), (0, 0)), {}), ((array(0, 2), array(2, 3), 1), {}),
    ]  # fmt: skip


@composite(np.tensordot, samples=_tensordot_samples, doc="d tensordot(a, b) = tensordot(da, b) + tensordot(a, db)")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Return the sum of products over the given axes of `a` and `b`, as a product of matrices."""
    a, b = as_array(a), as_array(b)
    over_a, over_b = _summed_axes(axes, a.ndim, b.ndim)
    kept_a = [i for i in range(a.ndim) if i not in over_a]
    kept_b = [i for i in range(b.ndim) if i not in over_b]
    a_shape, b_shape = a.shape, b.shape
    if [a_shape[i] for i in over_a] != [b_shape[i] for i in over_b]:
        raise ValueError(f"tensordot: axes {over_a} of shape {a_shape} and {over_b} of shape {b_shape} differ in length")
    rows, columns = [a_shape[i] for i in kept_a], [b_shape[i] for i in kept_b]
    depth = math.prod(a_shape[i] for i in over_a)
    a = _arranged(a, [*kept_a, *over_a], (math.prod(rows), depth))
    b = _arranged(b, [*over_b, *kept_b], (depth, math.prod(columns)))
    out = DOT(a, b)
    shape = (*rows, *columns)
    return out if out.shape == shape else out.reshape(shape)


def _summed_axes(axes: Any, a_ndim: int, b_ndim: int) -> tuple[list[int], list[int]]:
    """Return the summed axes of `a` and of `b` as nonnegative numbers."""
    try:
        over_a, over_b = axes
    except TypeError:
        over_a, over_b = range(a_ndim - axes, a_ndim), range(axes)
    found = []
    for over, ndim in ((over_a, a_ndim), (over_b, b_ndim)):
        found.append([normalize_axis_index(i, ndim) for i in (over if hasattr(over, "__iter__") else (over,))])
    return found[0], found[1]


def _arranged(a: Any, axes: list[int], shape: tuple[int, int]) -> Any:
    if axes != sorted(axes):
        a = a.transpose(tuple(axes))
    return a if a.shape == shape else a.reshape(shape)


@composite(
    np.linalg.tensordot,
    samples=lambda array: [((array(2, 3), array(3, 2)), {"axes": 1}), ((array(2, 3), array(2, 3)), {})],
    doc="as tensordot",
)
def linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum of products over the given axes."""
    return tensordot(x1, x2, axes)


def _sum_of_products(a: Any, b: Any) -> Any:
    """Return the sum of `a * b` over the last axis; the other axes broadcast."""
    return np.einsum("...i,...i->...", a, b) if a.dtype.kind == "c" else np.vecdot(a, b)


def _sum_of_products_spec(a: Any, b: Any) -> ArraySpec:
    a, b = spec_of(a), spec_of(b)
    if a.shape[-1:] != b.shape[-1:] or not a.ndim:
        raise ValueError(f"the last axes of {a} and {b} differ in length")
    return ArraySpec(np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), np.result_type(a.dtype, b.dtype))


_VECTOR_PAIRS = _pairs(((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (2, 3)), ((0,), (0,)), ((0, 3), (3,)))

SUM_OF_PRODUCTS = multilinear(
    _sum_of_products,
    lambda g, b: g[..., None] * b,
    lambda g, a: g[..., None] * a,
    name="sum_of_products",
    spec=_sum_of_products_spec,
    samples=_VECTOR_PAIRS,
    broadcasts=True,
    internal=True,
    doc="d(sum a b) = sum(da b) + sum(a db)",
    batch=elementwise,
    dependence="sum of products",
)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of `conj(x1) * x2` over one axis; the other axes broadcast."""
    x1, x2 = as_array(x1), as_array(x2)
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return SUM_OF_PRODUCTS(_conjugate(x1), x2)


composite(np.vecdot, samples=_VECTOR_PAIRS, doc="d(sum conj(x) y) = sum conj(dx) y + sum conj(x) dy")(vecdot)
composite(
    np.linalg.vecdot,
    samples=lambda array: [((array(3), array(3)), {}), ((array(3, 2), array(3, 2)), {"axis": 0})],
    doc="as vecdot",
)(vecdot)


def matvec(x1: Any, x2: Any, /) -> Any:
    """Return the product of matrices and vectors; leading axes broadcast."""
    x1, x2 = as_array(x1), as_array(x2)
    return x1 @ x2 if x2.ndim == 1 else (x1 @ x2[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Any:
    """Return the product of conjugated vectors and matrices; leading axes broadcast."""
    x1, x2 = _conjugate(as_array(x1)), as_array(x2)
    return x1 @ x2 if x1.ndim == 1 else (x1[..., None, :] @ x2)[..., 0, :]


if hasattr(np, "matvec"):  # both since NumPy 2.2
    composite(
        np.matvec,
        samples=_pairs(((2, 3), (3,)), ((2, 2, 3), (3,)), ((2, 3), (2, 3)), ((2, 2, 3), (2, 3)), ((2, 0), (0,))),
        doc="d(A v) = dA v + A dv",
    )(matvec)
    composite(
        np.vecmat,
        samples=_pairs(((3,), (3, 2)), ((2, 3), (3, 2)), ((3,), (2, 3, 2)), ((2, 3), (2, 3, 2)), ((0,), (0, 2))),
        doc="d(v^H A) = dv^H A + v^H dA",
    )(vecmat)


@composite(
    np.kron,
    samples=_pairs(((2, 2), (2, 3)), ((2,), (3,)), ((2,), (2, 2)), ((2, 1, 2), (2,)), ((), (2,)), ((2,), ()), ((0,), (2,))),
    doc="d kron(a, b) = kron(da, b) + kron(a, db)",
)
def kron(a: Any, b: Any) -> Any:
    """Return the Kronecker product: blocks of `b`, each times an element of `a`."""
    a, b = as_array(a), as_array(b)
    if not a.ndim or not b.ndim:
        return a * b
    ndim = max(a.ndim, b.ndim)
    a_axes = [2 * i for i in range(ndim - a.ndim, ndim)]
    b_axes = [2 * i + 1 for i in range(ndim - b.ndim, ndim)]
    a_shape, b_shape = [(1,) * (ndim - x.ndim) + x.shape for x in (a, b)]
    product = einsum(a, a_axes, b, b_axes, sorted(a_axes + b_axes))
    return product.reshape(tuple([m * n for m, n in zip(a_shape, b_shape, strict=True)]))
