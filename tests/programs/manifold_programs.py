"""Programs of optimal transport, manifolds and rearrangement."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(10)


@program("ot")
def pot_unbalanced() -> Made:
    import ot

    a = np.ones(4) / 4
    return lambda m: np.sum(
        ot.unbalanced.sinkhorn_unbalanced(a, a, m.reshape(4, 4), 0.5, 1.0, numItermax=20, stopThr=0) * m.reshape(4, 4)
    ), RNG.random(16)


@program("ot")
def pot_sliced() -> Made:
    import ot

    X = RNG.random((5, 2))
    return lambda x: ot.sliced_wasserstein_distance(x.reshape(5, 2), X, n_projections=5, seed=0), RNG.random(10)


@program("ot")
def pot_wasserstein_1d() -> Made:
    import ot

    return lambda x: ot.wasserstein_1d(x, np.array([0.1, 0.5, 0.2]), p=2), RNG.random(3)


@program("ot")
def pot_gaussian() -> Made:
    import ot

    return lambda x: ot.gaussian.bures_wasserstein_distance(x, np.zeros(2), np.eye(2) + np.outer(x, x), np.eye(2)), RNG.random(
        2
    )


@program("ot", 1)
def pot_log_sinkhorn() -> Made:
    import ot

    a = np.ones(4) / 4
    return lambda m: ot.sinkhorn2(
        a, a, m.reshape(4, 4), 0.5, method="sinkhorn_log", numItermax=20, stopThr=0, warn=False
    ), RNG.random(16)


@program("ot")
def pot_barycenter() -> Made:
    import ot

    M = (np.arange(4.0)[:, None] - np.arange(4)) ** 2
    return lambda p: ot.bregman.barycenter(
        np.stack([np.exp(p) / np.sum(np.exp(p)), np.ones(4) / 4], 1), M, 1.0, numItermax=10, stopThr=0, warn=False
    )[0], RNG.random(4)


@program("ot")
def pot_unbalanced_gw() -> Made:
    C1, C2 = RNG.random((3, 3)), RNG.random((3, 3))
    from ot.gromov import gwloss, init_matrix

    return lambda t: gwloss(*init_matrix(C1, C2, np.ones(3) / 3, np.ones(3) / 3), t.reshape(3, 3)), RNG.random(9)


@program("pymanopt", 1)
def pymanopt_manifolds() -> Made:
    import pymanopt

    s = pymanopt.manifolds.Stiefel(3, 2)
    q = np.linalg.qr(RNG.random((3, 2)))[0]
    return lambda x: np.sum(s.projection(q, x.reshape(3, 2)) ** 2) + np.sum(s.retraction(q, x.reshape(3, 2))[0]), RNG.random(6)


@program("pymanopt", 1)
def pymanopt_grassmann() -> Made:
    import pymanopt

    g = pymanopt.manifolds.Grassmann(3, 2)
    q = np.linalg.qr(RNG.random((3, 2)))[0]
    return lambda x: g.dist(q, np.linalg.qr(x.reshape(3, 2))[0]) + np.sum(g.exp(q, x.reshape(3, 2))[0]), RNG.random(6)


@program("pymanopt", 1)
def pymanopt_rotations() -> Made:
    import pymanopt

    m = pymanopt.manifolds.SpecialOrthogonalGroup(3)
    return (
        lambda x: (
            np.sum(m.exp(np.eye(3), x.reshape(3, 3) - x.reshape(3, 3).T)[0])
            + np.sum(m.projection(np.eye(3), x.reshape(3, 3))[0])
        ),
        RNG.random(9),
    )


@program("pymanopt")
def pymanopt_oblique() -> Made:
    import pymanopt

    m = pymanopt.manifolds.Oblique(3, 2)
    x0 = np.eye(3)[:, :2]
    return lambda x: np.sum(m.exp(x0, x.reshape(3, 2))[0]) + np.sum(m.projection(x0, x.reshape(3, 2))), RNG.random(6)


@program("pymanopt", 1)
def pymanopt_fixed_rank() -> Made:
    import pymanopt

    m = pymanopt.manifolds.SymmetricPositiveDefinite(2)
    return (
        lambda x: (
            np.sum(m.exp(np.eye(2), np.outer(x, x)))
            + m.dist(np.eye(2), np.eye(2) + np.outer(x, x))
            + np.sum(m.retraction(np.eye(2), np.outer(x, x)))
        ),
        RNG.random(2),
    )


@program("einops")
def einops_more() -> Made:
    import einops

    return (
        lambda a: (
            np.sum(einops.repeat(a, "a -> a b", b=3) ** 2)
            + np.sum(einops.einsum(a, a, "i, j -> i j"))
            + einops.reduce(a**2, "(a b) -> a", "mean", b=3)[1]
        ),
        RNG.random(6),
    )


@program("einops")
def einops_pack() -> Made:
    import einops

    return (
        lambda a: (
            np.sum(einops.pack([a.reshape(2, 3), a.reshape(3, 2).T], "* c")[0][3] ** 2)
            + einops.parse_shape(a.reshape(2, 3), "a b")["a"]
            + np.sum(einops.rearrange([a, a], "a b -> (a b)") ** 3)
        ),
        RNG.random(6),
    )
