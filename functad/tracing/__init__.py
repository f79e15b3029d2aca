"""Tracing: `Tensor`, and the recorders that turn the operations of a function into a list of records."""
