"""Elementary functions of real numbers as functions of the loop IR."""
