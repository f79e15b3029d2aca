"""TensorFlow's matrix products and `tf.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import static
from functad.compat.tensorflow.reductions import axes_of
from functad.compat.tensorflow.tensors import as_tensor, enter_calls, operands, operation
from functad.expressions.spec import shape_of


def _turned(x: Any, transpose: bool, adjoint: bool) -> Any:
    return np.conj(x.mT) if adjoint else x.mT if transpose else x


@operation("matmul linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Any:
    """Return matrix products; each operand may be transposed or conjugated first."""
    a, b = operands(a, b)
    return np.matmul(_turned(a, transpose_a, adjoint_a), _turned(b, transpose_b, adjoint_b))


@operation("linalg.matvec")
def matvec(a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, name: str | None = None) -> Any:
    """Return products of matrices with vectors."""
    a, b = operands(a, b)
    return np.squeeze(np.matmul(_turned(a, transpose_a, adjoint_a), np.expand_dims(b, -1)), -1)


OF_ONE: dict[str, Any] = {
    "linalg.cholesky": np.linalg.cholesky,
    "linalg.det": np.linalg.det,
    "linalg.diag_part": lambda x: np.diagonal(x, axis1=-2, axis2=-1),
    "linalg.eigh": lambda x: tuple(np.linalg.eigh(x)),
    "linalg.matrix_transpose": lambda x: x.mT,
    "linalg.trace": lambda x: np.trace(x, axis1=-2, axis2=-1),
}
"""Functions of one matrix or a batch of matrices."""

enter_calls({path: (function, lambda input, name=None: (as_tensor(input),)) for path, function in OF_ONE.items()})
enter_calls(
    {
        "einsum linalg.einsum": (np.einsum, lambda equation, *inputs, **kwargs: (equation, *operands(*inputs))),
        "linalg.inv": (np.linalg.inv, lambda input, adjoint=False, name=None: (_turned(as_tensor(input), False, adjoint),)),
        "linalg.qr": (
            lambda x, full: tuple(np.linalg.qr(x, mode="complete" if full else "reduced")),
            lambda input, full_matrices=False, name=None: (as_tensor(input), full_matrices),
        ),
        "tensordot linalg.tensordot": (np.tensordot, lambda a, b, axes, name=None: (*operands(a, b), static(axes).tolist())),
    }
)


@operation("linalg.solve")
def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """Return the solutions of linear systems; the right-hand side is a matrix."""
    a, b = operands(matrix, rhs)
    return np.linalg.solve(_turned(a, False, adjoint), b)


@operation("linalg.diag")
def diag(diagonal: Any, name: str | None = None) -> Any:
    """Return matrices with a given diagonal."""
    d = as_tensor(diagonal)
    return np.expand_dims(d, -1) * np.eye(shape_of(d)[-1], dtype=d.dtype)


@operation("linalg.band_part")
def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """Return matrices with zeros outside a band of diagonals; -1 keeps all diagonals on that side."""
    x, lower, upper = as_tensor(input), int(static(num_lower)), int(static(num_upper))
    below = np.subtract.outer(*map(np.arange, shape_of(x)[-2:]))
    inside = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
    return np.where(inside, x, np.zeros_like(x))


@operation("linalg.svd")
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Return `s, u, v`, in TensorFlow's order, with `a = u diag(s) v^H`; only `s` without `compute_uv`."""
    x = as_tensor(tensor)
    if not compute_uv:
        return np.linalg.svd(x, compute_uv=False)
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    return s, u, np.conj(vh.mT)


@operation("norm linalg.norm")
def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Return vector norms, or matrix norms for two axes; without `axis`, the norm of all elements as one vector."""
    x = as_tensor(tensor)
    if axis is None:
        out = np.linalg.norm(np.reshape(x, -1), 2 if ord in ("euclidean", "fro") else ord)
        return np.reshape(out, (1,) * len(shape_of(x))) if keepdims else out
    places = axes_of(axis)
    kind: Any = ord if ord != "euclidean" else "fro" if isinstance(places, tuple) and len(places) == 2 else 2
    return np.linalg.norm(x, kind, axis=places, keepdims=keepdims)


@operation("linalg.global_norm")
def global_norm(t_list: Any, name: str | None = None) -> Any:
    """Return the norm of all elements of a list of Tensors; `None` entries are skipped."""
    return np.sqrt(sum(np.sum(np.square(np.abs(as_tensor(t)))) for t in t_list if t is not None))


@operation("clip_by_global_norm")
def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> Any:
    """Return Tensors scaled so that their global norm is at most `clip_norm`, and the global norm before scaling."""
    whole = global_norm(t_list) if use_norm is None else as_tensor(use_norm)
    (limit,) = operands(whole, clip_norm)[1:]
    scale = limit / np.maximum(whole, limit)
    return [None if t is None else as_tensor(t) * scale for t in t_list], whole


@operation("clip_by_norm")
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Return a Tensor scaled so that its norm is at most `clip_norm`."""
    x, limit = operands(t, clip_norm)
    return x * (limit / np.maximum(norm(x, axis=axes, keepdims=True), limit))


@operation("math.l2_normalize linalg.l2_normalize nn.l2_normalize")
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None) -> Any:
    """Return a Tensor divided by its norm along the given axes."""
    x = as_tensor(x)
    return x / np.sqrt(np.maximum(np.sum(np.square(np.abs(x)), axis=axes_of(axis), keepdims=True), epsilon))
