"""The programs of other libraries are no tests, and cannot be imported where those are not installed."""

collect_ignore = [
    "autograd_programs.py",
    "jax_jit_programs.py",
    "jax_oracle.py",
    "jax_programs.py",
    "tensorflow_programs.py",
    "torch_programs.py",
]
