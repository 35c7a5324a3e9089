"""Imports PyTorch modules by `torch.export` and torch-mlir.

module --torch.export--> ExportedProgram --torch-mlir--> torch dialect --> StableHLO
file.pt2 --torch/untrusted.py--> ExportedProgram, in a worker
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tiduc.dialect.errors import TiducError
from tiduc.models.assemble import assemble
from tiduc.models.model import Model
from tiduc.models.torch.exported import stablehlo
from tiduc.models.torch.faults import located, message_of_torch, quiet
from tiduc.models.torch.untrusted import read_file
from tiduc.runtime.arrays import Array
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import warm_up

if TYPE_CHECKING:
    import torch


def from_torch(
    module: "torch.nn.Module | torch.export.ExportedProgram",
    example_inputs: Sequence[object] = (),
    example_keywords: Mapping[str, object] | None = None,
    *,
    lift_constants: bool = False,
    dynamic_shapes: object = None,
    limits: Limits | None = None,
    trust: bool = False,
    cached: bool = True,
) -> Model:
    """The program of a `torch.nn.Module`, of an `ExportedProgram`, or of the `.pt2` file of an `ExportedProgram`.

    The program has the inputs of the module, with the types of the example inputs. With `lift_constants`, float
    parameters and buffers are also inputs. They come first, and are named as in `state_dict`. A parameter with several
    names has the first of them. Training does not update buffers, nor parameters with `requires_grad=False`, and
    derivatives without `wrt` omit them. `dynamic_shapes` is the argument of `torch.export.export`; these dimensions
    stay dynamic. `limits` bound torch-mlir's pipelines, which run in a separate process. Without `trust`, that process
    also builds the program of a `.pt2` file, and evaluates no part of the file; `cached` says whether the program may
    come from the cache of an earlier import. With `trust`, PyTorch reads the file. Raises `TiducError` if PyTorch
    cannot export the module, `Unsupported` if StableHLO cannot express an op, and `CompileError` if torch-mlir exceeds
    its limits.
    """
    if isinstance(module, str | Path) and not trust:
        return read_file(str(module), lift_constants, limits, cached)
    warm_up(stablehlo.__module__)
    torch = _torch()
    if isinstance(module, str | Path):
        exported = _trusted(torch, str(module))
    else:
        exported = _exported(torch, module, example_inputs, example_keywords, dynamic_shapes)
    return _model(torch, exported, lift_constants, limits)


def from_graph(
    module: "torch.nn.Module", inputs: Sequence[object], constant: Collection[int | str] = ()
) -> Model:
    """The program of a module without weights, such as a graph of `torch.compile`.

    Outputs in `constant` have no derivative. `models.torch.exported.stablehlo` describes the entries of `constant`.
    """
    warm_up(stablehlo.__module__)
    torch = _torch()
    exported = _exported(torch, module, inputs, None, None)
    for node in list(exported.graph.nodes):
        # The module `_guards_fn` checks the shapes of arguments. They are always those of `inputs`.
        if node.op == "call_module" and node.target == "_guards_fn":
            exported.graph.erase_node(node)
    return _model(torch, exported, False, None, constant)


def _model(
    torch: ModuleType,
    exported: "torch.export.ExportedProgram",
    lift_constants: bool,
    limits: Limits | None,
    constant: Collection[int | str] = (),
) -> Model:
    given = stablehlo(torch, exported, limits, constant)
    arrays = {name: _array(torch, tensor) for name, tensor in given.weights.items()}
    return assemble(given.stablehlo, given.inputs, given.outputs, arrays, lift_constants, frozen=given.frozen)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise TiducError("importing models of PyTorch requires PyTorch: pip install 'tiduc[torch]'") from None
    return torch


def _trusted(torch: ModuleType, path: str) -> Any:
    """Reads an `ExportedProgram` from a file by PyTorch, which may run code that the file contains."""
    with _logged() as causes:
        try:
            with open(path, "rb"):  # if the file cannot be opened, `open` has the better error message
                pass
            return torch.export.load(path)
        except OSError as error:
            raise TiducError(f"cannot read: {error.strerror or error}", path) from None
        except Exception as error:  # raised by zipfile, json or PyTorch
            why = message_of_torch(causes[-1] if causes else error)
            raise TiducError(f"not a program written by torch.export.save: {why}", path) from error


@contextmanager
def _logged() -> Iterator[list[BaseException]]:
    """Context manager: yields a list of the exceptions that `torch.export.load` logs. Their log records are dropped."""
    errors: list[BaseException] = []

    def is_printed(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        errors.extend([error] if error else [])
        return error is None

    logger = logging.getLogger("torch.export")
    logger.addFilter(is_printed)
    try:
        yield errors
    finally:
        logger.removeFilter(is_printed)


def _exported(
    torch: ModuleType,
    module: "torch.nn.Module",
    inputs: Sequence[object],
    keywords: Mapping[str, object] | None,
    dynamic_shapes: object,
) -> "torch.export.ExportedProgram":
    """Exports a module as an `ExportedProgram`. Returns an `ExportedProgram` unchanged."""
    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        raise TiducError(f"expects a torch.nn.Module or an ExportedProgram, has {type(module).__name__}")
    if isinstance(inputs, torch.Tensor):
        raise TiducError(
            "example_inputs is a tensor; expects a tuple with a value for each input, such as (x,)"
        )
    from tiduc.models.torch.ops.before_export import Replacing
    from tiduc.models.torch.ops.own_derivatives import own_derivatives

    inputs, keywords = _distinct(torch, (tuple(inputs), dict(keywords or {})))
    explained = located("PyTorch cannot export the module", TiducError, module)
    with explained, quiet(), own_derivatives(), Replacing():
        return torch.export.export(module, inputs, keywords, dynamic_shapes=dynamic_shapes, strict=False)


def _distinct(torch: Any, tree: object) -> Any:
    """The example inputs, in which repeated tensors are copied. Otherwise, `torch.export` would merge these inputs."""
    seen: set[int] = set()

    def distinct(x: object) -> "torch.Tensor":
        if isinstance(x, torch.Tensor) and id(x) in seen:
            return x.detach().clone()
        seen.add(id(x))
        return x

    return torch.utils._pytree.tree_map(distinct, tree)


def _array(torch: ModuleType, tensor: "torch.Tensor") -> Array:
    """The tensor as an array. The elements are copied, because the module may change the tensor later."""
    tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    name = str(tensor.dtype).removeprefix("torch.")
    if hasattr(np, name):
        return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
    raw = np.asarray(tensor.reshape(-1).view(torch.uint8).numpy())
    array: Array = raw.view(getattr(ml_dtypes, name)).reshape(tuple(tensor.shape))
    return array
