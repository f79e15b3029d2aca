"""`functad.jit`: trace functions into expression lists, simplify the lists, and compile them."""
