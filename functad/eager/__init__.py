"""The TensorFlow-style layer: tapes, Variables and gradient functions, over the same traces as the transforms."""
