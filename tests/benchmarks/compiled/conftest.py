"""The programs of other libraries are no tests, and cannot be imported where those are not installed."""

collect_ignore = ["with_jax", "with_torch"]
