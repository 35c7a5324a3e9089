"""Ops, element types and shapes that IREE lacks. One file is one subject."""
