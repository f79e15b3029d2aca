"""Optimisation by SciPy with exact derivatives: `scipy.optimize` for functions of pytrees, in plain NumPy.

The functions have SciPy's names, arguments and results. They pass exact derivatives to SciPy in place of finite differences.
The first call imports SciPy: `pip install 'functad[scipy]'`.
"""

from functad.display.progress import Progress
from functad.optimize.bundle import ScipyBundle, scipy_bundle
from functad.optimize.curve_fit import curve_fit
from functad.optimize.least_squares import least_squares
from functad.optimize.minimize import minimize
from functad.optimize.root import root, root_scalar

__all__ = ["Progress", "ScipyBundle", "curve_fit", "least_squares", "minimize", "root", "root_scalar", "scipy_bundle"]
