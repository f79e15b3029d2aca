"""Programs of chemistry, optics and materials."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(4)


@program("iapws")
def iapws_region1() -> Made:
    from iapws.iapws97 import _Region1

    return lambda p: _Region1(p[0] * 100, p[1])["h"] * 1e-2, np.array([3.0, 3.0])


@program("iapws")
def iapws_saturation() -> Made:
    from iapws.iapws97 import _PSat_T

    return lambda p: _PSat_T(p[0] * 100), np.array([4.0])


@program("tmm", 1)
def tmm_reflection() -> Made:
    import tmm

    return lambda p: tmm.coh_tmm("s", [1.0, p[0], 3.0], [np.inf, p[1], np.inf], 0.3, 2.0)["R"], np.array([2.2, 0.3])


@program("tmm", 1)
def tmm_interface() -> Made:
    import tmm

    return (
        lambda p: (
            tmm.interface_R("p", p[0], p[1], 0.3, tmm.snell(p[0], p[1], 0.3))
            + tmm.unpolarized_RT([1.0, p[1], 3.0], [np.inf, 0.3, np.inf], 0.3, 2.0)["T"]
        ),
        np.array([1.2, 2.2]),
    )


@program("ase", 1)
def ase_morse() -> Made:
    from ase.calculators.morse import fcut
    from ase.geometry import get_angles

    return lambda p: fcut(p[0], 1.0, 2.0) + np.sum(get_angles(p.reshape(1, 3), np.array([[0.2, 0.3, 1.0]]))) * 1e-2, np.array(
        [1.3, 0.2, 0.4]
    )


@program("ase")
def ase_eos() -> Made:
    from ase.eos import birchmurnaghan, murnaghan, vinet

    return lambda p: birchmurnaghan(11.0, *p) + vinet(11.0, *p) + murnaghan(11.0, *p), np.array([-3.0, 0.6, 4.2, 10.5])


@program("periodictable", 1)
def periodictable_refraction() -> Made:
    from periodictable.nsf import neutron_energy, neutron_wavelength

    return lambda p: neutron_wavelength(p[0]) + neutron_energy(p[1]), np.array([20.0, 4.0])


@program("periodictable", 1)
def periodictable_xray() -> Made:
    from periodictable.xsf import xray_energy, xray_wavelength

    return lambda p: xray_energy(p[0]) + xray_wavelength(p[1]), np.array([1.5, 8.0])


@program("prysm")
def prysm_polynomials() -> Made:
    from prysm.polynomials import jacobi, zernike_nm

    r, t = np.array([0.3, 0.5]), np.array([0.1, 0.7])
    return lambda p: np.sum(zernike_nm(4, 2, r * p[0], t * p[1])) + np.sum(jacobi(3, 0, 1, r * p[0])), np.array([0.9, 1.1])


@program("prysm", 1)
def prysm_propagation() -> Made:
    from prysm.propagation import focus

    return lambda p: np.sum(np.abs(focus(np.exp(1j * p.reshape(4, 4)), 2)[:3]) ** 2), RNG.random(16)


@program("pypolar", 1)
def pypolar_mueller() -> Made:
    from pypolar import mueller

    return (
        lambda p: (
            np.sum(mueller.op_linear_polarizer(p[0]) @ np.array([1.0, 0.3, 0.2, 0.1]))
            + mueller.intensity(mueller.op_retarder(p[0], p[1]) @ np.array([1.0, 0.3, 0.2, 0.1]))
        ),
        np.array([0.3, 0.7]),
    )


@program("pypolar", 1)
def pypolar_fresnel() -> Made:
    from pypolar import fresnel

    return lambda p: fresnel.R_par(1.5, p[0]) + fresnel.T_unpolarized(p[1], 0.3), np.array([0.3, 1.4])


@program("chempy")
def chempy_arrhenius() -> Made:
    from chempy.kinetics.arrhenius import arrhenius_equation
    from chempy.kinetics.eyring import eyring_equation

    return (
        lambda p: arrhenius_equation(p[0] * 1e3, p[1] * 1e3, p[2] * 100) + eyring_equation(p[1] * 1e4, 10.0, p[2] * 100),
        np.array([1.2, 5.0, 3.0]),
    )


@program("chempy")
def chempy_debye_huckel() -> Made:
    from chempy.electrolytes import limiting_log_gamma
    from chempy.properties.water_density_tanaka_2001 import water_density
    from chempy.properties.water_permittivity_bradley_pitzer_1979 import water_permittivity

    return (
        lambda p: limiting_log_gamma(p[0], 1, 0.5) + water_density(p[1] * 100) * 1e-3 + water_permittivity(p[1] * 100),
        np.array([0.3, 2.98]),
    )


@program("chempy")
def chempy_equilibrium() -> Made:
    from chempy import ReactionSystem, Substance

    r = ReactionSystem.from_string("A -> B; 0.7\nB -> C; 0.3", substance_factory=Substance)
    return lambda c: sum(v * (i + 1) for i, v in enumerate(r.rates(dict(zip("ABC", c, strict=True))).values())), np.array(
        [1.2, 0.5, 0.3]
    )


@program("bumps", 1)
def bumps_curve() -> Made:
    from bumps.names import Curve, FitProblem

    t = np.linspace(0, 1, 5)
    m = Curve(lambda x, a, b: a * np.exp(-b * x), t, np.exp(-t), 0.1 * np.ones(5), a=1.0, b=0.5)
    m.a.range(0, 3)
    m.b.range(0, 3)
    problem = FitProblem(m)
    return lambda p: problem.nllf(p), np.array([1.1, 0.7])


@program("miepython", 1)
def miepython_core() -> Made:
    import miepython

    return lambda p: miepython.efficiencies_mx(1.5 - 0.01j, p[0])[0], np.array([1.3])
