"""The expression list: what a traced function is, and the walk that runs it."""
