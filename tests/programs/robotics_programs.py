"""Programs of robotics, tracking and geometry."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(6)


@program("gymnasium", 1)
def gymnasium_pendulum() -> Made:
    from gymnasium.envs.classic_control.pendulum import PendulumEnv

    def f(p):
        env = PendulumEnv()
        env.reset(seed=0)
        env.state = p[:2]
        total = 0.0
        for _ in range(5):
            _, r, *_ = env.step(p[2:])
            total = total + r
        return total

    return f, np.array([0.3, 0.2, 0.4])


@program("gymnasium", 1)
def gymnasium_acrobot() -> Made:
    from gymnasium.envs.classic_control.acrobot import AcrobotEnv, rk4

    env = AcrobotEnv()
    env.reset(seed=0)
    return lambda p: np.sum(rk4(env._dsdt, p, [0, 0.2])[:4]), np.array([0.1, 0.2, 0.3, -0.1, 1.0])


@program("vector", 1)
def vector_invariant_mass() -> Made:
    import vector

    def f(p):
        one, other = vector.obj(px=p[0], py=p[1], pz=0.3, E=p[2]), vector.obj(px=0.1, py=0.4, pz=0.2, E=2.0)
        return (one + other).mass

    return f, np.array([0.5, 0.2, 3.0])


@program("vector", 1)
def vector_boost() -> Made:
    import vector

    return (
        lambda p: (
            vector.obj(px=0.5, py=0.2, pz=0.3, E=3.0).boost(vector.obj(x=p[0], y=p[1], z=p[2])).px
            + vector.obj(pt=p[0], phi=p[1], eta=p[2], mass=0.1).energy
        ),
        np.array([0.3, 0.2, 0.1]),
    )


@program("rmsd")
def rmsd_kabsch() -> Made:
    import rmsd

    Q = RNG.random((4, 3))
    return lambda p: rmsd.kabsch_rmsd(p.reshape(4, 3), Q) + rmsd.rmsd(p.reshape(4, 3), Q), RNG.random(12)


@program("rmsd", 1)
def rmsd_quaternion() -> Made:
    import rmsd

    Q = RNG.random((4, 3))
    return lambda p: rmsd.quaternion_rmsd(p.reshape(4, 3), Q), RNG.random(12)


@program("modern_robotics", 1)
def modern_robotics_kinematics() -> Made:
    import modern_robotics as mr

    M = np.array([[-1, 0, 0, 0], [0, 1, 0, 6], [0, 0, -1, 2], [0, 0, 0, 1.0]])
    S = np.array([[0, 0, 1, 4, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, -1, -6, 0, -0.1]]).T
    return lambda p: np.sum(mr.FKinSpace(M, S, p)[:3, 3]), np.array([0.5, 3.0, 0.7])


@program("modern_robotics", 1)
def modern_robotics_dynamics() -> Made:
    import modern_robotics as mr

    M01 = np.eye(4)
    M01[2, 3] = 0.089159
    M12 = np.array([[0, 0, 1, 0.28], [0, 1, 0, 0.13585], [-1, 0, 0, 0], [0, 0, 0, 1.0]])
    M23 = np.eye(4)
    M23[1:3, 3] = -0.1197, 0.395
    G = np.array([np.diag([0.010267, 0.010267, 0.00666, 3.7, 3.7, 3.7])] * 2)
    S = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, -0.089, 0, 0]]).T * 1.0
    return lambda p: np.sum(
        mr.InverseDynamics(p[:2], p[2:], np.array([2.0, 1.5]), np.array([0, 0, -9.8]), np.ones(6), [M01, M12, M23], G, S)
    ), np.array([0.1, 0.2, 0.3, 0.1])


@program("modern_robotics", 1)
def modern_robotics_se3() -> Made:
    import modern_robotics as mr

    return (
        lambda p: np.sum(mr.MatrixExp6(mr.VecTose3(p))[:3]) + np.sum(mr.MatrixLog3(mr.MatrixExp3(mr.VecToso3(p[:3])))[0]),
        np.array([0.1, 0.2, 0.3, 0.1, 0.4, 0.5]),
    )


@program("ikpy", 1)
def ikpy_geometry() -> Made:
    from ikpy.utils.geometry import axis_rotation_matrix, rpy_matrix

    return lambda p: np.sum(rpy_matrix(*p)[0]) + np.sum(axis_rotation_matrix([0, 1.0, 0], p[0])[0]), np.array([0.3, 0.4, 0.5])


@program("geomdl", 1)
def geomdl_curve() -> Made:
    from geomdl import BSpline

    def f(p):
        c = BSpline.Curve()
        c.degree = 2
        c.ctrlpts = [list(row) for row in p.reshape(4, 2)]
        c.knotvector = [0, 0, 0, 0.5, 1, 1, 1]
        return sum(c.evaluate_single(0.3))

    return f, RNG.random(8)


@program("geomdl", 1)
def geomdl_linalg() -> Made:
    from geomdl import linalg

    return (
        lambda p: (
            linalg.vector_magnitude(p[:3])
            + linalg.vector_dot(p[:3], p[3:])
            + linalg.point_distance(list(p[:3]), list(p[3:]))
            + linalg.vector_angle_between(p[:3], p[3:]) * 0.01
        ),
        RNG.random(6),
    )


@program("vg")
def vg_vectors() -> Made:
    import vg

    return (
        lambda p: (
            vg.angle(p[:3], p[3:]) * 1e-2
            + vg.magnitude(p[:3])
            + np.sum(vg.normalize(p[:3]))
            + np.sum(vg.project(p[:3], onto=p[3:]))
        ),
        RNG.random(6),
    )


@program("vg")
def vg_rotate() -> Made:
    import vg

    return (
        lambda p: (
            np.sum(vg.rotate(p, vg.basis.z, 30.0) * np.arange(1, 4)) + vg.signed_angle(p, vg.basis.x, look=vg.basis.z) * 0.01
        ),
        RNG.random(3),
    )


@program("compas", 1)
def compas_geometry() -> Made:
    from compas.geometry import angle_vectors, cross_vectors, normalize_vector

    return lambda p: sum(cross_vectors(p[:3], p[3:])) + sum(normalize_vector(p[:3])) + angle_vectors(p[:3], p[3:]), RNG.random(
        6
    )


@program("compas", 1)
def compas_transform() -> Made:
    from compas.geometry import area_polygon, matrix_from_axis_and_angle

    return (
        lambda p: (
            sum(sum(r) for r in matrix_from_axis_and_angle([0.3, 0.4, 0.5], p[0]))
            + area_polygon([[0, 0, 0], [p[1], 0, 0], [1, p[2], 0.2]])
        ),
        np.array([0.7, 1.1, 0.9]),
    )


@program("filterpy", 1)
def filterpy_unscented() -> Made:
    from filterpy.kalman import MerweScaledSigmaPoints

    s = MerweScaledSigmaPoints(2, 0.5, 2.0, 1.0)
    return lambda p: np.sum(s.sigma_points(p, np.eye(2))[1:3] ** 2), np.array([0.3, 0.5])


@program("filterpy", 1)
def filterpy_ukf() -> Made:
    from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter

    def f(p):
        s = MerweScaledSigmaPoints(2, 0.5, 2.0, 1.0)
        k = UnscentedKalmanFilter(2, 1, 1.0, lambda x: x[:1], lambda x, dt: np.array([[1.0, 1.0], [0, 1.0]]) @ x, s)
        k.Q = np.eye(2) * p[0]
        k.R = np.eye(1) * p[1]
        for z in (1.0, 2.1):
            k.predict()
            k.update(np.array([z]))
        return np.sum(k.x)

    return f, np.array([0.3, 0.5])


@program("filterpy")
def filterpy_ekf() -> Made:
    from filterpy.kalman import ExtendedKalmanFilter

    def f(p):
        k = ExtendedKalmanFilter(2, 1)
        k.x = p.reshape(2, 1)
        k.F = np.array([[1.0, 1.0], [0.0, 1.0]])
        for z in (1.0, 2.1):
            k.predict()
            k.update(np.array([[z]]), lambda x: np.array([[1.0, 0.0]]), lambda x: x[:1])
        return np.sum(k.x)

    return f, np.array([0.3, 0.5])


@program("filterpy", 1)
def filterpy_information() -> Made:
    from filterpy.common import Q_discrete_white_noise

    return lambda p: np.sum(Q_discrete_white_noise(2, dt=p[0], var=p[1])), np.array([0.3, 0.5])


@program("filterpy", 1)
def filterpy_stats() -> Made:
    from filterpy.stats import gaussian, mahalanobis, mul

    return (
        lambda p: gaussian(p[0], 0.2, p[1]) + mul(p[0], p[1], 0.3, 0.4)[0] + mahalanobis(p, np.zeros(2), np.eye(2)),
        np.array([0.3, 0.5]),
    )


@program("filterpy", 1)
def filterpy_smoother() -> Made:
    from filterpy.kalman import KalmanFilter

    def f(p):
        k = KalmanFilter(2, 1)
        k.F = np.array([[1.0, 1.0], [0, 1.0]])
        k.H = np.array([[1.0, 0]])
        k.Q = np.eye(2) * p[0]
        k.R = k.R * p[1]
        mu, cov, _, _ = k.batch_filter([1.0, 2.1, 2.9])
        return np.sum(k.rts_smoother(mu, cov)[0])

    return f, np.array([0.3, 0.5])


@program("filterpy", 1)
def filterpy_square_root() -> Made:
    from filterpy.kalman import FadingKalmanFilter

    def f(p):
        k = FadingKalmanFilter(p[0], 2, 1)
        k.F = np.array([[1.0, 1.0], [0, 1.0]])
        k.H = np.array([[1.0, 0]])
        for z in (1.0, 2.1):
            k.predict()
            k.update(z)
        return np.sum(k.x)

    return f, np.array([1.1])
