"""Parts of `functad.scipy.linalg`: decompositions, linear systems and matrix equations, and functions of matrices."""
