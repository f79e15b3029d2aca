"""Backends: compile expression lists to executable programs. Only `functad.compilation` imports this package."""
