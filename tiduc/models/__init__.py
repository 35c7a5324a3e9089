"""Import models from PyTorch, ONNX and JAX: each framework's own exporter lowers a model to StableHLO.

    from_torch, from_onnx, from_jax     import a model in memory, or its file
    onnx/                               rewrites ONNX's nodes, one subject a file, before torch-mlir lowers them
    torch/                              lowers what torch.export writes; ops/ decomposes ops that torch-mlir lacks
    jax/                                reads JAX's exports, and keeps ops that JAX would expand
    legalize                            rewrites ops that the exporters leave and that are not StableHLO
    constants                           makes weights inputs or constants
    model                               a program with its weights
    files                               chooses the importer by a file's suffix

A framework is imported only when one of its models is. An op that a framework has and StableHLO lacks is rewritten
here; an op of StableHLO that lacks a rule gets the rule in passes/rules.
"""

MODELS = (".onnx", ".pt2", ".jaxexport")
"""The suffixes of models; a command reads other files as MLIR."""
