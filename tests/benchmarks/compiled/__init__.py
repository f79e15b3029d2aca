"""The programs of `python -m tests.benchmarks.compile`: what is compiled, and the same by others and by hand."""
