"""Differentiation. An entry of this folder is a stage, or one of two tables of rules by op, `rules` and `batching`."""
