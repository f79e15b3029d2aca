"""Lowering of loops and branches to native code."""
