"""Where MLIR's bindings look for a dialect's Python module (see `dialect/context.py`).

A dialect without one costs a failing import at every op view; these modules are empty on purpose.
"""
