"""`GradientTape`: its trace, its requests and its backward pass."""
