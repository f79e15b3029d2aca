"""Primitives: every function that functad differentiates, with its derivative rules."""
