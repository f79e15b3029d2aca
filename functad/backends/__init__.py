"""From an expression list to something that runs: the backends of compilation, imported by nothing but `functad.compilation`."""
