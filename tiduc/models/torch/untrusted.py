"""Imports untrusted `.pt2` files of PyTorch. Evaluates no text of a file, and builds the program in a worker process.

    model.pt2 --archive--> parts --worker: schema, rebuilt, decompositions, torch-mlir--> StableHLO
                             +---- imports: the cache of programs that were imported before ----+

The calling process reads the parts of the file without interpreting them, and does not need PyTorch. The worker, which
has limits of time and memory, gets the program and the bytes of arrays that are not weights. `torch.export.load` is
never called, because it evaluates text of a file and unpickles parts of the file.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tiduc.dialect.errors import TiducError, out_of_memory
from tiduc.models.assemble import assemble
from tiduc.models.model import Model
from tiduc.models.torch import archive, imports, schema, targets
from tiduc.models.torch.dialect import import_in_worker
from tiduc.models.torch.exported import Exported, stablehlo
from tiduc.models.torch.faults import message_of_torch
from tiduc.models.torch.imports import Import
from tiduc.models.torch.payloads import Payloads, arrays, documents, read_payloads
from tiduc.models.torch.rebuilt import exported_program, tensors
from tiduc.models.torch.records import ModelRecord
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import warm_up

_NO_TORCH = "importing models of PyTorch requires PyTorch: pip install 'tiduc[torch]'"


def read_file(path: str, lift_constants: bool, limits: Limits | None, cached: bool = True) -> Model:
    """Imports the model in a file. If `cached` is false, the cache of imported programs is neither read nor written.

    Raises `TiducError` if `torch.export.save` did not write the file, or if the file requires the option `trust`.
    """
    try:
        parts = archive.read_parts(path)
        if find_spec("torch") is None:
            raise TiducError(_NO_TORCH)
        key = imports.key_of(parts) if cached else None
        found = imports.read(key, parts) if key else None
        if found is None:
            found = _imported(parts, limits)
            if key:
                imports.write(key, parts, found)
        payloads, given = found
        weights = arrays(given.weights, payloads, parts)
    except MemoryError:
        raise TiducError("the arrays of the file need more memory than there is", path) from None
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", path) from None
    except TiducError as error:
        error.location = error.location or path
        raise
    return assemble(
        given.stablehlo, given.inputs, given.outputs, weights, lift_constants, frozen=given.frozen
    )


def _imported(parts: Mapping[str, bytearray], limits: Limits | None) -> Import:
    """Imports the program of an archive in worker processes, without the cache."""
    warm_up(__name__, "torch.export", "torch_mlir.fx")
    sizes = {name: len(contents) for name, contents in parts.items()}
    payloads = import_in_worker(read_payloads, limits, documents(parts), sizes)
    contents = imports.constants_in(parts, payloads)
    given = import_in_worker(_program, limits, parts[archive.MODEL], payloads, contents, sizes)
    return Import(payloads, given)


# ---- in the worker -----------------------------------------------------------------------------------------


def _program(
    written: bytes | bytearray,
    payloads: Payloads,
    contents: Mapping[str, bytes | bytearray],
    sizes: Mapping[str, int],
) -> Exported:
    """Lowers the program in the JSON `written` to StableHLO. In the result, `weights` maps all names to None."""
    model = schema.read_model(written)
    import torch

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
