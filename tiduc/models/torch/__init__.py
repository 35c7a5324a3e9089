"""Lowers a program of `torch.export` to StableHLO: reads its file, lowers torch-mlir's dialect, explains errors."""
