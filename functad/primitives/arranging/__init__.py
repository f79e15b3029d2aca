"""Functions that rearrange, join and split arrays, and functions that create arrays."""
