"""Expression lists in files: the list as JSON, and its arrays."""
