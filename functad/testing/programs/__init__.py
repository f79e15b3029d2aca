"""Random NumPy programs: drawing, checking and shrinking."""
