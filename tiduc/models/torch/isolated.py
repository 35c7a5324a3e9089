"""Lowers the program of an untrusted `.pt2` file to StableHLO, in a worker process.

The worker imports this module at its start. The module therefore imports few others: importing all of tiduc would take
0.3 s.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tiduc.dialect.errors import TiducError, out_of_memory
from tiduc.models.torch import schema, targets
from tiduc.models.torch.exported import Exported, stablehlo
from tiduc.models.torch.faults import message_of_torch
from tiduc.models.torch.payloads import Payloads
from tiduc.models.torch.rebuilt import exported_program, tensors
from tiduc.models.torch.records import ModelRecord
from tiduc.models.torch.spared import spare_work


def lower_program(
    written: bytes | bytearray,
    payloads: Payloads,
    contents: Mapping[str, bytes | bytearray],
    sizes: Mapping[str, int],
) -> Exported:
    """Lowers the program in the JSON `written` to StableHLO. In the result, `weights` maps all names to None."""
    model = schema.read_model(written)
    import torch

    spare_work(torch)
    with _without_cache(torch):
        return _lowered(torch, model, payloads, {**sizes, **contents})


def _lowered(torch: ModuleType, model: ModelRecord, payloads: Payloads, given: dict[str, Any]) -> Exported:
    try:
        weights, constants = (tensors(torch, each, given) for each in (payloads.weights, payloads.constants))
        exported = exported_program(torch, model, weights, constants)
    except (MemoryError, TiducError):
        raise
    except Exception as error:  # raised by PyTorch or SymPy
        raise TiducError(f"not a program written by torch.export.save: {message_of_torch(error)}") from error
    try:
        lowered = stablehlo(torch, exported, None)
    except TiducError as error:
        if out_of_memory(error.message.encode()):
            raise MemoryError from None
        raise
    finally:
        targets.end_steps(torch)
    return replace(lowered, weights=dict.fromkeys(lowered.weights))


@contextmanager
def _without_cache(torch: ModuleType) -> Iterator[None]:
    """Context manager in whose body PyTorch does not read the cache of its compiler.

    The cache is in the shared folder for temporary files, so that any user of the machine can write it. PyTorch reads
    settings from it while it decomposes a program. In the body, PyTorch uses the folder of its own package as the
    cache. That folder has no settings, and is as trustworthy as PyTorch.
    """
    name = "TORCHINDUCTOR_CACHE_DIR"
    before = os.environ.get(name)
    os.environ[name] = str(Path(torch.__path__[0]))
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
