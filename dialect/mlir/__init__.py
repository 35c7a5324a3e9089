"""The interface to MLIR: its context, reading and writing of modules, constants, resources, and the Python bindings."""
