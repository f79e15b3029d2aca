"""Programs of astronomy and cosmology."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(7)
T = np.linspace(0.1, 2.0, 7)


@program("astropy")
def astropy_models() -> Made:
    from astropy.modeling.models import Gaussian1D, Moffat1D, Sersic1D

    t = np.linspace(0.1, 1, 5)
    return (
        lambda p: (
            np.sum(Gaussian1D.evaluate(t, *p))
            + np.sum(Moffat1D.evaluate(t, *p, 1.5))
            + np.sum(Sersic1D.evaluate(t, p[0], p[2], 2.0))
        ),
        np.array([1.0, 0.2, 0.5]),
    )


@program("astropy", 1)
def astropy_robust_location() -> Made:
    from astropy.stats import biweight_location, biweight_scale

    return lambda y: biweight_location(y) + biweight_scale(y), np.array([1.0, 0.2, 0.55, 0.7, 0.95])


@program("astropy")
def astropy_angles() -> Made:
    from astropy.coordinates.angles import angular_separation

    return lambda p: angular_separation(p[0], p[1], p[2], 0.4), np.array([0.1, 0.2, 0.5])


@program("jplephem")
def jplephem_calendar() -> Made:
    from jplephem.calendar import compute_julian_date

    return lambda p: compute_julian_date(2020, 1, p[0]) * 1e-3, np.array([3.5])


@program("PyAstronomy")
def pyastronomy_planck() -> Made:
    from PyAstronomy import pyasl

    return lambda p: pyasl.planck(p[0] * 1e3, lam=5e-7) * 1e-13, np.array([5.5])


@program("PyAstronomy", 1)
def pyastronomy_kepler() -> Made:
    from PyAstronomy import pyasl

    return lambda p: np.sum(
        pyasl.KeplerEllipse(p[0], 1.0, e=p[1], Omega=0.0, i=30.0, w=10.0).xyzPos(np.array([0.3, 0.5]))
    ), np.array([1.0, 0.3])


@program("colossus")
def colossus_density_profile() -> Made:
    from colossus.cosmology import cosmology

    cosmology.setCosmology("planck18")
    from colossus.halo import profile_nfw

    prof = profile_nfw.NFWProfile(M=1e12, mdef="vir", z=0.0, c=10.0)
    return lambda r: np.sum(np.log(prof.density(r))), np.array([10.0, 30.0])


@program("colossus")
def colossus_cosmology() -> Made:
    from colossus.cosmology import cosmology

    c = cosmology.setCosmology("planck18")
    return lambda z: c.Hz(z)[0] * 1e-2 + c.Om(z)[0], np.array([0.3])


@program("radvel")
def radvel_kepler() -> Made:
    from radvel.kepler import rv_drive

    t = np.array([0.3, 1.0, 2.4])
    return lambda p: np.sum(rv_drive(t, p, use_c_kepler_solver=False)), np.array([3.0, 0.2, 0.3, 0.5, 1.5])


@program("astral", 1)
def astral_sun() -> Made:
    from astral.sun import eq_of_time, geom_mean_long_sun, sun_declination

    return lambda p: sun_declination(p[0]) + eq_of_time(p[0]) + geom_mean_long_sun(p[0]) * 1e-3, np.array([0.2])


@program("astral", 1)
def astral_refraction() -> Made:
    from astral.sun import adjust_to_horizon, refraction_at_zenith

    return lambda p: refraction_at_zenith(p[0]) + adjust_to_horizon(p[1]), np.array([80.0, 100.0])


@program("astropy")
def astropy_unit_converter() -> Made:
    import astropy.units as u

    return lambda p: u.km.to(u.m, p[0]) * 1e-3 + u.deg.to(u.rad, p[1]), np.array([3.0, 2.0])


@program("astropy", 1)
def astropy_model_call() -> Made:
    from astropy.modeling.models import Gaussian1D

    return lambda p: np.sum(Gaussian1D(1.0, 0.3, 0.5)(p)), T[:3]


@program("astropy", 1)
def astropy_model_by_parameters() -> Made:
    from astropy.modeling.models import Gaussian1D

    return lambda p: np.sum(Gaussian1D(p[0], p[1], p[2])(T)), np.array([1.0, 0.3, 0.5])


@program("astropy")
def astropy_compound() -> Made:
    from astropy.modeling.models import Lorentz1D, PowerLaw1D, Sine1D

    return lambda p: np.sum(Lorentz1D.evaluate(T, *p) + Sine1D.evaluate(T, *p) + PowerLaw1D.evaluate(T, *p)), np.array(
        [1.0, 0.3, 0.5]
    )


@program("astropy")
def astropy_2d_models() -> Made:
    from astropy.modeling.models import Gaussian2D, Moffat2D

    return lambda p: np.sum(Gaussian2D.evaluate(T, T, *p, 0.2) + Moffat2D.evaluate(T, T, *p)), np.array(
        [1.0, 0.3, 0.5, 0.7, 0.9]
    )


@program("astropy", 1)
def astropy_stats() -> Made:
    from astropy.stats import circmean, circvar, mad_std

    return lambda y: circmean(y) + circvar(y) + mad_std(y), np.array([1.0, 0.2, 0.55, 0.7, 0.95])


@program("astropy")
def astropy_circular() -> Made:
    from astropy.stats import circmean, circmoment, circvar

    return lambda y: circmean(y) + circvar(y) + circmoment(y, 0.0, 2)[0], np.array([1.0, 0.2, 0.55, 0.7, 0.95])


@program("astropy")
def astropy_lombscargle() -> Made:
    from astropy.timeseries.periodograms.lombscargle.implementations.slow_impl import lombscargle_slow

    t = np.array([0.1, 0.5, 1.1, 2.0, 2.7])
    return lambda y: np.sum(lombscargle_slow(t, y, 0.1, np.array([0.2, 0.4]))), RNG.random(5)


@program("astropy")
def astropy_visualization() -> Made:
    from astropy.visualization import AsinhStretch, LogStretch, PowerStretch

    return lambda p: np.sum(AsinhStretch()(p) + LogStretch()(p) + PowerStretch(2.0)(p)), np.array([0.1, 0.2])


@program("astropy")
def astropy_bayesian_blocks() -> Made:
    from astropy.stats.bayesian_blocks import PointMeasures

    return lambda p: np.sum(PointMeasures(p0=0.05).fitness(p, np.array([1.0, 2.0]))), np.array([0.1, 0.2])


@program("astropy", 1)
def astropy_convolve() -> Made:
    from astropy.convolution import convolve_fft

    return lambda p: np.sum(convolve_fft(p, np.array([0.25, 0.5, 0.25])) ** 2), RNG.random(7)
