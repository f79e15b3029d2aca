"""Optimisation by SciPy with exact derivatives: `scipy.optimize` for functions of trees, in plain NumPy.

The functions have SciPy's names, arguments and results; what SciPy would estimate by finite differences, it is handed.
SciPy is imported when the first of them is called: `pip install 'functad[scipy]'`.
"""

from functad.display.progress import Progress
from functad.optimize.bundle import ScipyBundle, scipy_bundle
from functad.optimize.curve_fit import curve_fit
from functad.optimize.least_squares import least_squares
from functad.optimize.minimize import minimize
from functad.optimize.root import root, root_scalar

__all__ = ["Progress", "ScipyBundle", "curve_fit", "least_squares", "minimize", "root", "root_scalar", "scipy_bundle"]
