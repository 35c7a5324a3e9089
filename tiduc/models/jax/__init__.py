"""Reads the files of `jax.export`. Keeps ops that `jax.export` would expand, and derivatives that functions define."""
