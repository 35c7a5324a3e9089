"""Imports PyTorch modules by way of `torch.export` and torch-mlir.

    module --torch.export--> ExportedProgram --torch-mlir--> torch dialect --> StableHLO

Parameters and buffers become inputs, under their `state_dict` names, before torch-mlir runs, so that no array
is copied or printed. Other tensors of the program, such as integer tables, are constants. A buffer that the
forward pass updates, as batch normalization does in training, adds an output `NAME.updated` after the
module's own outputs.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tiduc.dialect.emit import bytecode
from tiduc.dialect.errors import TiducError, Unsupported
from tiduc.models.assemble import assemble
from tiduc.models.expansions import call_text
from tiduc.models.model import Model
from tiduc.models.stops import STOPS, mark_stops, stops
from tiduc.models.torch.dialect import import_in_worker, lower_written
from tiduc.models.torch.faults import first_line, located, quiet
from tiduc.models.torch.untrusted import load_export
from tiduc.runtime.arrays import Array
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import warm_up

_FIRST = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline{extra-library=})"
)


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] = (),
    example_keywords: Mapping[str, Any] | None = None,
    *,
    lift_constants: bool = False,
    dynamic_shapes: Any = None,
    limits: Limits | None = None,
    trust: bool = False,
) -> Model:
    """The program of a `torch.nn.Module`, of an `ExportedProgram`, or of the `.pt2` file of one.

    The inputs are the module's, with the types of the example inputs. With `lift_constants`, float parameters
    and buffers are inputs too, before the others and named as in `state_dict`; tied parameters keep the first
    name. `dynamic_shapes` are those of `torch.export.export`; these dimensions stay dynamic.
    `limits` are those of torch-mlir's pipelines, which run in a separate process. Without `trust`, no code in
    a `.pt2` file is run while the file is read.
    `TiducError` where PyTorch cannot export the module, `Unsupported` where an op has no StableHLO,
    `CompileError` where torch-mlir exceeds its limits.
    """
    warm_up(__name__)
    torch = _torch()
    if isinstance(module, str | Path):
        exported = _read(torch, str(module), trust)
    else:
        exported = _exported(torch, module, example_inputs, example_keywords, dynamic_shapes)
    with located("PyTorch cannot decompose the program", Unsupported, exported=exported):
        exported = _decomposed(torch, exported)
    with located("torch-mlir cannot import the program", Unsupported, exported=exported):
        inputs, weights = _inputs(exported)
        outputs = _outputs(exported)
        lowered = import_in_worker(_lowered, limits, _imported(exported))
    arrays = {name: _array(torch, tensor) for name, tensor in weights.items()}
    return assemble(lowered, inputs, outputs, arrays, lift_constants)


def _lowered(written: bytes) -> bytes:
    return lower_written(written, _FIRST, {**STOPS, "torch.tiduc.call": call_text})


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise TiducError("models of PyTorch need it: pip install 'tiduc[torch]'") from None
    return torch


def _read(torch: Any, path: str, trust: bool) -> Any:
    """The `ExportedProgram` in a file."""
    with _logged() as causes:
        try:
            with open(path, "rb"):  # open() has the better error message
                pass
            return load_export(torch, path, trust)
        except TiducError:
            raise
        except OSError as error:
            raise TiducError(f"cannot read: {error.strerror or error}", path) from None
        except Exception as error:  # raised by zipfile, json or PyTorch
            why = first_line(causes[-1] if causes else error)
            raise TiducError(f"not a program written by torch.export.save: {why}", path) from error


@contextmanager
def _logged() -> Iterator[list[BaseException]]:
    """Collects the exceptions that `torch.export.load` logs with a traceback, which are not printed."""
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


def _exported(torch: Any, module: Any, inputs: Sequence[Any], keywords: Any, dynamic_shapes: Any) -> Any:
    """The `ExportedProgram` of a module, or the module itself where it is one."""
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

    explained = located("PyTorch cannot export the module", TiducError, module)
    with explained, quiet(), own_derivatives(), Replacing():
        return torch.export.export(
            module, tuple(inputs), dict(keywords or {}), dynamic_shapes=dynamic_shapes, strict=False
        )


def _decomposed(torch: Any, exported: Any) -> Any:
    """The program in the ops that torch-mlir lowers and in calls of functions written in StableHLO.

    The decompositions are torch-mlir's, PyTorch's for ops that torch-mlir does not lower, and those of this package.
    """
    from torch._decomp import get_decompositions
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    from tiduc.models.torch.ops.control import lower_control
    from tiduc.models.torch.ops.table import TABLE

    mark_stops(torch, exported)
    aten = torch.ops.aten
    nearest = [aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec]
    own = {**TABLE, **stops(torch)}
    table = {**get_decomposition_table(), **get_decompositions(nearest), **own}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about PyTorch's own names
        exported = exported.run_decompositions(table)
    lower_control(exported)
    return exported


def _inputs(exported: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of the inputs, and the weights by name; makes the weights plain inputs.

    Other tensors of the program replace the placeholders that stand for them.
    """
    signature, graph = exported.graph_signature, exported.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    changed = set(signature.buffers_to_mutate.values())
    names: dict[str, str] = {}
    weights: dict[str, Any] = {}
    first: dict[Any, Any] = {}
    for spec in signature.input_specs:
        node = placeholders[spec.arg.name]
        tensor = _tensor_behind(exported, spec)
        if hasattr(spec.arg, "value"):  # a number, which the export has made a constant
            graph.erase_node(node)
        elif tensor is None:  # an input of the module
            names[node.name] = node.name
        elif not _is_weight(tensor, spec, changed):
            _make_constant(exported.graph_module, node, tensor)
        elif (
            same := first.setdefault(_place(tensor, spec, changed), node)
        ) is not node:  # tied to an earlier weight
            node.replace_all_uses_with(same)
            graph.erase_node(node)
        else:
            names[node.name] = spec.target
            weights[spec.target] = tensor
    signature.input_specs[:] = [s for s in signature.input_specs if _tensor_behind(exported, s) is None]
    left = [node.name for node in graph.nodes if node.op == "placeholder"]
    return [names[name] for name in left], weights


def _make_constant(module: Any, placeholder: Any, tensor: Any) -> None:
    """Replaces the placeholder by the tensor; within lists, by attributes of the module.

    torch-mlir reads no tensors in lists of nodes, and reads the node of an attribute once only.
    """
    from tiduc.models.torch.ops.fills import hide

    if hide(module.graph, placeholder, tensor):
        return
    name = f"constant_of_{placeholder.name}"
    for user in list(placeholder.users):
        for i, argument in enumerate(user.args if user.op != "output" else ()):
            if isinstance(argument, list | tuple) and placeholder in argument:
                module.register_buffer(name, tensor)
                with module.graph.inserting_before(user):
                    constant = module.graph.get_attr(name)
                user.update_arg(i, [constant if x is placeholder else x for x in argument])
    placeholder.replace_all_uses_with(tensor)
    module.graph.erase_node(placeholder)


def _tensor_behind(exported: Any, spec: Any) -> Any:
    """The program's tensor behind an input; None for an input of the module."""
    if spec.target is None:
        return None
    array = exported.state_dict.get(spec.target)
    return exported.constants.get(spec.target) if array is None else array


def _is_weight(tensor: Any, spec: Any, changed: set[str]) -> bool:
    """Whether the tensor is a float in the `state_dict`, or a buffer that the forward pass updates."""
    floats = tensor.is_floating_point() or tensor.is_complex()
    named = spec.kind.name == "PARAMETER" or (spec.kind.name == "BUFFER" and spec.persistent)
    return (floats and named) or spec.target in changed


def _place(tensor: Any, spec: Any, changed: set[str]) -> Any:
    """A key for the tensor's memory; tied tensors have equal keys."""
    if not tensor.numel() or spec.target in changed:
        return spec.target
    storage = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
    return *storage, tensor.shape, tensor.stride(), tensor.dtype


def _outputs(exported: Any) -> list[str | None]:
    """The names of the outputs; moves the outputs for updated buffers to the end."""
    (node,) = [node for node in exported.graph.nodes if node.op == "output"]
    specs = exported.graph_signature.output_specs
    paired = [(x, spec) for x, spec in zip(node.args[0], specs, strict=True) if hasattr(x, "meta")]
    paired.sort(key=lambda pair: pair[1].target is not None)
    node.args = (tuple(x for x, _ in paired),)
    return [None if spec.target is None else f"{spec.target}.updated" for _, spec in paired]


def _imported(exported: Any) -> bytes:
    """The bytecode of the program in the torch dialect."""
    from torch_mlir import fx

    module = fx.export_and_import(exported, output_type="raw", decomposition_table={})
    with module.context:
        return bytecode(module)


def _array(torch: Any, tensor: Any) -> Array:
    """A copy of the tensor, since the module may change the tensor later."""
    tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    name = str(tensor.dtype).removeprefix("torch.")
    if hasattr(np, name):
        return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
    raw = np.asarray(tensor.reshape(-1).view(torch.uint8).numpy())
    array: Array = raw.view(getattr(ml_dtypes, name)).reshape(tuple(tensor.shape))
    return array
