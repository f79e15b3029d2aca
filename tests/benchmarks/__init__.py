"""Benchmarks: functad beside other libraries and hand-written gradients, and how its costs grow."""
