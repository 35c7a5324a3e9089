"""Imports torchvision, even if its compiled operators do not fit the installed PyTorch.

This is the case if torchvision was built for GPUs and PyTorch was built for CPUs.
"""

from contextlib import suppress
from typing import Any

import torch

_LIBRARIES: list[Any] = []  # kept alive: a library unregisters its operators when it is deleted


def import_torchvision() -> Any:
    """Imports and returns torchvision.

    If its compiled operators do not load, this function declares those that the import requires.
    """
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
