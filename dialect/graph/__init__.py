"""Graphs as Python records, the view that resolves references between graphs, and searches in graphs and modules."""
