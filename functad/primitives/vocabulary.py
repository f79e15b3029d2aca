"""Imports every family, so that the registry is complete."""

from functad.primitives import (  # noqa: F401
    arithmetic,
    comparisons,
    exponential,
    reductions,
    trigonometric,
)
