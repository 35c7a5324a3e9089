"""Reads the files of `jax.export`, and keeps ops that it would expand and derivatives that functions define."""
