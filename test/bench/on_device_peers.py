"""Training steps by other compilers, for on_device.py. Each step is a function that runs one step and returns the loss.

compile    torch.compile, with PyTorch's optimizers
xla        tiduc's step, compiled by the XLA in jaxlib
ort        ONNX Runtime for training, in its last version 1.19.2. It supports SGD and AdamW, but no quantized weights
           and no adapters.
"""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], float]

PACKAGES = {"compile": "torch", "xla": "jax", "ort": "onnxruntime.training"}
"""Maps each compiler to the package that it needs."""
ORT_OPTIMIZERS = {"sgd": "SGD", "adam": "AdamW", "adamw": "AdamW"}
"""Maps optimizers of tiduc to optimizers of ONNX Runtime."""


def available() -> list[str]:
    """Returns the compilers whose packages are installed."""
    found = []
    for way, package in PACKAGES.items():
        try:
            if importlib.util.find_spec(package) is not None:
                found.append(way)
        except ModuleNotFoundError:  # the parent package is not installed
            pass
    return found


def of_xla(step: Any, x: Any, t: Any, rate: float) -> Call:
    """Returns a function that runs tiduc's step, compiled by XLA.

    Each call copies the state from and to NumPy arrays.
    """
    compiled = step.compile(engine="xla")
    stored = [step.weights[port.name] for port in step.inputs if port.name in step.weights]

    def call() -> float:
        loss, *new = compiled(*stored, x, t, np.float32(rate))
        stored[: len(new)] = new
        return float(loss)

    return call


def of_ort(module: Any, optimizer: str, rate: float, x: Any, t: Any) -> Call:
    """Returns a function that runs ONNX Runtime's step. The state stays in the session of ONNX Runtime."""
    import onnx
    import onnxruntime
    import torch
    from onnxruntime.training import api, artifacts

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    class Flat(torch.nn.Module):
        """The module with all dimensions of its output except the classes merged, as ONNX Runtime's loss requires."""

        def __init__(self) -> None:
            super().__init__()
            self.of = module

        def forward(self, x: Any) -> Any:
            return self.of(x).flatten(0, -2)

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "net.onnx")
        torch.onnx.export(
            Flat(),
            (torch.tensor(x),),
            file,
            dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            opset_version=16,  # later opsets have LayerNormalization, which ONNX Runtime cannot differentiate
        )
        names = [f"of.{name}" for name, _ in module.named_parameters()]
        artifacts.generate_artifacts(
            onnx.load(file),
            requires_grad=names,
            loss=artifacts.LossType.CrossEntropyLoss,
            optimizer=artifacts.OptimType[ORT_OPTIMIZERS[optimizer]],
            artifact_directory=folder,
        )
        written = str(Path(folder) / "optimizer_model.onnx")
        update = onnx.load(written)
        update.ir_version = 9  # ONNX Runtime 1.19 cannot read later versions of the format
        onnx.save(update, written)
        state = api.CheckpointState.load_checkpoint(str(Path(folder) / "checkpoint"))
        made = api.Module(str(Path(folder) / "training_model.onnx"), state, session_options=options)
        updates = api.Optimizer(written, made)
    updates.set_learning_rate(rate)
    target = t.reshape(-1).astype(np.int64)

    def call() -> float:
        made.train()
        loss = float(made(x, target))
        updates.step()
        made.lazy_reset_grad()
        return loss

    return call


def adapted(layer: Any, a: Any, b: Any, scale: float) -> Any:
    """Returns a module that adds a LoRA adapter to a linear layer, as the library peft does.

    The matrices of the adapter are `a` and `b`.
    """
    import torch
    from torch.nn import functional

    class Adapted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer
            self.a, self.b = (torch.nn.Parameter(torch.tensor(x)) for x in (a, b))

        def forward(self, x: Any) -> Any:
            return self.layer(x) + functional.linear(functional.linear(x, self.a), self.b) * scale

    return Adapted()
