"""Functions with user-defined derivative rules, and checkpointing."""
