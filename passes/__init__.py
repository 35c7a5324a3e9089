"""Differentiation: one stage per file or folder, and two tables of rules per op, `rules` and `batching`."""
