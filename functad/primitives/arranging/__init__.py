"""Functions that arrange elements anew, and those that make arrays."""
