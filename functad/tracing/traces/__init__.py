"""What a trace does with an operation: one class for each meaning."""
