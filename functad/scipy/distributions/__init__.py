"""Distributions of `scipy.stats` that SciPy compiles, integrates or computes by a search."""
