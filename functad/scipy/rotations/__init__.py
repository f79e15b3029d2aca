"""What `functad.scipy.spatial.transform` is made of: quaternions, rotations of Tensors, and stand-ins for classes of SciPy."""
