"""`functad.scipy.spatial.transform`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, RotationSpline, Slerp

import functad
from functad.errors import UnsupportedError
from functad.scipy import spatial
from functad.scipy.rotations.quaternions import LARGEST, NEAREST
from functad.testing import check_grads, check_primitive

scipys = SimpleNamespace(Rotation=Rotation, Slerp=Slerp, RotationSpline=RotationSpline)
COMPILED = type(vars(scipys.Rotation)["apply"]) is not FunctionType
rng = np.random.default_rng(0)
V, PTS, Q = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 4))
M = scipys.Rotation.from_quat(Q).as_matrix()
FRAME = scipys.Rotation.from_rotvec([0.1, 0.2, 0.3]).apply(np.eye(3)[[2, 0, 1]])
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0])
TIMES, AT = np.array([0.0, 1.0, 2.5, 4.0]), np.array([0.1, 0.3, 1.7, 2.4, 3.9])
FIXED = scipys.Rotation.from_quat(Q[::-1])

Case = tuple[Callable[..., Any], tuple[Any, ...]]

CALLS: dict[str, Case] = {
    "from_quat": (lambda m, q: m.Rotation.from_quat(q).as_quat(), (Q,)),
    "scalar first": (
        lambda m, q: m.Rotation.from_quat(q, scalar_first=True).as_quat(canonical=True, scalar_first=True),
        (Q[0],),
    ),
    "from_matrix": (lambda m, x: m.Rotation.from_matrix(x).as_quat(), (M,)),
    "from_matrix, one": (lambda m, x: m.Rotation.from_matrix(x).as_matrix(), (M[1],)),
    "matrix that is no rotation": (lambda m, x: m.Rotation.from_matrix(x).as_quat(), (M + 0.1 * rng.normal(size=M.shape),)),
    "from_rotvec": (lambda m, v: m.Rotation.from_rotvec(v).as_matrix(), (V,)),
    "no rotation": (lambda m, v: m.Rotation.from_rotvec(v).as_quat(), (np.zeros(3),)),
    "no rotation, matrix": (lambda m, v: m.Rotation.from_rotvec(v).as_matrix(), (np.zeros((2, 3)),)),
    "no rotation, vector": (lambda m, v: m.Rotation.from_rotvec(v).as_rotvec(), (np.zeros(3),)),
    "small rotation": (lambda m, v: m.Rotation.from_rotvec(v, degrees=True).as_rotvec(), (1e-3 * V,)),
    "as_rotvec": (lambda m, v: m.Rotation.from_rotvec(v, degrees=True).as_rotvec(degrees=True), (40 * V,)),
    "mrp": (lambda m, p: m.Rotation.from_mrp(p).as_mrp(), (V,)),
    "magnitude": (lambda m, v: m.Rotation.from_rotvec(v).magnitude(), (V,)),
    "apply": (lambda m, v, p: m.Rotation.from_rotvec(v).apply(p), (V, PTS)),
    "apply, back": (lambda m, v, p: m.Rotation.from_rotvec(v).apply(p, inverse=True), (V[0], PTS)),
    "apply, plain rotation": (lambda m, p: m.Rotation.from_rotvec(V).apply(p), (PTS,)),
    "product": (lambda m, v, q: (m.Rotation.from_rotvec(v) * m.Rotation.from_quat(q)).as_matrix(), (V, Q)),
    "product, plain factors": (
        lambda m, v: (m.Rotation.from_rotvec(PTS) * m.Rotation.from_rotvec(v) * FIXED).as_quat(),
        (V,),
    ),
    "power": (lambda m, v, n: (m.Rotation.from_rotvec(v) ** n).as_quat(), (V, 0.75)),
    "power 2": (lambda m, q: (m.Rotation.from_quat(q) ** 2).as_quat(), (Q,)),
    "power -1": (lambda m, q, n: (m.Rotation.from_quat(q) ** n).as_quat(), (Q[:2], -1.0)),
    "inv": (lambda m, v: m.Rotation.from_rotvec(v).inv().as_quat(), (V,)),
    "mean": (lambda m, v, w: m.Rotation.from_rotvec(v).mean(w).as_matrix(), (V * 0.4, WEIGHTS)),
    "mean of two": (lambda m, v: m.Rotation.from_rotvec(v).mean().as_matrix(), (V[:2] * 0.4,)),
    "align_vectors": (lambda m, a, b: m.Rotation.align_vectors(a, b)[0].as_matrix(), (PTS, V)),
    "align_vectors, distance": (lambda m, a, b, w: m.Rotation.align_vectors(a, b, w)[1], (PTS, V, WEIGHTS)),
    "align_vectors, two": (lambda m, a, b: m.Rotation.align_vectors(a, b)[0].as_quat(), (PTS[:2], V[:2])),
    "align_vectors, one": (lambda m, a, b: m.Rotation.align_vectors(a, b)[0].as_quat(), (PTS[:1], V[:1])),
    "from_davenport": (
        lambda m, a, x: m.Rotation.from_davenport(m.Rotation.from_rotvec(x).apply(np.eye(3)), "extrinsic", a).as_quat(),
        (V, V[0]),
    ),
    "from_davenport, one": (lambda m, a: m.Rotation.from_davenport([0, 0, 1], "i", a, degrees=True).as_quat(), (30.0,)),
    "as_davenport": (lambda m, q: m.Rotation.from_quat(q).as_davenport(FRAME, "intrinsic"), (Q,)),
    "as_davenport, axes": (
        lambda m, q, x: m.Rotation.from_quat(q).as_davenport(m.Rotation.from_rotvec(x).apply(-FRAME), "extrinsic"),
        (Q, V[0]),
    ),
    "as_davenport, other way": (
        lambda m, q: m.Rotation.from_quat(q).as_davenport(FRAME[::-1] * [[1], [-1], [1]], "extrinsic", degrees=True),
        (Q,),
    ),
    "items": (lambda m, v: m.Rotation.from_rotvec(v)[1:3].as_matrix() + m.Rotation.from_rotvec(v)[0].as_matrix(), (V,)),
    "iteration": (lambda m, v: np.stack([r.as_rotvec() for r in m.Rotation.from_rotvec(v)]), (V,)),
    "concatenate": (
        lambda m, v: m.Rotation.concatenate([m.Rotation.from_rotvec(v), m.Rotation.from_rotvec(PTS)]).as_matrix(),
        (V,),
    ),
    "Slerp": (lambda m, t, v, at: m.Slerp(t, m.Rotation.from_rotvec(v))(at).as_matrix(), (TIMES, V, AT)),
    "Slerp, one time": (lambda m, at: m.Slerp(TIMES, m.Rotation.from_rotvec(V))(at).as_quat(), (1.2,)),
    "RotationSpline": (lambda m, t, v: m.RotationSpline(t, m.Rotation.from_rotvec(v))(AT).as_matrix(), (TIMES, V / 2)),
    "RotationSpline, point": (lambda m, at: m.RotationSpline(TIMES, m.Rotation.from_rotvec(V / 2))(at).as_matrix(), (AT,)),
    "RotationSpline, rate": (lambda m, v, at: m.RotationSpline(TIMES, m.Rotation.from_rotvec(v))(at, 1), (V / 2, AT)),
    **{
        f"as_euler {seq}": (lambda m, q, seq=seq: m.Rotation.from_quat(q).as_euler(seq), (Q,))
        for seq in ("xyz", "XYZ", "zxz", "ZYX", "YZY")
    },
    **{f"from_euler {seq}": (lambda m, a, seq=seq: m.Rotation.from_euler(seq, a).as_quat(), (V,)) for seq in ("xyz", "ZXZ")},
    "from_euler z": (lambda m, a: m.Rotation.from_euler("z", a, degrees=True).as_quat(), (33.0,)),
    "from_euler z, many": (lambda m, a: m.Rotation.from_euler("z", a).as_quat(), (np.array([[0.3], [2.0]]),)),
    "from_euler ZX": (lambda m, a: m.Rotation.from_euler("ZX", a).as_euler("XYZ", degrees=True), (np.array([0.3, 0.4]),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name: str) -> None:
    call, args = CALLS[name]
    expected = call(scipys, *args)
    plain = call(spatial.transform, *args)
    assert type(plain) is type(expected)
    np.testing.assert_array_equal(plain, expected)
    found, _ = functad.vjp(lambda *a: call(spatial.transform, *a), *args)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    if name != "power" or not COMPILED:  # which takes the exponent in single precision
        check_grads(lambda *a: call(spatial.transform, *a), args, order=1 if "Spline" in name else 2)


def test_vmap() -> None:
    for name in ("from_rotvec", "no rotation", "mrp", "apply", "product", "mean", "align_vectors", "from_euler xyz"):
        call, args = CALLS[name]
        several = [np.stack([a, 1.1 * a, 1.3 * a]) for a in args]
        for f in (
            lambda *a, call=call: call(spatial.transform, *a),
            functad.grad(lambda *a, call=call: np.sum(call(spatial.transform, *a) ** 3)),
        ):
            found = functad.vmap(f)(*several)
            for i in range(3):
                np.testing.assert_allclose(found[i], f(*[a[i] for a in several]), rtol=1e-9, atol=1e-11)
    at = np.stack([AT, 0.9 * AT])
    slerp = functad.vmap(lambda at: CALLS["Slerp"][0](spatial.transform, TIMES, V, at))(at)
    np.testing.assert_allclose(slerp[1], CALLS["Slerp"][0](scipys, TIMES, V, at[1]), rtol=1e-10, atol=1e-12)


def test_rotations_outside_of_a_trace_are_scipys() -> None:
    rotation = spatial.transform.Rotation
    assert type(rotation.from_rotvec(V)) is type(rotation.identity()) is scipys.Rotation
    assert rotation == scipys.Rotation
    assert isinstance(rotation.from_rotvec(V), rotation)


def test_rotations_of_tensors_pass_for_scipys() -> None:
    def f(v: Any) -> Any:
        for r in (spatial.transform.Rotation.from_rotvec(v), spatial.transform.Rotation.from_rotvec(V)):
            assert isinstance(r, scipys.Rotation)
            assert isinstance(r, spatial.transform.Rotation)
            assert len(r) == 4
            assert not r.single
            assert r.approx_equal(spatial.transform.Rotation.from_rotvec(V)).all()
        return np.sum(r.apply(v))

    functad.grad(f)(V)


def test_rotations_made_before() -> None:
    if not COMPILED:
        check_grads(FIXED.apply, (PTS,), order=1)
        check_grads(lambda n: (FIXED**n).as_quat(), (0.3,), order=1)
        check_grads(lambda v: (FIXED * spatial.transform.Rotation.from_rotvec(v)).as_quat(), (V,), order=1)


def test_errors_are_scipys() -> None:
    rotation = spatial.transform.Rotation
    for call, args in (
        (lambda q: rotation.from_quat(q).as_quat(), np.zeros(4)),
        (lambda a: rotation.from_euler("xx", a).as_quat(), np.zeros(2)),
        (lambda at: spatial.transform.Slerp(TIMES, rotation.from_rotvec(V))(at).as_quat(), 4.5),
    ):
        with pytest.raises(ValueError, match=r"(norm|axes|determinant|range)"):
            functad.vjp(call, args)


def test_refused() -> None:
    rotation = spatial.transform.Rotation
    for call in (
        lambda v: rotation.from_rotvec(v).reduce(),
        lambda v: rotation.align_vectors(v, V, return_sensitivity=True)[2],
        lambda v: rotation.align_vectors(v, V, [np.inf, 1, 1, 1])[0].as_quat(),
    ):
        with pytest.raises(UnsupportedError, match="of a rotation of Tensors"):
            functad.vjp(call, PTS)


@pytest.mark.parametrize("entry", [LARGEST, NEAREST], ids=lambda entry: entry.name)
def test_primitives(entry: Any) -> None:
    check_primitive(entry)
