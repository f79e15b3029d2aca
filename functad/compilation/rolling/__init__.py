"""Loops of Python that a trace has unrolled, found in a list and rolled up to `scan` equations."""
