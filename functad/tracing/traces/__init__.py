"""Recorders: one class for each kind of trace."""
