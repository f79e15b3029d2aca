"""The programs of other libraries are no tests, and cannot be imported where those are not installed."""

collect_ignore = [
    "autograd_programs.py",
    "autograd_transforms.py",
    "jax_jit_programs.py",
<<<<<<< ours
    "jax_oracle.py",
=======
    "jax_jit_transforms.py",
>>>>>>> theirs
    "jax_programs.py",
    "jax_transforms.py",
    "tensorflow_programs.py",
    "torch_programs.py",
    "torch_transforms.py",
]
