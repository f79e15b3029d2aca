"""Programs of numerical mathematics and SciPy."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(2)
T = np.linspace(0.1, 2.0, 7)


@program("networkx")
def networkx_pagerank() -> Made:
    import networkx as nx

    graph = nx.cycle_graph(4, create_using=nx.DiGraph)
    graph.add_edge(0, 2)
    from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

    return lambda p: _pagerank_python(graph, alpha=p[0], max_iter=30, tol=1e-3)[2], np.array([0.85])


@program("networkx")
def networkx_google_matrix() -> Made:
    import networkx as nx

    graph = nx.cycle_graph(4, create_using=nx.DiGraph)
    graph.add_edge(0, 2)
    return lambda p: np.linalg.matrix_power(nx.google_matrix(graph, alpha=p[0]), 6)[0, 2], np.array([0.85])


@program("sympy")
def sympy_lambdify_cse() -> Made:
    import sympy

    a, b = sympy.symbols("a b")
    f = sympy.lambdify(
        [[a, b]], [sympy.exp(a * b) / (1 + sympy.exp(a * b)), sympy.Heaviside(a) * b, sympy.atan2(a, b)], "scipy", cse=True
    )
    return lambda p: sum(f(p)), np.array([0.5, 1.3])


@program("SALib", 1)
def salib_functions() -> Made:
    from SALib.test_functions import Ishigami, Sobol_G

    return (
        lambda p: (
            np.sum(Ishigami.evaluate(p.reshape(1, 3))) + np.sum(Sobol_G.evaluate(p.reshape(1, 3), a=np.array([0.0, 1.0, 4.5])))
        ),
        np.array([0.3, 0.8, 0.6]),
    )


@program("SALib", 1)
def salib_moments() -> Made:
    from SALib.analyze.sobol import first_order, total_order

    A, B = RNG.random(5), RNG.random(5)
    return lambda p: first_order(A, p, B) + total_order(A, p, B), RNG.random(5)


@program("skfem")
def skfem_solve() -> Made:
    import skfem
    from skfem.models.poisson import laplace, unit_load

    m = skfem.MeshTri().refined(1)
    basis = skfem.Basis(m, skfem.ElementTriP1())
    A, b = laplace.assemble(basis), unit_load.assemble(basis)
    return lambda p: np.sum(p * (A @ p)) - np.sum(b * p), RNG.random(9)


@program("pymoo", 1)
def pymoo_problems() -> Made:
    from pymoo.problems import get_problem

    z, r = get_problem("zdt1", n_var=3), get_problem("rosenbrock", n_var=3)
    return (
        lambda p: (
            np.sum(z.evaluate(p.reshape(1, 3), return_values_of=["F"]))
            + np.sum(r.evaluate(p.reshape(1, 3), return_values_of=["F"])) * 1e-2
        ),
        np.array([0.3, 0.8, 0.6]),
    )


@program("pymoo")
def pymoo_decomposition() -> Made:
    from pymoo.decomposition.asf import ASF
    from pymoo.decomposition.tchebicheff import Tchebicheff

    return (
        lambda p: (
            np.sum(ASF().do(p.reshape(1, 3), weights=np.array([0.2, 0.3, 0.5])))
            + np.sum(Tchebicheff().do(p.reshape(1, 3), weights=np.array([0.2, 0.3, 0.5]), utopian_point=np.zeros(3)))
        ),
        np.array([0.3, 0.8, 0.6]),
    )


@program("pymoo", 1)
def pymoo_dtlz() -> Made:
    from pymoo.problems.many import DTLZ2

    d = DTLZ2(n_var=4, n_obj=3)
    return lambda p: np.sum(d.evaluate(p) * [1.0, 2.0, 3.0]), np.array([0.3, 0.8, 0.6, 0.2])


@program("sdeint", 1)
def sdeint_integrate() -> Made:
    import sdeint

    dW = RNG.normal(size=(9, 1)) * 0.1
    t = np.linspace(0, 1, 10)
    return lambda p: np.sum(
        sdeint.itoEuler(lambda y, s: -p[0] * y, lambda y, s: np.array([[0.3]]) * p[1], np.array([1.0]), t, dW=dW)
    ), np.array([0.7, 0.4])


@program("smt", 1)
def smt_problems() -> Made:
    from smt.problems import Rosenbrock, Sphere

    return lambda p: np.sum(Rosenbrock(ndim=3)(p.reshape(1, 3))) * 1e-2 + np.sum(Sphere(ndim=3)(p.reshape(1, 3))), np.array(
        [0.3, 0.8, 0.6]
    )


@program("smt", 1, "sklearn")
def smt_kriging() -> Made:
    from smt.surrogate_models import KRG

    x = RNG.random((8, 2))
    y = np.sum(x**2, 1)
    m = KRG(print_global=False, theta0=[1e-2] * 2, hyper_opt="NoOp")
    m.set_training_values(x, y)
    m.train()
    return lambda p: m.predict_values(p.reshape(1, 2))[0, 0], np.array([0.3, 0.8])


@program("smt", 1)
def smt_quadratic() -> Made:
    from smt.surrogate_models import QP

    x = RNG.random((8, 2))
    y = np.sum(x**2, 1)
    m = QP(print_global=False)
    m.set_training_values(x, y)
    m.train()
    return lambda p: m.predict_values(p.reshape(1, 2))[0, 0], np.array([0.3, 0.8])


@program("cirq", 1)
def cirq_unitary() -> Made:
    import cirq

    return lambda p: np.abs(cirq.unitary(cirq.rx(p[0])) @ np.array([0.6, 0.8]))[1], np.array([0.7])


@program("scipy", 1)
def scipy_stats_norm() -> Made:
    from scipy import stats

    return lambda p: np.sum(stats.norm.logpdf(T, p[0], p[1])) + stats.gamma.logpdf(1.3, p[2]), np.array([0.3, 1.2, 2.0])


@program("scipy", 1)
def scipy_solve_ivp() -> Made:
    from scipy.integrate import solve_ivp

    return lambda p: np.sum(solve_ivp(lambda t, y: -p[0] * y, (0, 1), p[1:], rtol=1e-6, atol=1e-8).y[:, -1]), np.array(
        [0.7, 1.1]
    )


@program("scipy", 1)
def scipy_cubic_spline() -> Made:
    from scipy.interpolate import CubicSpline

    return lambda y: CubicSpline(np.arange(5.0), y)(1.3), RNG.random(5)


@program("scipy", 1)
def scipy_signal_windows() -> Made:
    from scipy.signal import windows

    return lambda p: np.sum(windows.gaussian(7, p[0]) + windows.kaiser(7, p[1])), np.array([1.3, 4.0])


@program("scipy", 1)
def scipy_mstats() -> Made:
    from scipy.stats import gmean, hmean, kurtosis, pearsonr, skew, zscore

    return lambda p: skew(p) + kurtosis(p) + pearsonr(p, np.arange(5.0))[0] + gmean(p) + hmean(p) + zscore(p)[1], RNG.random(5)


@program("scipy", 1)
def scipy_distance() -> Made:
    from scipy.spatial import distance

    return (
        lambda p: (
            distance.euclidean(p[:3], p[3:])
            + distance.cosine(p[:3], p[3:])
            + distance.minkowski(p[:3], p[3:], 3)
            + distance.jensenshannon(p[:3] / np.sum(p[:3]), p[3:] / np.sum(p[3:]))
        ),
        RNG.random(6),
    )


@program("scipy", 1)
def scipy_odr() -> Made:
    from scipy.signal import hilbert, savgol_filter

    return lambda p: np.sum(savgol_filter(p, 5, 2) ** 2) + np.sum(np.abs(hilbert(p))), RNG.random(9)
