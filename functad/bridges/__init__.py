"""Bridges to other AD libraries: their functions in NumPy programs, and NumPy functions in their programs."""
