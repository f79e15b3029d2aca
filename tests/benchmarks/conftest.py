"""The programs of other libraries are no tests, and cannot be imported where those are not installed."""

collect_ignore = [
    "autograd_programs.py",
    "autograd_transforms.py",
    "feature_probes_autograd.py",
    "feature_probes_jax.py",
    "feature_probes_mygrad.py",
    "feature_probes_tensorflow.py",
    "feature_probes_torch.py",
    "jax_jit_programs.py",
    "jax_jit_transforms.py",
    "jax_oracle.py",
    "jax_programs.py",
    "jax_transforms.py",
    "tensorflow_programs.py",
    "torch_programs.py",
    "torch_transforms.py",
]
