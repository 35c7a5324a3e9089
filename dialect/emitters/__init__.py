"""Emitters of StableHLO ops: builders of graphs and regions, and functions that emit several ops for one result."""
