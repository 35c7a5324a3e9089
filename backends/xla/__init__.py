"""The backend that compiles programs with XLA, in JAX's runtime. The extra `tiduc[xla]` installs JAX."""
