"""The stages as MLIR passes, and textual pipelines of them."""
