"""The backend `xla`: replays an expression list with `jax.numpy` and `jax.lax`, and compiles it with XLA."""
