"""Products of arrays that sum over axes: their letters, the loops they become, and the BLAS that computes large ones."""
