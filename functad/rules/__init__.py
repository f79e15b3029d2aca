"""Functions with derivative rules of the user, and functions that are computed again."""
