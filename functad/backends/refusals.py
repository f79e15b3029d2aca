"""What compiled programs raise within functad for arguments that they do not take; none of it reaches a user."""

from __future__ import annotations


class RefusedError(Exception):
    """A native function met arguments that only NumPy can compute with, or raises an error for."""


class OtherArgumentsError(Exception):
    """A program was given arrays of other types, dtypes or shapes than those that it was compiled for."""
