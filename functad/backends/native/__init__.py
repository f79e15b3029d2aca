"""The backend `llvm`: compiles an expression list to native functions, with loops that LLVM vectorises."""
