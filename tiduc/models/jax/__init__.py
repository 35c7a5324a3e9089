"""What `jax.export` writes: its files, ops that it would expand, and derivatives that functions define themselves."""
