"""Rewrites of ONNX's nodes, one module per subject, before torch-mlir lowers them; `rewrites.py` joins them."""
