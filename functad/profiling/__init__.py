"""Where the time and the memory of a function and its gradient go, line by line."""
