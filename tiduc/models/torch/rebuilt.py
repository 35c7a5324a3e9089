"""Builds the `ExportedProgram` of a `.pt2` archive from its checked record, without PyTorch's deserializer.

    {"target": "torch.ops.aten.sin.default", "inputs": [x], "outputs": [y]}    ->    %y = call_function[sin](%x)

PyTorch's deserializer evaluates text of the file: expressions for sizes, guards, paths of functions, and pickles. This
module instead creates each node of the `torch.fx.Graph` from a function that `targets.py` allows and arguments that
`schema.py` has checked. It ignores guards, sample inputs, and the nesting of the module's inputs and outputs. The
program's inputs and outputs are therefore flat lists.
"""

import mmap
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.models.torch.archive import Refused
from tiduc.models.torch.payloads import Payload
from tiduc.models.torch.rebuilt_nodes import NodeBuilder
from tiduc.models.torch.records import ModelRecord, SignatureRecord
from tiduc.models.torch.sizes import SizeEnvironment

if TYPE_CHECKING:
    import torch


_VERIFIER = "TRAINING"


def exported_program(
    torch: ModuleType,
    model: ModelRecord,
    weights: "Mapping[str, torch.Tensor]",
    constants: "Mapping[str, torch.Tensor]",
) -> Any:
    """Builds the `ExportedProgram` for a record from `schema.read_model`, with the given weights and constants."""
    from torch._export.verifier import TrainingIRVerifier, Verifier
    from torch.export import ExportedProgram

    record = model["graph_module"]
    sizes = SizeEnvironment(torch, model["range_constraints"])
    signature = _signature(torch, record["signature"])
    _check_tensors(signature, weights, constants)
    nodes = NodeBuilder(torch, sizes, torch.nn.Module())
    module = nodes.module_of(record["graph"], [spec.arg.name for spec in signature.input_specs])
    if sizes.pending:
        raise Refused("no operator of the program defines one of its data-dependent sizes")
    is_training = _VERIFIER in (model["verifiers"] or [])
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=weights,
        range_constraints=sizes.ranges,
        module_call_graph=[_call(torch, signature)],
        constants=constants,
        verifiers=[TrainingIRVerifier if is_training else Verifier],
    )


def _call(torch: ModuleType, signature: "torch.export.ExportGraphSignature") -> Any:
    """The program's calling convention: the module's inputs are positional arguments, and its outputs are a tuple."""
    from torch.export import ModuleCallEntry, ModuleCallSignature
    from torch.utils import _pytree

    given = [spec.arg.name for spec in signature.input_specs if spec.target is None]
    results = [spec for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    names = [name or f"argument{i}" for i, name in enumerate(given)]
    inputs = _pytree.tree_structure((tuple(range(len(given))), {}))
    outputs = _pytree.tree_structure(tuple(range(len(results))))
    return ModuleCallEntry("", ModuleCallSignature([], [], inputs, outputs, names))


def _signature(torch: ModuleType, record: SignatureRecord) -> Any:
    from torch.export import ExportGraphSignature

    return ExportGraphSignature(
        [_input(each) for each in record["input_specs"]], [_output(each) for each in record["output_specs"]]
    )


def _input(record: tuple[str, Any]) -> Any:
    from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument

    tag, value = record
    if tag == "user_input":
        return InputSpec(InputKind.USER_INPUT, _argument(value["arg"]), None)
    if tag == "constant_input":
        kind, constant = value["value"]
        constant = None if kind == "as_none" else constant
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(value["name"], constant), None)
    argument = TensorArgument(value["arg"]["name"])
    if tag == "parameter":
        return InputSpec(InputKind.PARAMETER, argument, value["parameter_name"])
    if tag == "buffer":
        return InputSpec(InputKind.BUFFER, argument, value["buffer_name"], value["persistent"])
    return InputSpec(InputKind.CONSTANT_TENSOR, argument, value["tensor_constant_name"])


def _output(record: tuple[str, Any]) -> Any:
    from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

    tag, value = record
    if tag == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, _argument(value["arg"]), None)
    kind, key = {
        "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
        "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
        "parameter_mutation": ("PARAMETER_MUTATION", "parameter_name"),
    }[tag]
    kind = getattr(OutputKind, kind) if isinstance(kind, str) else kind
    return OutputSpec(kind, TensorArgument(value["arg"]["name"]), value[key])


def _argument(record: tuple[str, Any]) -> Any:
    """The signature's entry for an input or output of the module. It has the name, or the value of a constant."""
    from torch.export.graph_signature import (
        ConstantArgument,
        SymBoolArgument,
        SymFloatArgument,
        SymIntArgument,
        TensorArgument,
    )

    tag, value = record
    if tag == "as_tensor":
        return TensorArgument(value["name"])
    kinds = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}
    if tag in kinds:
        inner, name = value
        return kinds[tag](name) if inner == "as_name" else ConstantArgument("", name)
    if tag in ("as_none", "as_int", "as_float", "as_bool", "as_string"):
        return ConstantArgument("", None if tag == "as_none" else value)
    raise Refused("an input or output of the module is neither a tensor nor a number")


def _check_tensors(
    signature: "torch.export.ExportGraphSignature",
    weights: "Mapping[str, torch.Tensor]",
    constants: "Mapping[str, torch.Tensor]",
) -> None:
    """Raises `TiducError` if the archive lacks a tensor that the signature names."""
    for spec in signature.input_specs:
        if spec.target is not None:
            is_kept = spec.kind.name == "PARAMETER" or bool(spec.persistent)
            if spec.target not in (weights if is_kept else constants):
                raise Refused(f"the archive has no array {spec.target[:80]}")


# ---- tensors -----------------------------------------------------------------------------------------------


def tensors(
    torch: ModuleType, payloads: Mapping[str, Payload], contents: Mapping[str, bytes | int]
) -> "dict[str, torch.Tensor]":
    """Maps the names of arrays to tensors. Arrays in the same part share memory.

    `contents` maps a part to its bytes, or to the number of its bytes. In the second case, all elements are zero, and
    the tensors take no physical memory, because their pages are never written.
    """
    storages: dict[str, Any] = {}
    return {name: _tensor(torch, each, storages, contents) for name, each in payloads.items()}


def _tensor(
    torch: ModuleType,
    payload: Payload,
    storages: "dict[str, torch.UntypedStorage]",
    contents: Mapping[str, bytes | int],
) -> "torch.Tensor":
    dtype = getattr(torch, payload.dtype)
    tensor = torch.empty(0, dtype=dtype)
    if payload.part not in storages:
        storages[payload.part] = _storage(torch, contents[payload.part])
    tensor.set_(storages[payload.part], payload.offset, payload.sizes, payload.strides)
    if payload.is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=payload.requires_grad)
    return tensor.requires_grad_(payload.requires_grad)


def _storage(torch: ModuleType, given: bytes | int) -> "torch.UntypedStorage":
    """A storage with a copy of the given bytes. If `given` is a number, the storage has this number of zero bytes."""
    if not given:
        return torch.UntypedStorage(0)
    buffer: Any = mmap.mmap(-1, given) if isinstance(given, int) else bytearray(given)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
