"""Shared parts of all displays: markup and style for notebooks, text for terminals, and texts for amounts.

This package knows none of the displayed objects. They import it when they are displayed, not at `import functad`.
"""
