"""XLA, in JAX's runtime: a second engine, which the extra `tiduc[xla]` installs."""
