"""The distributions of `scipy.stats`: what SciPy compiles, integrates or searches of them."""
