"""Rewrites ONNX nodes before torch-mlir lowers them. `rewrites.py` joins the rewrites of the other modules."""
