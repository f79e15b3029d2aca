"""functad: functional, transform-based automatic differentiation for plain NumPy code."""
