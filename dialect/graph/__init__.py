"""Graphs as Python records, references between graphs, and searches in graphs and MLIR modules."""
