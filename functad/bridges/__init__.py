"""Bridges to other libraries that differentiate: their functions in programs of NumPy, and functions of NumPy in theirs."""
