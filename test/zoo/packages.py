"""Imports torchvision. Its wheel for GPUs then works with PyTorch for CPUs, too."""

from contextlib import suppress
from typing import Any

import torch

_LIBRARIES: list[Any] = []  # kept alive: a library unregisters its operators when it is deleted


def import_torchvision() -> Any:
    """Imports torchvision. If its compiled operators do not load, declares the operators that the import needs."""
    import importlib
    import sys

    with suppress(ImportError, RuntimeError):
        return importlib.import_module("torchvision")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)
    return importlib.import_module("torchvision")
