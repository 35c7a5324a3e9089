"""Ops with dynamic dimensions, which IREE compiles for static shapes alone."""
