"""The functions of `functad.compat.tf`: each gives NumPy's value, and derivatives that agree with differences."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import functad
from functad.compat import tf
from functad.compat.tensors import TABLE

A = np.array([[0.3, -1.2, 2.1], [1.7, 0.4, -0.6]])
B = np.array([[1.1, 0.7, -0.9], [-0.3, 2.2, 0.5]])
P = np.array([[0.3, 0.5, 0.2], [0.7, 0.2, 0.4]])
Q = np.array([[2.0, 0.3, -0.4], [0.3, 3.0, 0.1], [-0.4, 0.1, 1.5]])
V = np.array([0.4, -1.1, 0.8])
Z = A + 1j * B


def lse(x, axis):
    return np.log(np.sum(np.exp(x), axis=axis))


def entropy(p, x):
    return -np.sum(p * (x - lse(x, -1)[..., None]), axis=-1)


# A row: the name, its arguments, its keywords, and the value. Arrays of floats among the arguments are differentiated.
ROWS = [
    ("abs", (A,), {}, np.abs(A)),
    ("abs", (Z,), {}, np.abs(Z)),
    ("acos", (P,), {}, np.arccos(P)),
    ("acosh", (P + 1,), {}, np.arccosh(P + 1)),
    ("asin", (P,), {}, np.arcsin(P)),
    ("asinh", (A,), {}, np.arcsinh(A)),
    ("atan", (A,), {}, np.arctan(A)),
    ("atanh", (P,), {}, np.arctanh(P)),
    ("angle", (Z,), {}, np.angle(Z)),
    ("ceil", (A,), {}, np.ceil(A)),
    ("conj", (Z,), {}, np.conj(Z)),
    ("cos", (A,), {}, np.cos(A)),
    ("cosh", (A,), {}, np.cosh(A)),
    ("exp", (A,), {}, np.exp(A)),
    ("expm1", (A,), {}, np.expm1(A)),
    ("floor", (A,), {}, np.floor(A)),
    ("imag", (Z,), {}, B),
    ("is_finite", (A,), {}, np.isfinite(A)),
    ("is_inf", (A,), {}, np.isinf(A)),
    ("is_nan", (A,), {}, np.isnan(A)),
    ("log", (P,), {}, np.log(P)),
    ("log1p", (P,), {}, np.log1p(P)),
    ("logical_not", (np.array([True, False]),), {}, np.array([False, True])),
    ("negative", (A,), {}, -A),
    ("real", (Z,), {}, A),
    ("reciprocal", (A,), {}, 1 / A),
    ("round", (np.array([0.5, 1.5, 2.5]),), {}, np.array([0.0, 2.0, 2.0])),
    ("rsqrt", (P,), {}, 1 / np.sqrt(P)),
    ("sign", (A,), {}, np.sign(A)),
    ("sin", (A,), {}, np.sin(A)),
    ("sinh", (A,), {}, np.sinh(A)),
    ("sqrt", (P,), {}, np.sqrt(P)),
    ("square", (A,), {}, A * A),
    ("tan", (A,), {}, np.tan(A)),
    ("tanh", (A,), {}, np.tanh(A)),
    ("add", (A, B), {}, A + B),
    ("add_n", ([A, B, A],), {}, A + B + A),
    ("atan2", (A, B), {}, np.arctan2(A, B)),
    ("divide", (A, B), {}, A / B),
    ("equal", (A, A), {}, A == A),
    ("floordiv", (A, B), {}, A // B),
    ("greater", (A, B), {}, A > B),
    ("greater_equal", (A, B), {}, A >= B),
    ("less", (A, B), {}, A < B),
    ("less_equal", (A, B), {}, A <= B),
    ("logical_and", (A > 0, B > 0), {}, (A > 0) & (B > 0)),
    ("logical_or", (A > 0, B > 0), {}, (A > 0) | (B > 0)),
    ("math.mod", (A, B), {}, A % B),
    ("math.squared_difference", (A, B), {}, (A - B) ** 2),
    ("multiply", (A, B), {}, A * B),
    ("not_equal", (A, B), {}, A != B),
    ("pow", (P, B), {}, P**B),
    ("subtract", (A, B), {}, A - B),
    ("maximum", (A, B), {}, np.maximum(A, B)),
    ("minimum", (A, B), {}, np.minimum(A, B)),
    ("clip_by_value", (A, -1.0, 1.0), {}, np.clip(A, -1, 1)),
    ("math.divide_no_nan", (A, np.where(B < 0, 0, B)), {}, np.where(B < 0, 0, A / B)),
    ("complex", (A, B), {}, Z),
    ("where", (A > 0, A, B), {}, np.where(A > 0, A, B)),
    ("where", (A > 0,), {}, np.argwhere(A > 0)),
    ("identity", (A,), {}, A),
    ("cast", (A, tf.float64), {}, A),
    ("cast", (A, tf.int32), {}, A.astype(np.int32)),
    ("constant", (A,), {"shape": [3, 2]}, A.reshape(3, 2)),
    ("convert_to_tensor", (A,), {}, A),
    ("stop_gradient", (A,), {}, A),
    ("zeros", ([2, 3],), {}, np.zeros((2, 3), np.float32)),
    ("ones", (2,), {"dtype": tf.float64}, np.ones(2)),
    ("zeros_like", (A,), {}, np.zeros((2, 3))),
    ("ones_like", (A,), {}, np.ones((2, 3))),
    ("fill", ([2, 2], 7), {}, np.full((2, 2), 7, np.int32)),
    ("range", (3,), {}, np.arange(3, dtype=np.int32)),
    ("range", (1.0, 2.0, 0.25), {}, np.arange(1, 2, 0.25, np.float32)),
    ("range", (5, 1, -2), {}, np.array([5, 3], np.int32)),
    ("linspace", (0.0, 1.0, 5), {}, np.linspace(0, 1, 5, dtype=np.float32)),
    ("linspace", (V, V * 2, 3), {}, np.linspace(V, V * 2, 3)),
    ("eye", (2,), {}, np.eye(2, dtype=np.float32)),
    ("eye", (2, 3), {"batch_shape": [2]}, np.stack([np.eye(2, 3, dtype=np.float32)] * 2)),
    ("one_hot", ([0, 2, -1], 3), {}, np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32)),
    ("one_hot", ([0, 1], 2), {"axis": 0, "on_value": 5.0}, np.array([[5, 0], [0, 5]], np.float32)),
    ("meshgrid", ([1, 2], [3, 4]), {}, np.meshgrid(*np.int32([[1, 2], [3, 4]]))),
    ("reduce_all", (A > -9,), {}, np.True_),
    ("reduce_any", (A > 9,), {"axis": 0}, np.zeros(3, bool)),
    ("reduce_max", (A,), {"axis": 1}, A.max(1)),
    ("reduce_mean", (A,), {"axis": [0, 1], "keepdims": True}, A.mean(keepdims=True)),
    ("reduce_min", (A,), {}, A.min()),
    ("reduce_prod", (A,), {"axis": -1}, A.prod(-1)),
    ("reduce_sum", (A,), {"axis": 0}, A.sum(0)),
    ("reduce_logsumexp", (A,), {"axis": 1}, lse(A, 1)),
    ("reduce_logsumexp", (A,), {"keepdims": True}, lse(A, None).reshape(1, 1)),
    ("math.reduce_std", (A,), {"axis": 0}, A.std(0)),
    ("math.reduce_variance", (A,), {"axis": 1}, A.var(1)),
    ("argmax", (A,), {}, A.argmax(0)),
    ("argmax", (A,), {"axis": 1, "output_type": tf.int32}, A.argmax(1).astype(np.int32)),
    ("argmin", (A, 1), {}, A.argmin(1)),
    ("math.count_nonzero", (A,), {"axis": 0}, np.array([2, 2, 2])),
    ("cumsum", (A,), {"axis": 1}, A.cumsum(1)),
    ("cumsum", (V,), {"exclusive": True}, np.array([0, *V.cumsum()[:-1]])),
    ("cumsum", (V,), {"reverse": True}, V[::-1].cumsum()[::-1]),
    ("cumsum", (V,), {"reverse": True, "exclusive": True}, np.array([*V[::-1].cumsum()[-2::-1], 0])),
    ("math.cumprod", (A,), {"axis": 1}, A.cumprod(1)),
    ("sort", (A,), {"direction": "DESCENDING"}, np.sort(A)[:, ::-1]),
    ("argsort", (A,), {}, A.argsort(-1).astype(np.int32)),
    ("argsort", ([1.0, 3.0, 1.0],), {"direction": "DESCENDING"}, np.int32([1, 0, 2])),
    ("math.top_k", (A, 2), {}, [np.sort(A)[:, :0:-1], np.argsort(-A)[:, :2].astype(np.int32)]),
    ("reshape", (A, [3, -1]), {}, A.reshape(3, 2)),
    ("transpose", (A,), {}, A.T),
    ("transpose", (A[None],), {"perm": [0, 2, 1]}, A.T[None]),
    ("concat", ([A, B], 0), {}, np.concatenate([A, B])),
    ("stack", ([A, B],), {"axis": 1}, np.stack([A, B], 1)),
    ("unstack", (A,), {"axis": 1}, list(A.T)),
    ("split", (A, 3), {"axis": 1}, np.split(A, 3, 1)),
    ("split", (V, [1, -1]), {}, [V[:1], V[1:]]),
    ("squeeze", (A[None],), {}, A),
    ("expand_dims", (A, 1), {}, A[:, None]),
    ("tile", (A, [2, 1]), {}, np.tile(A, (2, 1))),
    ("repeat", (V, 2), {}, V.repeat(2)),
    ("pad", (A, [[1, 0], [0, 2]]), {}, np.pad(A, [[1, 0], [0, 2]])),
    ("pad", (A, [[1, 1], [2, 2]], "REFLECT"), {}, np.pad(A, [[1, 1], [2, 2]], "reflect")),
    ("reverse", (A, [1]), {}, A[:, ::-1]),
    ("roll", (A, 1, 0), {}, np.roll(A, 1, 0)),
    ("broadcast_to", (V, [2, 3]), {}, np.broadcast_to(V, (2, 3))),
    ("shape", (A,), {}, np.array([2, 3], np.int32)),
    ("size", (A,), {}, np.int32(6)),
    ("rank", (A,), {}, np.int32(2)),
    ("slice", (A, [0, 1], [-1, 1]), {}, A[:, 1:2]),
    ("gather", (A, [1, 0, 1]), {}, A[[1, 0, 1]]),
    ("gather", (A, [[2], [0]]), {"axis": 1}, A[:, [[2], [0]]]),
    ("gather", (A, [[2, 0], [1, 1]]), {"batch_dims": 1}, np.array([A[0, [2, 0]], A[1, [1, 1]]])),
    ("gather", (A[None] * Q[:, :1, None], [[0], [1], [0]]), {"batch_dims": 1, "axis": 2},
     np.stack([A[:, [i]] * q for i, q in zip([0, 1, 0], Q[:, 0], strict=True)])),
    ("gather_nd", (A, [[0, 1], [1, 2]]), {}, A[[0, 1], [1, 2]]),
    ("gather_nd", (A, [[1]]), {}, A[[1]]),
    ("gather_nd", (A, [[2], [0]]), {"batch_dims": 1}, A[[0, 1], [2, 0]]),
    ("boolean_mask", (A, [True, False, True]), {"axis": 1}, A[:, [0, 2]]),
    ("matmul", (A, B), {"transpose_b": True}, A @ B.T),
    ("matmul", (Z, Z), {"adjoint_a": True}, Z.conj().T @ Z),
    ("linalg.matvec", (A, V), {}, A @ V),
    ("tensordot", (A, B, [[0, 1], [0, 1]]), {}, np.sum(A * B)),
    ("tensordot", (A, Q, 1), {}, A @ Q),
    ("einsum", ("ij,kj->ik", A, B), {}, A @ B.T),
    ("linalg.cholesky", (Q,), {}, np.linalg.cholesky(Q)),
    ("linalg.det", (Q,), {}, np.linalg.det(Q)),
    ("linalg.diag", (V,), {}, np.diag(V)),
    ("linalg.diag_part", (Q,), {}, np.diag(Q)),
    ("linalg.eigh", (Q,), {}, None),
    ("linalg.matrix_transpose", (A,), {}, A.T),
    ("linalg.trace", (Q,), {}, 6.5),
    ("linalg.inv", (Q,), {}, np.linalg.inv(Q)),
    ("linalg.solve", (Q, A.T), {}, np.linalg.solve(Q, A.T)),
    ("linalg.band_part", (Q, 0, -1), {}, np.triu(Q)),
    ("linalg.band_part", (Q, 1, 0), {}, np.tril(Q) - np.tril(Q, -2)),
    ("linalg.svd", (A,), {"compute_uv": False}, np.linalg.svd(A, compute_uv=False)),
    ("linalg.svd", (A,), {}, None),
    ("linalg.qr", (Q,), {}, list(np.linalg.qr(Q))),
    ("norm", (A,), {}, np.sqrt(np.sum(A * A))),
    ("norm", (A,), {"axis": 1, "ord": 1}, np.abs(A).sum(1)),
    ("norm", (A,), {"axis": [0, 1]}, np.sqrt(np.sum(A * A))),
    ("linalg.global_norm", ([A, V],), {}, np.sqrt(np.sum(A * A) + np.sum(V * V))),
    ("clip_by_global_norm", ([A, V], 1.0), {}, None),
    ("clip_by_norm", (V, 1.0), {}, V / np.linalg.norm(V)),
    ("clip_by_norm", (V, 9.0), {}, V),
    ("math.l2_normalize", (A,), {"axis": 1}, A / np.linalg.norm(A, axis=1, keepdims=True)),
    ("nn.leaky_relu", (A,), {}, np.where(A > 0, A, 0.2 * A)),
    ("nn.softmax_cross_entropy_with_logits", (P, A), {}, entropy(P, A)),
    ("nn.sparse_softmax_cross_entropy_with_logits", ([2, 0], A), {}, lse(A, 1) - A[[0, 1], [2, 0]]),
    ("nn.sigmoid_cross_entropy_with_logits", (P, A), {}, np.log(1 + np.exp(A)) - A * P),
    ("nn.l2_loss", (A,), {}, np.sum(A * A) / 2),
    ("nn.embedding_lookup", (A, [1, 1]), {}, A[[1, 1]]),
    ("keras.activations.linear", (A,), {}, A),
    ("keras.losses.mean_squared_error", (A, B), {}, np.mean((A - B) ** 2, -1)),
    ("keras.losses.mean_absolute_error", (A, B), {}, np.mean(np.abs(A - B), -1)),
    ("keras.losses.sparse_categorical_crossentropy", ([[2], [0]], A), {"from_logits": True}, lse(A, 1) - A[[0, 1], [2, 0]]),
    ("keras.losses.sparse_categorical_crossentropy", ([2, 0], P), {}, -np.log((P / P.sum(1, keepdims=True))[[0, 1], [2, 0]])),
    ("keras.losses.categorical_crossentropy", (P, A), {"from_logits": True}, entropy(P, A)),
    ("keras.losses.binary_crossentropy", (P, P), {}, np.mean(-(P * np.log(P) + (1 - P) * np.log(1 - P)), -1)),
    ("keras.losses.binary_crossentropy", (P, A), {"from_logits": True}, np.mean(np.log(1 + np.exp(A)) - A * P, -1)),
]  # fmt: skip

# Those that are tested by themselves, and those that take or give no Tensors.
ELSEWHERE = {
    *("random", "debugging", "nest", "errors", "dtypes", "autodiff", "initializers", "train", "optimizers"),
    *("keras.initializers", "keras.losses.Loss", "losses"),
    *"""AggregationMethod DType Graph GradientTape IndexedSlices Tensor TensorShape TensorSpec UnconnectedGradients Variable
    as_dtype broadcast_static_shape cond custom_gradient device enable_eager_execution enable_v2_behavior executing_eagerly
    function grad_pass_through gradients hessians is_tensor keras.activations.get name_scope nn.dropout print random_normal
    random_uniform recompute_grad set_random_seed while_loop""".split(),  # noqa: SIM905 (a table reads better)
}
NEEDS_NN = {"relu", "sigmoid", "softmax", "log_softmax", "softplus", "elu", "gelu", "silu", "swish"}  # in test_keras.py


def find(path):
    found = tf
    for name in path.split("."):
        found = getattr(found, name)
    return found


def parts(out):
    return [leaf for part in out for leaf in parts(part)] if isinstance(out, (list, tuple)) else [out]


def test_every_function_has_a_row():
    listed = {id(find(path)) for path, *_ in ROWS}
    beside = Path(__file__).with_name("test_scattering.py").read_text()
    missing = [
        path
        for path, value in TABLE.items()
        if inspect.isfunction(value)
        and id(value) not in listed
        and path.rpartition(".")[2] not in NEEDS_NN
        and path.rpartition(".")[2] not in beside
        and not any(path == name or path.startswith(f"{name}.") for name in ELSEWHERE)
    ]
    assert not missing


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_value(row):
    path, args, kwargs, expected = row
    out = find(path)(*args, **kwargs)
    for got, wanted in zip(parts(out), [None] * len(parts(out)) if expected is None else parts(expected), strict=True):
        assert isinstance(got, (tf.Tensor, list))
        if wanted is not None:
            assert got.dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_decompositions_make_up_the_whole():
    e, v = tf.linalg.eigh(Q)
    np.testing.assert_allclose(((v * e) @ v.mT).numpy(), Q, atol=1e-12)
    s, u, v = tf.linalg.svd(A)
    np.testing.assert_allclose((u @ tf.linalg.diag(s) @ v.mT).numpy(), A, atol=1e-12)
    (a, b), norm = tf.clip_by_global_norm([tf.constant(A), tf.constant(V)], 1.0)
    np.testing.assert_allclose(tf.linalg.global_norm([a, b]).numpy(), 1.0)
    np.testing.assert_allclose((a * norm).numpy(), A)


def is_differentiated(array):
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_gradient_agrees_with_differences(row):
    """The slope along a random direction, of a weighted sum of the results."""
    path, args, kwargs, _ = row
    rng = np.random.default_rng(0)
    flat, structure = functad.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(flat) if is_differentiated(leaf)]
    if not places or path == "round":  # it jumps at these numbers
        return
    directions = [rng.uniform(-1, 1, flat[i].shape) for i in places]
    if path.startswith("linalg") and flat[places[0]] is Q:  # some read one triangle
        directions[0] = directions[0] + directions[0].T
    if path == "math.divide_no_nan":
        directions[1] *= flat[1] != 0  # a jump there
    weights = {}

    def total(leaves):
        args, kwargs = structure.unflatten(leaves)
        sums = []
        for i, out in enumerate(parts(find(path)(*args, **kwargs))):
            if out.dtype.kind in "fc":
                w = weights.setdefault(i, rng.uniform(0.5, 1, out.shape))
                sums.append(np.sum(w * (np.abs(out) if path in ("linalg.eigh", "linalg.svd") else np.real(out))))
        return sum(sums) if sums else None

    tensors = [tf.constant(leaf) if i in places else leaf for i, leaf in enumerate(flat)]
    with tf.GradientTape() as tape:
        tape.watch([tensors[i] for i in places])
        y = total(tensors)
    if y is None:
        return
    found = tape.gradient(y, [tensors[i] for i in places])
    slope = sum(float(np.sum(np.real(g.numpy() * d))) for g, d in zip(found, directions, strict=True) if g is not None)

    def moved(step):
        leaves = list(flat)
        for i, d in zip(places, directions, strict=True):
            leaves[i] = flat[i] + step * d
        return float(total(leaves))

    h = 1e-5
    expected = 0.0 if path == "stop_gradient" else (moved(h) - moved(-h)) / (2 * h)
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_float32_stays_float32(row):
    path, args, kwargs, _ = row
    if path in ("cast", "ones", "math.count_nonzero") or "dtype" in kwargs:
        return
    single = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
    flat, structure = functad.tree_flatten((args, kwargs))
    own = [leaf.astype(single.get(leaf.dtype, leaf.dtype)) if isinstance(leaf, np.ndarray) else leaf for leaf in flat]
    args, kwargs = structure.unflatten(own)
    for out in parts(find(path)(*args, **kwargs)):
        assert out.dtype not in (np.float64, np.complex128)
