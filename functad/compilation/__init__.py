"""`functad.jit`: functions as expression lists that a backend compiles."""
