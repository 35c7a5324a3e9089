"""Decompositions of PyTorch's ops, one module per subject; `tiduc/models/torch/ops/table.py` joins them."""
