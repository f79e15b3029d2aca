"""Variables, modules, and files with their values."""
