"""The package in which MLIR's bindings look for the Python modules of dialects (see `dialect/context.py`).

Without a module for a dialect, each new op view retries a failing import. The modules are empty on purpose: ops of
these dialects are read by their names, as ops without a class of their own.
"""
