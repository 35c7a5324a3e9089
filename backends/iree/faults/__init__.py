"""IREE computes another value, or its compiler crashes. One file is one subject; each pattern names its fault."""
