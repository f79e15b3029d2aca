"""Parts of `functad.scipy.spatial.transform`: quaternions, rotations of Tensors, and replacements of SciPy's classes."""
