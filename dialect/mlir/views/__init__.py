"""Empty modules for MLIR dialects. MLIR's bindings search this package first for a dialect's op classes.

If the bindings found no module for a dialect, each new op view would retry the failing import, which takes time. The
modules are empty on purpose, because tiduc reads ops by name. The bindings therefore no longer import op classes such
as `scf.ForOp` by themselves. Other code in the process that uses such classes must import them explicitly:
`from torch_mlir.dialects import scf`. `mlir/context.py` adds this package to the search path.
"""
