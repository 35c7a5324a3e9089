"""Import models from PyTorch, ONNX and JAX: each framework's own exporter lowers a model to StableHLO.

    from_torch, from_onnx, from_jax     import a model in memory, or its file
    onnx/                               rewrites ONNX's nodes, one file per subject, before torch-mlir lowers them
    torch/                              lowers the programs of torch.export; ops/ decomposes ops that torch-mlir lacks
    jax/                                reads JAX's exports, and keeps ops that JAX would expand
    legalize                            rewrites ops of exporters that are not StableHLO
    constants                           makes weights inputs or constants
    model                               a program with its weights
    files                               chooses the importer by a file's suffix

A framework is imported only with one of its models. An op of a framework that StableHLO lacks is rewritten here. The
derivative rules of StableHLO's ops are in passes/rules.
"""

MODELS = (".onnx", ".pt2", ".jaxexport")
"""The suffixes of models; a command reads other files as MLIR."""
