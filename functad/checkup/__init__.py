"""The checks that a colleague would make of a function before its gradient is trusted."""
