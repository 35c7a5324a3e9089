"""Import models from PyTorch, ONNX and JAX: each framework's own exporter lowers a model to StableHLO.

    from_torch, from_onnx, from_jax     import a model in memory, or its file
    onnx_*                              rewrite ONNX's nodes, one subject a file, before torch-mlir lowers them
    torch_ops/                          decompositions of PyTorch's ops that torch-mlir does not lower
    jax_*                               read JAX's exports, and keep ops that JAX would expand
    legalize                            rewrites ops that the exporters leave and that are not StableHLO
    constants                           makes weights inputs or constants
    model                               a program with its weights
    files                               chooses the importer by a file's suffix

A framework is imported only when one of its models is. An op that a framework has and StableHLO lacks is rewritten
here; an op of StableHLO that lacks a rule gets the rule in passes/rules.
"""

MODELS = (".onnx", ".pt2", ".jaxexport")
"""The suffixes of models; a command reads other files as MLIR."""
