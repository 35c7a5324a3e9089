"""Reads the files of `jax.export`; keeps ops that it would expand, and derivatives that functions define."""
