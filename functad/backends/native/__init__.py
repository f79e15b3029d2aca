"""The backend `llvm`: an expression list as native functions, with loops that LLVM vectorises."""
