"""The vocabulary: every function that functad differentiates, with its rules."""
