"""Transforms of functions: gradients, Jacobians, directional derivatives, batches."""
