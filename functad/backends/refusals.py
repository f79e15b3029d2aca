"""Internal exceptions of compiled programs for unsupported arguments. They never reach the user."""

from __future__ import annotations


class RefusedError(Exception):
    """A native function received arguments that only NumPy supports, or for which NumPy raises an error."""


class OtherArgumentsError(Exception):
    """A program received arrays with types, dtypes or shapes that differ from the compiled signature."""
