"""Calls of transforms: selection of arguments, tracing, and ownership of results."""
