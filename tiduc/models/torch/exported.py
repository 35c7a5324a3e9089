"""Lowers an `ExportedProgram` to StableHLO: decomposes ops, turns weights into inputs, and runs torch-mlir.

Before torch-mlir runs, parameters and buffers become inputs with their `state_dict` names, so that their arrays are
neither copied nor printed. Other tensors of the program, such as integer tables, become constants. If the forward pass
updates a buffer, as batch normalization does in training, the program gets an output `NAME.updated` for the buffer.
Such outputs follow the module's own outputs.
"""

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.emit import bytecode
from tiduc.models.expansions import call_text
from tiduc.models.stops import STOPS, mark_stops, stop_reads, stop_result, stops
from tiduc.models.torch.dialect import import_in_worker, lower_written
from tiduc.models.torch.faults import located
from tiduc.runtime.process import Limits

if TYPE_CHECKING:
    import torch

_FIRST = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline{extra-library=})"
)


@dataclass(frozen=True)
class Exported:
    """A PyTorch program as bytecode of StableHLO, with the names of inputs and outputs.

    `weights` maps the names of weights to tensors.
    """

    stablehlo: bytes
    inputs: list[str]
    outputs: list[str | None]
    weights: dict[str, Any]
    frozen: dict[str, str]
    """Maps the name of each weight for which PyTorch computes no gradient to the reason."""


FROZEN, BUFFER = "requires_grad=False", "a buffer"
"""The possible reasons why PyTorch computes no gradient with respect to a weight."""


def stablehlo(
    torch: ModuleType,
    exported: "torch.export.ExportedProgram",
    limits: Limits | None,
    constant: Collection[int | str] = (),
) -> Exported:
    """Lowers an `ExportedProgram` to StableHLO.

    The outputs in `constant` get derivative zero. An entry of `constant` is the position of an output of the module, or
    the name of an output for an updated tensor.
    """
    with located("PyTorch cannot decompose the program", Unsupported, exported=exported):
        exported = _decomposed(torch, exported)
    with located("torch-mlir cannot import the program", Unsupported, exported=exported):
        inputs, weights, frozen = _inputs(torch, exported)
        outputs = _outputs(torch, exported, constant)
        lowered = import_in_worker(_lowered, limits, _imported(exported))
    return Exported(lowered, inputs, outputs, weights, frozen)


def _lowered(written: bytes) -> bytes:
    return lower_written(written, _FIRST, {**STOPS, "torch.tiduc.call": call_text})


def _decomposed(
    torch: ModuleType, exported: "torch.export.ExportedProgram"
) -> "torch.export.ExportedProgram":
    """Decomposes the program into ops that torch-mlir lowers, and calls of functions written in StableHLO.

    Applies the decompositions of torch-mlir and of this package, and PyTorch's decomposition of `upsample_nearest`.
    """
    from torch._decomp import get_decompositions
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    from tiduc.models.torch.ops.control import lower_control
    from tiduc.models.torch.ops.masks import select_masked
    from tiduc.models.torch.ops.table import TABLE

    mark_stops(torch, exported)
    select_masked(exported)
    aten = torch.ops.aten
    nearest = [aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec]
    own = {**TABLE, **stops(torch)}
    table = {**get_decomposition_table(), **get_decompositions(nearest), **own}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warnings are about names inside PyTorch
        exported = exported.run_decompositions(table)
    lower_control(exported)
    return exported


def _inputs(
    torch: ModuleType, exported: "torch.export.ExportedProgram"
) -> tuple[list[str], dict[str, Any], dict[str, str]]:
    """Turns the weights into inputs of the program, and the program's other tensors into constants.

    Returns the names of all inputs, a map from names to weights, and a map from names of frozen weights to reasons.
    """
    signature, graph = exported.graph_signature, exported.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    changed = set(signature.buffers_to_mutate.values())
    names: dict[str, str] = {}
    weights: dict[str, Any] = {}
    tied: dict[Any, list[tuple[Any, Any]]] = {}
    for spec in signature.input_specs:
        node = placeholders[spec.arg.name]
        tensor = _tensor_behind(exported, spec)
        if hasattr(spec.arg, "value"):  # the export replaced this argument, a number, by a constant
            graph.erase_node(node)
        elif tensor is None:  # the placeholder is an input of the module
            names[node.name] = node.name
        elif not _is_weight(tensor, spec, changed):
            _make_constant(exported.graph_module, node, tensor)
        else:
            tied.setdefault(_place(tensor, spec, changed), []).append((node, spec))
    frozen = {}
    for group in tied.values():
        node, spec = group[0]
        names[node.name] = spec.target
        weights[spec.target] = _tensor_behind(exported, spec)
        if not _tie(torch, exported, group):
            frozen[spec.target] = FROZEN if spec.kind.name == "PARAMETER" else BUFFER
    signature.input_specs[:] = [s for s in signature.input_specs if _tensor_behind(exported, s) is None]
    left = [node.name for node in graph.nodes if node.op == "placeholder"]
    return [names[name] for name in left], weights, frozen


def _tie(
    torch: ModuleType,
    exported: "torch.export.ExportedProgram",
    group: "list[tuple[torch.fx.Node, torch.export.graph_signature.InputSpec]]",
) -> bool:
    """Replaces the placeholders of tied weights by the first placeholder. Returns whether PyTorch trains the weights.

    Tied weights share memory. PyTorch accumulates gradients only from reads of the weights that require a gradient. If
    a weight requires one, the gradient is stopped at reads of the weights that do not.
    """
    first = group[0][0]
    flags = [
        spec.kind.name == "PARAMETER" and _tensor_behind(exported, spec).requires_grad for _, spec in group
    ]
    for (node, _), requires_grad in zip(group, flags, strict=True):
        if any(flags) and not requires_grad:
            stop_reads(torch, exported.graph, node)
    for node, _ in group[1:]:
        node.replace_all_uses_with(first)
        exported.graph.erase_node(node)
    return any(flags)


def _make_constant(
    module: "torch.fx.GraphModule", placeholder: "torch.fx.Node", tensor: "torch.Tensor"
) -> None:
    """Replaces reads of the placeholder by the tensor or, in a list of operands, by an attribute of the module.

    torch-mlir cannot import tensors in lists of operands. Each list needs a node of its own that reads the attribute,
    because torch-mlir imports such a node only for one reader.
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


def _tensor_behind(
    exported: "torch.export.ExportedProgram", spec: "torch.export.graph_signature.InputSpec"
) -> Any:
    """The program's tensor that is passed as an input. Returns None for an input of the module."""
    if spec.target is None:
        return None
    array = exported.state_dict.get(spec.target)
    return exported.constants.get(spec.target) if array is None else array


def _is_weight(
    tensor: "torch.Tensor", spec: "torch.export.graph_signature.InputSpec", changed: set[str]
) -> bool:
    """Whether a tensor is a weight: it has floats and is in the `state_dict`, or the forward pass updates it."""
    floats = tensor.is_floating_point() or tensor.is_complex()
    named = spec.kind.name == "PARAMETER" or (spec.kind.name == "BUFFER" and spec.persistent)
    return (floats and named) or spec.target in changed


def _place(tensor: "torch.Tensor", spec: "torch.export.graph_signature.InputSpec", changed: set[str]) -> Any:
    """A key that identifies the tensor's memory. Tied tensors have equal keys."""
    if not tensor.numel() or spec.target in changed:
        return spec.target
    storage = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
    return *storage, tensor.shape, tensor.stride(), tensor.dtype


def _outputs(
    torch: ModuleType, exported: "torch.export.ExportedProgram", constant: Collection[int | str]
) -> list[str | None]:
    """Moves the outputs for updated tensors to the end, and stops the gradients of the outputs in `constant`.

    Returns the outputs' names. The name is None for an output of the module.
    """
    (node,) = [node for node in exported.graph.nodes if node.op == "output"]
    specs = exported.graph_signature.output_specs
    paired = [(x, spec) for x, spec in zip(node.args[0], specs, strict=True) if hasattr(x, "meta")]
    paired.sort(key=lambda pair: pair[1].target is not None)
    names = [None if spec.target is None else f"{spec.target}.updated" for _, spec in paired]
    node.args = (
        tuple(
            stop_result(torch, node, x) if i in constant or name in constant else x
            for i, ((x, _), name) in enumerate(zip(paired, names, strict=True))
        ),
    )
    return names


def _imported(exported: "torch.export.ExportedProgram") -> bytes:
    """Imports the program to the torch dialect, and returns it as bytecode."""
    from torch_mlir.fx import export_and_import

    module = export_and_import(exported, output_type="raw", decomposition_table={})
    with module.context:
        return bytecode(module)
