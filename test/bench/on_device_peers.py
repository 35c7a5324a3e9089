"""Steps of training by other compilers, for on_device.py: a call returns the loss; a name is missing if its package is.

compile    torch.compile, with PyTorch's optimizers
xla        tiduc's step, compiled by the XLA of jaxlib
ort        ONNX Runtime for training, 1.19.2, the last version: SGD and AdamW only; no integers, no adapters
"""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], float]

PACKAGES = {"compile": "torch", "xla": "jax", "ort": "onnxruntime.training"}
"""The package that each way needs."""
ORT_OPTIMIZERS = {"sgd": "SGD", "adam": "AdamW", "adamw": "AdamW"}
"""The optimizers of ONNX Runtime."""


def available() -> list[str]:
    """The ways whose packages are installed."""
    found = []
    for way, package in PACKAGES.items():
        try:
            if importlib.util.find_spec(package) is not None:
                found.append(way)
        except ModuleNotFoundError:  # the package around it is missing
            pass
    return found


def of_xla(step: Any, x: Any, t: Any, rate: float) -> Call:
    """A call of tiduc's step on XLA; its state is copied in each call."""
    compiled = step.compile(engine="xla")
    stored = [step.weights[port.name] for port in step.inputs if port.name in step.weights]

    def call() -> float:
        loss, *new = compiled(*stored, x, t, np.float32(rate))
        stored[: len(new)] = new
        return float(loss)

    return call


def of_ort(module: Any, optimizer: str, rate: float, x: Any, t: Any) -> Call:
    """A call of ONNX Runtime's step; the state stays in its session."""
    import onnx
    import onnxruntime
    import torch
    from onnxruntime.training import api, artifacts

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    class Flat(torch.nn.Module):
        """The module with a row of outputs for each class, as ONNX Runtime's loss takes them."""

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
            opset_version=16,  # later sets have LayerNormalization, of which ONNX Runtime takes no gradient here
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
        update.ir_version = 9  # ONNX Runtime 1.19 reads no later format
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
    """A linear layer with an adapter, as peft computes it."""
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
