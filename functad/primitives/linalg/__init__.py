"""Matrix products, linear systems, decompositions, eigenvalues and singular values."""
