"""MLIR itself: the context, reading and writing of modules, constants, resources, and the bindings' packages."""
