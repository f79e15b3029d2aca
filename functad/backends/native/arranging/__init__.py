"""Rows for what arranges, reads and writes elements, and for scans over them."""
