"""Adoption of other code: replacements that accept Tensors, and the modules that are changed to use them."""
