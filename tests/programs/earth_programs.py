"""Programs of geodesy, the weather, water and the sun on the roof."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(3)


@program("pvlib")
def pvlib_power() -> Made:
    import pvlib

    return (
        lambda p: (
            np.sum(pvlib.pvsystem.pvwatts_dc(p[0], p[1], 100.0, -0.004))
            + pvlib.irradiance.aoi_projection(p[2], 180.0, 30.0, 170.0)
        ),
        np.array([800.0, 40.0, 20.0]),
    )


@program("pvlib")
def pvlib_single_diode() -> Made:
    import pvlib

    return (
        lambda p: (
            pvlib.singlediode.bishop88(p[0], 7.0, 1e-9, 0.3, 300.0, 1.5)[0]
            + pvlib.pvsystem.calcparams_desoto(p[1], 40.0, 0.002, 1.5, 7.0, 1e-9, 300.0, 0.3)[0]
        ),
        np.array([0.5, 800.0]),
    )


@program("pvlib")
def pvlib_temperature() -> Made:
    import pvlib

    return (
        lambda p: (
            pvlib.temperature.sapm_cell(p[0], 20.0, p[1], -3.47, -0.0594, 3.0)
            + pvlib.temperature.faiman(p[0], 20.0, p[1])
            + pvlib.atmosphere.get_relative_airmass(p[2])
        ),
        np.array([800.0, 3.0, 40.0]),
    )


@program("geographiclib", 1)
def geographiclib_geodesic() -> Made:
    from geographiclib.geodesic import Geodesic

    return lambda p: Geodesic.WGS84.Inverse(p[0], p[1], 40.6, -73.8)["s12"] * 1e-6, np.array([42.0, -82.0])


@program("geographiclib", 1)
def geographiclib_direct() -> Made:
    from geographiclib.geodesic import Geodesic

    return lambda p: Geodesic.WGS84.Direct(p[0], 10.0, p[1], 1e6)["lat2"], np.array([42.0, 50.0])


@program("utm", 1)
def utm_coordinates() -> Made:
    import utm

    return lambda p: utm.from_latlon(p[0], p[1])[0] * 1e-5 + utm.from_latlon(p[0], p[1])[1] * 1e-6, np.array([51.2, 7.5])


@program("utm")
def utm_back() -> Made:
    import utm

    return lambda p: utm.to_latlon(p[0] * 1e5, p[1] * 1e6, 32, "U")[0] * p[0], np.array([3.9, 5.7])


@program("nibabel", 1)
def nibabel_affines() -> Made:
    from nibabel.affines import apply_affine, voxel_sizes

    return (
        lambda p: (
            np.sum(apply_affine(np.diag(np.append(p[:3], 1.0)), p.reshape(2, 3)) ** 2)
            + np.sum(voxel_sizes(np.diag(np.append(p[:3], 1.0))))
        ),
        RNG.random(6) + 0.2,
    )


@program("nibabel", 1)
def nibabel_quaternions() -> Made:
    from nibabel.quaternions import mult, quat2mat, rotate_vector

    return lambda p: np.sum(quat2mat(p)[0]) + mult(p, p)[2] + np.sum(rotate_vector([1.0, 2.0, 3.0], p)), np.array(
        [0.9, 0.2, 0.5, 0.3]
    )


@program("nibabel", 1)
def nibabel_euler() -> Made:
    from nibabel.eulerangles import euler2mat, mat2euler

    return lambda p: np.sum(euler2mat(*p)[0]) + mat2euler(euler2mat(*p))[1], np.array([0.3, 0.2, 0.5])


@program("properscoring", 1)
def properscoring_crps() -> Made:
    import properscoring

    return lambda p: properscoring.crps_gaussian(0.3, mu=p[0], sig=p[1]), np.array([0.1, 1.2])


@program("boule", 1)
def boule_gravity() -> Made:
    import boule

    return (
        lambda p: boule.WGS84.normal_gravity((0.0, p[0], p[1])) * 1e-5 + boule.WGS84.geocentric_radius(p[0]) * 1e-6,
        np.array([45.0, 100.0]),
    )


@program("pykrige", 1)
def pykrige_variograms() -> Made:
    from pykrige.variogram_models import (
        exponential_variogram_model,
        gaussian_variogram_model,
        hole_effect_variogram_model,
        spherical_variogram_model,
    )

    d = np.array([0.5, 1.0, 3.0])
    return lambda p: np.sum(
        exponential_variogram_model(p, d)
        + gaussian_variogram_model(p, d)
        + spherical_variogram_model(p, d)
        + hole_effect_variogram_model(p, d)
    ), np.array([1.2, 2.0, 0.3])


@program("pykrige", 1)
def pykrige_kriging() -> Made:
    from pykrige.ok import OrdinaryKriging

    x, y, z = RNG.random(6), RNG.random(6), RNG.random(6)
    k = OrdinaryKriging(x, y, z, variogram_model="linear", variogram_parameters={"slope": 1.0, "nugget": 0.1})
    return lambda p: k.execute("points", p[:1], p[1:], backend="loop")[0][0], np.array([0.4, 0.5])


@program("pykrige", 1)
def pykrige_distance() -> Made:
    from pykrige.core import great_circle_distance

    return lambda p: great_circle_distance(p[0], p[1], 20.0, 40.0), np.array([10.0, 45.0])


@program("thermofeel")
def thermofeel_indices() -> Made:
    import thermofeel

    return lambda p: thermofeel.calculate_wind_chill(p[:1], p[1:])[0], np.array([275.0, 6.0])


@program("thermofeel")
def thermofeel_humidity() -> Made:
    import thermofeel

    return (
        lambda p: (
            thermofeel.calculate_relative_humidity_percent(p[0], p[1])
            + thermofeel.calculate_humidex(p[0], p[1])
            + thermofeel.calculate_apparent_temperature(p[:1], p[2:], np.array([50.0]))[0]
        ),
        np.array([300.0, 290.0, 3.0]),
    )


@program("refet", 1)
def refet_daily() -> Made:
    import refet

    return lambda p: np.sum(
        refet.Daily(tmin=p[0], tmax=p[1], ea=p[2], rs=22.07, uz=1.94, zw=10.0, elev=100.0, lat=50.8, doy=187).eto()
    ), np.array([12.3, 21.5, 1.4])


@program("hydroeval")
def hydroeval_scores() -> Made:
    import hydroeval

    obs = RNG.random(6) + 1
    return (
        lambda p: np.sum(hydroeval.nse(p, obs)) + np.sum(hydroeval.kge(p, obs)[0]) + np.sum(hydroeval.rmse(p, obs)),
        RNG.random(6) + 1,
    )


@program("pvlib")
def pvlib_solar_position() -> Made:
    from pvlib import solarposition

    return (
        lambda p: (
            solarposition.declination_spencer71(p[0])
            + solarposition.equation_of_time_spencer71(p[0]) * 0.1
            + solarposition.solar_zenith_analytical(p[1], 0.3, 0.2)
        ),
        np.array([100.0, 0.5]),
    )


@program("pvlib")
def pvlib_irradiance() -> Made:
    from pvlib import irradiance

    return (
        lambda p: (
            irradiance.isotropic(30.0, p[0])
            + irradiance.haydavies(30.0, 180.0, p[0], p[1], 1366.0, solar_zenith=p[2], solar_azimuth=170.0)
        ),
        np.array([100.0, 600.0, 40.0]),
    )


@program("pvlib")
def pvlib_perez() -> Made:
    from pvlib import irradiance

    return lambda p: irradiance.perez(30.0, 180.0, p[0], p[1], 1366.0, p[2], 170.0, 1.5), np.array([100.0, 600.0, 40.0])


@program("pvlib")
def pvlib_clearsky() -> Made:
    from pvlib import clearsky

    return (
        lambda p: clearsky.bird(p[0], 1.5, 0.1, 0.1, 1.5)["ghi"] * 1e-2 + clearsky.ineichen(p[0], 1.5, p[1])["ghi"] * 1e-2,
        np.array([40.0, 3.0]),
    )


@program("pvlib", 1)
def pvlib_iam() -> Made:
    from pvlib import iam

    return (
        lambda p: (
            iam.ashrae(p[0])
            + iam.physical(p[0])
            + iam.martin_ruiz(p[0])
            + iam.sapm(p[0], {"B0": 1.0, "B1": -0.002, "B2": 1e-4, "B3": 0.0, "B4": 0.0, "B5": 0.0})
        ),
        np.array([40.0]),
    )


@program("pvlib")
def pvlib_spectrum() -> Made:
    from pvlib import spectrum

    return lambda p: spectrum.spectral_factor_firstsolar(p[0], p[1], module_type="cdte")[0], np.array([1.4, 1.5])


@program("pvlib", 1)
def pvlib_max_power() -> Made:
    from pvlib import pvsystem

    return lambda p: pvsystem.max_power_point(p[0], 1e-9, 0.3, 300.0, 1.5, method="newton")["p_mp"], np.array([7.0])


@program("pvlib", 1)
def pvlib_lambert() -> Made:
    from pvlib import singlediode

    return lambda p: singlediode._lambertw_i_from_v(p[0], 7.0, 1e-9, 0.3, 300.0, 1.5), np.array([20.0])


@program("pvlib")
def pvlib_tracking() -> Made:
    from pvlib import shading

    return lambda p: shading.ground_angle(p[0], 0.4, 0.5) + shading.masking_angle(p[0], 0.4, 0.5), np.array([30.0])


@program("pvlib")
def pvlib_bifacial() -> Made:
    from pvlib.bifacial import utils

    return (
        lambda p: (
            utils._solar_projection_tangent(p[0], 170.0, 180.0) + utils._unshaded_ground_fraction(30.0, 180.0, p[0], 170.0, 0.4)
        ),
        np.array([30.0]),
    )


@program("pvlib")
def pvlib_inverter() -> Made:
    from pvlib import inverter

    return (
        lambda p: (
            inverter.pvwatts(p[0], 220.0)
            + inverter.sandia(
                p[1],
                p[0],
                {
                    "Paco": 330.0,
                    "Pdco": 340.0,
                    "Vdco": 40.0,
                    "Pso": 2.0,
                    "C0": -1e-5,
                    "C1": -1e-4,
                    "C2": 1e-3,
                    "C3": 1e-3,
                    "Pnt": 0.1,
                },
            )
        ),
        np.array([150.0, 40.0]),
    )
