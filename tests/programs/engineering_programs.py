"""Programs of physics and engineering, robotics, colours and the earth."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(1)


@program("lmfit")
def lmfit_lineshapes() -> Made:
    from lmfit.lineshapes import gaussian, lorentzian, skewed_gaussian, voigt

    t = np.linspace(-2, 2, 7)
    return (
        lambda p: np.sum(gaussian(t, *p) + lorentzian(t, *p) + voigt(t, *p, 0.3) + skewed_gaussian(t, *p, 0.4)),
        np.array([1.0, 0.2, 0.5]),
    )


@program("fluids", 1)
def fluids_friction() -> Made:
    import fluids

    return (
        lambda p: fluids.friction_factor(Re=p[0], eD=p[1]) + fluids.Reynolds(V=p[2], D=0.25, rho=1.1613, mu=1.9e-05) * 1e-5,
        np.array([1e5, 1e-4, 2.5]),
    )


@program("fluids", 1)
def fluids_atmosphere() -> Made:
    import fluids

    return (
        lambda p: fluids.ATMOSPHERE_1976.thermal_conductivity(p[0]) * 100 + fluids.dP_from_K(10.0, 1000.0, p[1]) * 1e-4,
        np.array([280.0, 3.0]),
    )


@program("ht", 1, "fluids")
def ht_convection() -> Made:
    import ht

    return (
        lambda p: ht.Nu_conv_internal(Re=p[0], Pr=p[1], Method="Dittus-Boelter") * 1e-2 + ht.LMTD(p[2], 30.0, 20.0, 25.0),
        np.array([1e5, 1.2, 80.0]),
    )


@program("control", 1)
def control_transfer_function() -> Made:
    import control

    return lambda p: np.abs(
        control.evalfr(control.ss([[-p[0], 1.0], [0.0, -2.0]], [[0.0], [1.0]], [[1.0, 0.0]], [[0.0]]), 1j)
    ), np.array([1.3])


@program("colour", 1)
def colour_spaces() -> Made:
    import colour

    return lambda p: np.sum(colour.XYZ_to_Lab(p)) + np.sum(colour.XYZ_to_xyY(p)), np.array([0.21, 0.12, 0.05])


@program("bezier", 1)
def bezier_curve() -> Made:
    from bezier.hazmat.curve_helpers import evaluate_multi, subdivide_nodes

    return (
        lambda p: (
            np.sum(evaluate_multi(p.reshape(2, 3), np.array([0.3, 0.6])) ** 2) + np.sum(subdivide_nodes(p.reshape(2, 3))[0])
        ),
        RNG.random(6),
    )


@program("transforms3d", 1)
def transforms3d_rotations() -> Made:
    from transforms3d.euler import euler2mat
    from transforms3d.quaternions import qmult, quat2mat

    return lambda p: np.sum(euler2mat(*p[:3]) * np.arange(9).reshape(3, 3)) + np.sum(quat2mat(p)[0]) + qmult(p, p)[1], np.array(
        [0.3, 0.2, 0.5, 0.9]
    )


@program("pyquaternion", 1)
def pyquaternion_rotation() -> Made:
    from pyquaternion import Quaternion

    return lambda p: np.sum(Quaternion(array=p).rotate(np.array([1.0, 2.0, 3.0]))), np.array([0.9, 0.2, 0.5, 0.3])


@program("pytransform3d", 1)
def pytransform3d_rotations() -> Made:
    from pytransform3d.rotations import matrix_from_compact_axis_angle, quaternion_from_matrix

    return (
        lambda p: (
            np.sum(matrix_from_compact_axis_angle(p) * np.arange(9).reshape(3, 3))
            + np.sum(quaternion_from_matrix(matrix_from_compact_axis_angle(p)))
        ),
        np.array([0.3, 0.2, 0.5]),
    )


@program("spatialmath", 1)
def spatialmath_rotations() -> Made:
    from spatialmath.base import rotx, roty, rpy2r

    return lambda p: np.sum((rotx(p[0]) @ roty(p[1]))[0]) + np.sum(rpy2r(p[0], p[1], p[2])[1]), np.array([0.3, 0.2, 0.5])


@program("ahrs", 1)
def ahrs_orientation() -> Made:
    from ahrs.common.orientation import acc2q, q_prod

    return lambda p: np.sum(acc2q(p)) + np.sum(q_prod(np.stack([1.0, *p]), np.array([0.5, 0.5, 0.5, 0.5]))), np.array(
        [0.3, 0.2, 9.5]
    )


@program("pymap3d")
def pymap3d_geodetic() -> Made:
    import pymap3d

    return lambda p: sum(pymap3d.geodetic2ecef(p[0], p[1], p[2] * 1e3)) * 1e-6, np.array([42.0, -82.0, 0.2])


@program("geopy", 1)
def geopy_great_circle() -> Made:
    from geopy.distance import great_circle

    return lambda p: great_circle((p[0], p[1]), (41.8, -87.6)).km * 1e-3, np.array([42.5, -71.2])


@program("metpy")
def metpy_constants() -> Made:
    from metpy.calc.tools import _greater_or_close

    return lambda p: np.sum(np.where(_greater_or_close(p, 0.3), p**2, p)), np.array([0.2, 0.6])


@program("windpowerlib")
def windpowerlib_profiles() -> Made:
    from windpowerlib.density import barometric, ideal_gas
    from windpowerlib.wind_speed import hellman, logarithmic_profile

    return (
        lambda p: (
            logarithmic_profile(p[0], 10, 100, p[1])
            + hellman(p[0], 10, 100)
            + barometric(101330.0, 2.0, 100.0, p[2]) * 0.01
            + ideal_gas(101330.0, 2.0, 100.0, p[2])
        ),
        np.array([5.0, 0.15, 280.0]),
    )


@program("gstools", 1)
def gstools_variogram() -> Made:
    import gstools

    model = gstools.Exponential(dim=2, var=2.0, len_scale=8.0)
    return lambda r: np.sum(model.variogram(r)) + np.sum(model.covariance(r)), np.array([1.0, 4.0])


@program("trimesh", 1)
def trimesh_geometry() -> Made:
    from trimesh.triangles import area, normals

    return lambda p: np.sum(area(p.reshape(1, 3, 3))) + np.sum(normals(p.reshape(1, 3, 3))[0]), RNG.random(9)


@program("skrf")
def skrf_decibels() -> Made:
    from skrf.mathFunctions import complex_2_db, db_2_mag

    return lambda p: np.sum(complex_2_db(p)) + np.sum(db_2_mag(p)), np.array([0.3, 0.2])


@program("cma", 1)
def cma_test_functions() -> Made:
    import cma

    return lambda p: cma.ff.rosen(p) * 1e-2 + cma.ff.elli(p) * 1e-6 + cma.ff.sphere(p), np.array([0.3, 0.2, 0.9])


@program("pyswarms")
def pyswarms_test_functions() -> Made:
    from pyswarms.utils.functions import single_obj

    return (
        lambda p: (
            np.sum(single_obj.sphere(p.reshape(2, 2)))
            + np.sum(single_obj.rosenbrock(p.reshape(2, 2)))
            + np.sum(single_obj.ackley(p.reshape(2, 2)))
        ),
        RNG.random(4),
    )


@program("deap", 1)
def deap_benchmarks() -> Made:
    from deap import benchmarks

    return lambda p: benchmarks.ackley(p)[0] + benchmarks.griewank(p)[0] + benchmarks.himmelblau(p[:2])[0] * 1e-2, np.array(
        [0.3, 0.2, 0.9]
    )


@program("chaospy", 1)
def chaospy_distributions() -> Made:
    import chaospy

    return lambda x: np.sum(chaospy.Normal(0, 1).pdf(x)) + np.sum(chaospy.Uniform(0, 2).cdf(x)), np.array([0.3, 0.9])


@program("pulse2percept")
def pulse2percept_geometry() -> Made:
    from pulse2percept.utils.geometry import cart2pol, pol2cart

    return lambda p: sum(cart2pol(p[0], p[1])) + sum(pol2cart(p[0], p[1])), np.array([0.3, 0.7])


@program("mne", 1)
def mne_coordinates() -> Made:
    from mne.transforms import _cart_to_sph, _sph_to_cart

    return lambda p: np.sum(_cart_to_sph(p.reshape(1, 3))) + np.sum(_sph_to_cart(p.reshape(1, 3))), np.array([0.3, 0.7, 0.5])


@program("skyfield", 1)
def skyfield_functions() -> Made:
    from skyfield.functions import angle_between, rot_x, to_spherical

    return lambda p: angle_between(p, np.array([1.0, 0.0, 0.3])) + np.sum(rot_x(p[0])[1]) + sum(to_spherical(p)), np.array(
        [0.3, 0.7, 0.5]
    )


@program("sgp4")
def sgp4_days() -> Made:
    from sgp4.functions import jday

    return lambda p: jday(2019, 12, 9, 12, 0, p[0])[1] * 1e4, np.array([3.5])


@program("thermo")
def thermo_flash_equation() -> Made:
    from chemicals.rachford_rice import Rachford_Rice_flash_error

    return lambda p: Rachford_Rice_flash_error(p[0], [0.5, 0.3, 0.2], [1.6, p[1], 0.5]), np.array([0.5, 0.9])


@program("chemicals", 1)
def chemicals_vapour_pressure() -> Made:
    import chemicals

    return (
        lambda p: chemicals.Psat_IAPWS(p[0]) * 1e-4 + chemicals.vapor_pressure.Antoine(p[0], 8.95894, 510.595, -15.95),
        np.array([350.0]),
    )


@program("fluids")
def fluids_pump_and_valve() -> Made:
    import fluids

    return lambda p: fluids.K_gate_valve_Crane(D1=p[0], D2=0.146, angle=13.115) + fluids.entrance_sharp() * p[0], np.array(
        [0.1]
    )


@program("ht", 1, "fluids")
def ht_radiation_and_insulation() -> Made:
    import ht

    return (
        lambda p: (
            ht.q_rad(p[0], p[1], 298.0) * 1e-2 + ht.R_cylinder(0.1, p[2], 1.0, 10.0)
            if hasattr(ht, "R_cylinder")
            else ht.q_rad(p[0], p[1], 298.0) * 1e-2
        ),
        np.array([0.9, 400.0, 0.2]),
    )


@program("control", 1)
def control_step_response() -> Made:
    import control

    return lambda p: np.sum(
        control.ss([[-p[0]]], [[1.0]], [[p[1]]], [[0.0]]).dynamics(0.0, np.array([0.4]), np.array([1.0]))
    ), np.array([1.3, 0.7])


@program("colour", 1)
def colour_difference() -> Made:
    import colour

    return (
        lambda p: colour.delta_E(p, np.array([50.0, 2.7, -79.8]), method="CIE 1976") + np.sum(colour.Lab_to_LCHab(p)) * 1e-2,
        np.array([48.0, 12.0, -60.0]),
    )


@program("metpy")
def metpy_interpolation() -> Made:
    from metpy.interpolate.tools import calc_kappa

    return lambda p: calc_kappa(p[0]), np.array([1.7])


@program("trimesh", 1)
def trimesh_transformations() -> Made:
    from trimesh.transformations import quaternion_matrix, rotation_matrix

    return lambda p: np.sum(rotation_matrix(p[0], [0.3, 0.4, 0.5])[:2]) + np.sum(quaternion_matrix(p)[0]), np.array(
        [0.3, 0.9, 0.2, 0.1]
    )


@program("transforms3d", 1)
def transforms3d_axis_angle() -> Made:
    from transforms3d.axangles import axangle2mat

    return lambda p: np.sum(axangle2mat([0.3, 0.4, 0.5], p[0])[0]), np.array([0.7])


@program("skyfield", 1)
def skyfield_precession() -> Made:
    from skyfield.precessionlib import compute_precession

    return lambda p: np.sum(compute_precession(p[0] * 1e6)[0]), np.array([2.4515])


@program("gstools", 1)
def gstools_models() -> Made:
    import gstools

    return (
        lambda r: (
            np.sum(gstools.Gaussian(dim=2, var=1.3, len_scale=2.0).correlation(r))
            + np.sum(gstools.Spherical(dim=2, var=1.3, len_scale=5.0).covariance(r))
        ),
        np.array([1.0, 4.0]),
    )


@program("pytransform3d", 1)
def pytransform3d_transformations() -> Made:
    from pytransform3d.transformations import invert_transform, transform_from

    return lambda p: np.sum(invert_transform(transform_from(np.eye(3), p), check=False)[:3]), np.array([0.3, 0.2, 0.5])
