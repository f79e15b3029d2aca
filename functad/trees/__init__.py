"""Nested containers (pytrees): flattening, unflattening, and functions over their leaves."""
