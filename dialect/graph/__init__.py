"""Graphs as Python records, the view that follows their references, and searches in graphs and in MLIR modules."""
