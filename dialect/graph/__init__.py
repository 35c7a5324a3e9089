"""Graphs as Python records, the view that follows their references, and the builder that emits into a graph."""
