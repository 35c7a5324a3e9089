"""Decompositions of PyTorch's ops, one module a subject; `tiduc/models/torch_ops/table.py` joins them."""
