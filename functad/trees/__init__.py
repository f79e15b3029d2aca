"""Nested containers: how they are taken apart into leaves, and what users do with them."""
