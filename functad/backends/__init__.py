"""From an expression list to something that runs: the backends, imported by nothing but `functad.compilation`."""
