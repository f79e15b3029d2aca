"""Native code through LLVM: elementary functions as vectorisable code, and modules that are compiled for this machine."""
