"""Samples of `scipy.spatial.transform`."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from tests.scipy.samples.sample import Sample, use

rng = np.random.default_rng(0)
V, P, Q = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 4))
M = Rotation.from_quat(Q).as_matrix()
TIMES, AT = np.array([0.0, 1.0, 2.5]), np.array([0.3, 1.7])

SAMPLES: dict[str, Sample | list[Sample]] = {
    "Rotation": [
        use(lambda kind, q: kind.from_quat(q).as_quat(), Q),
        use(lambda kind, m: kind.from_matrix(m).as_quat(), M),
        use(lambda kind, v: kind.from_rotvec(v).as_matrix(), V),
        use(lambda kind, v: kind.from_rotvec(v).as_rotvec(), V),
        use(lambda kind, p: kind.from_mrp(p).as_mrp(), V),
        use(lambda kind, a: kind.from_euler("xyz", a).as_quat(), V),
        use(lambda kind, a: kind.from_davenport(np.eye(3), "intrinsic", a).as_quat(), V),
        use(lambda kind, q: kind.from_quat(q).as_euler("ZXZ"), Q),
        use(lambda kind, q: kind.from_quat(q).as_davenport(np.eye(3), "extrinsic"), Q),
        use(lambda kind, v, p: kind.from_rotvec(v).apply(p), V, P),
        use(lambda kind, v, q: (kind.from_rotvec(v) * kind.from_quat(q).inv()).as_quat(), V, Q),
        use(lambda kind, v: (kind.from_rotvec(v) ** 2).as_quat(), V),
        use(lambda kind, v: kind.from_rotvec(v).magnitude(), V),
        use(lambda kind, v: kind.from_rotvec(v / 3).mean().as_matrix(), V),
        use(lambda kind, a, b: kind.align_vectors(a, b)[0].as_matrix(), V, P),
        use(lambda kind, v: kind.concatenate([kind.from_rotvec(v), kind.identity()])[:2].as_quat(), V),
    ],
    "Rotation.reduce": use(lambda kind, v: kind.from_rotvec(v).reduce(kind.create_group("C2")).as_quat(), V),
    "Slerp": use(lambda kind, v, at: kind(TIMES, _rotations(v))(at).as_quat(), V, AT),
    "RotationSpline": use(lambda kind, v: kind(TIMES, _rotations(v / 2))(AT).as_matrix(), V),
    "RigidTransform": use(lambda kind, v: kind.from_translation(v).as_matrix(), V),
}


def _rotations(v: np.ndarray) -> object:
    from functad.scipy import spatial

    return spatial.transform.Rotation.from_rotvec(v)
