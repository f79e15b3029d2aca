"""From a list to a new function: gradients, Jacobians, directional derivatives."""
