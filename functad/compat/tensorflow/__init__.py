"""What stands behind the names of `functad.compat.tf`."""
