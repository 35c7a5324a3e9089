"""Passes that save memory: they replace barriers and reorder results."""
