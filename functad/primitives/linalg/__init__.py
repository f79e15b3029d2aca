"""Products of matrices, linear systems, decompositions, eigenvalues and singular values."""
