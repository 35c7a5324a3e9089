"""Decompositions of PyTorch's ops, with one module per subject. `table.py` has the table of all decompositions."""
