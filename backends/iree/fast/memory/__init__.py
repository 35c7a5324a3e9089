"""Passes that lower a program's peak of memory: they replace or insert barriers, and reorder ops."""
