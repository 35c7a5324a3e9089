"""Rewrites of ONNX's nodes, one module a subject, before torch-mlir lowers them; `rewrites.py` joins them."""
