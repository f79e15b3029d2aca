"""Expression lists in files: JSON that says what they compute, and the arrays in them."""
