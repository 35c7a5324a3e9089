"""The stages as MLIR passes, and textual pass pipelines."""
