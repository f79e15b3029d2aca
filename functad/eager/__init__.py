"""The TensorFlow-style layer: tapes, variables and the implicit gradient functions, over the same tracer as the transforms."""
