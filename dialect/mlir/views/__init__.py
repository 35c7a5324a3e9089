"""The package in which MLIR's bindings look for the Python modules of dialects (see `dialect/mlir/context.py`).

Without a module for a dialect, each new op view retries a failing import. The modules are empty on purpose: tiduc
reads ops by their names. Code in the same process that reads ops by their classes, such as `scf.ForOp`, has to import
these classes (`from torch_mlir.dialects import scf`): the bindings no longer import them at the first op of a dialect.
"""
