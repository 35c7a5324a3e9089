"""Ops with dynamic dimensions, which IREE compiles only for static shapes."""
