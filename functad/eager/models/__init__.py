"""Variables, modules, and files of their values."""
