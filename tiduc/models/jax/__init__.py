"""Reads files of `jax.export`. Keeps ops that `jax.export` would expand, and custom derivatives of functions."""
