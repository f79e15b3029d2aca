"""What `functad.scipy.interpolate` is made of, but for piecewise polynomials: interpolators, FITPACK, and triangles."""
