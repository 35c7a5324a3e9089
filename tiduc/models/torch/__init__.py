"""From a program that `torch.export` wrote to StableHLO: its file, torch-mlir's dialect, and PyTorch's errors."""
