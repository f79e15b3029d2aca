"""Lowering of joins, padding, indexing, indexed writes, scans along an axis, and equations that are rewritten."""
