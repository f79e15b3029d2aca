"""Lowering of products that sum over axes: their axis letters, native loops, and BLAS calls for large products."""
