"""Import models from PyTorch, ONNX and JAX: each framework's own exporter lowers a model to StableHLO.

    from_torch, from_onnx, from_jax     import a model in memory, or its file
    legalize                            rewrites ops that the exporters leave and that are not StableHLO
    constants                           makes weights inputs or constants
    model                               a program with its weights
    files                               chooses the importer by a file's suffix

A framework is imported only when one of its models is.
"""

MODELS = (".onnx", ".pt2", ".jaxexport")
"""The suffixes of models; a command reads other files as MLIR."""
