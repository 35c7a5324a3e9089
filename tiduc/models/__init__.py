"""Models of PyTorch, ONNX and JAX as programs: each becomes StableHLO by its framework's own exporter.

    from_torch, from_onnx, from_jax     a model in memory, or its file
    legalize                            what the exporters leave that is no StableHLO
    constants                           weights as inputs, or as constants
    model                               a program and its weights
    files                               which of these a file wants

A framework is imported when a model of its is.
"""
