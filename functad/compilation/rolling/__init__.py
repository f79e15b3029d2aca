"""Loop rolling: find unrolled Python loops in an expression list and replace them by `scan` equations."""
