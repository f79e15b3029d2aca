"""The implementation of `functad.compat.tf`."""
