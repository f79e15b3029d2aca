"""The backend `xla`: an expression list replayed through `jax.numpy` and `jax.lax`, compiled by XLA."""
