"""Imports models of PyTorch, ONNX and JAX as StableHLO programs.

    from_torch, from_onnx, from_jax     import a model from an object in memory, or from a file
    onnx/                               rewrites ONNX's nodes, one file per subject, before torch-mlir lowers them
    torch/                              lowers the programs of torch.export; ops/ decomposes ops that torch-mlir lacks
    jax/                                reads JAX's exports, and keeps ops that JAX would expand
    legalize                            rewrites ops of other dialects, which exporters emit, to StableHLO
    constants                           turns weights from inputs into constants and back
    model                               a program with its weights
    files                               chooses the importer by the suffix of a file

The Python package of a framework is imported only if one of its models is. The derivative rules of StableHLO's ops are
in passes/rules.
"""

MODELS = (".onnx", ".pt2", ".jaxexport")
"""The suffixes of files of models. Commands read files with other suffixes as MLIR."""
