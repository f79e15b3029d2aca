"""Random NumPy programs: how they are drawn, what is checked of them, and how those that fail are made short."""
