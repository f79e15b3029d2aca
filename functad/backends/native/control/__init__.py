"""Loops and branches as native code."""
