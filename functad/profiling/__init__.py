"""Time and memory of a function and its gradient, line by line."""
