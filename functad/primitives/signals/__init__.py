"""Fourier transforms, convolution, differences on grids, polynomials."""
