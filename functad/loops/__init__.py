"""The loop IR: programs of loops, loads, operations and stores, below the expression list."""
