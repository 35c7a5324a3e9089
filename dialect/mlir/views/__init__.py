"""The package in which MLIR's bindings look for the Python modules of dialects (see `dialect/mlir/context.py`).

Without a module for a dialect, each new op view retries a failing import. The modules are empty on purpose, because
tiduc reads ops by name. The bindings therefore no longer import op classes, such as `scf.ForOp`. Other code in the
process that uses such classes must import them: `from torch_mlir.dialects import scf`.
"""
