"""Decompositions of PyTorch's ops, one module a subject; `tiduc/models/torch/ops/table.py` joins them."""
