"""Ops for which IREE computes wrong values or crashes. One file is one subject; each pattern names its fault."""
