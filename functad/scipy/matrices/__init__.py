"""What `functad.scipy.linalg` is made of: decompositions, systems and other equations, and functions of matrices."""
