"""The records of a `.pt2` archive, as `schema.py` checks them.

If the file has one of several kinds of value, the record has a pair: the tag of the kind, and the value.
"""

from typing import Any, TypedDict


class TensorMeta(TypedDict):
    """The type of a tensor. Sizes, strides and the offset are numbers or expressions."""

    dtype: int
    sizes: list[tuple[str, Any]]
    requires_grad: bool
    strides: list[tuple[str, Any]]
    storage_offset: tuple[str, Any]
    layout: int


class ExpressionRecord(TypedDict):
    """An expression of sizes, and its value in the example."""

    expr_str: str
    hint: tuple[str, Any] | None


class ArgumentRecord(TypedDict):
    """An argument of a node. `kind` says whether the argument is passed by position or by name."""

    name: str
    arg: tuple[str, Any]
    kind: int | None


class MetadataRecord(TypedDict):
    """The lines and the modules of a node."""

    stack_trace: str | None
    nn_module_stack: str | None


class NodeRecord(TypedDict):
    """A node of a graph."""

    target: str
    inputs: list[ArgumentRecord]
    outputs: list[tuple[str, Any]]
    metadata: MetadataRecord
    is_hop_single_tensor_return: bool | None
    name: str | None


class GraphRecord(TypedDict):
    """A graph: its inputs, outputs and nodes, and the types of its values by name."""

    inputs: list[tuple[str, Any]]
    outputs: list[tuple[str, Any]]
    nodes: list[NodeRecord]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, tuple[str, Any]]
    sym_bool_values: dict[str, tuple[str, Any]]
    sym_float_values: dict[str, tuple[str, Any]] | None
    is_single_tensor_return: bool | None


class NamedGraph(TypedDict):
    """A graph that is an argument of a node."""

    name: str
    graph: GraphRecord


class DeviceRecord(TypedDict):
    """A device."""

    type: str
    index: int | None


class SignatureRecord(TypedDict):
    """The inputs and outputs of the program, each with its kind."""

    input_specs: list[tuple[str, Any]]
    output_specs: list[tuple[str, Any]]


class RootRecord(TypedDict):
    """The outermost graph, and the signature of the program."""

    graph: GraphRecord
    signature: SignatureRecord


class RangeRecord(TypedDict):
    """The range of a symbolic size."""

    min_val: int | None
    max_val: int | None


class ModelRecord(TypedDict):
    """A program."""

    graph_module: RootRecord
    range_constraints: dict[str, RangeRecord]
    verifiers: list[str] | None


class PayloadRecord(TypedDict):
    """An array of the archive."""

    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: TensorMeta | None
