"""Native code through LLVM: vectorisable elementary functions, and the compilation of modules for this machine."""
