"""Expression lists: the intermediate representation of traced functions, and their evaluation."""
