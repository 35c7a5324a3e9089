"""The types of the records that `schema.py` returns for the JSON of a `.pt2` archive.

A value that may have one of several kinds is a pair: the tag of the kind, and the value.
"""

from typing import Any, TypedDict


class TensorMeta(TypedDict):
    """The type of a tensor. Sizes, strides and the offset are pairs that contain a number or an expression."""

    dtype: int
    sizes: list[tuple[str, Any]]
    requires_grad: bool
    strides: list[tuple[str, Any]]
    storage_offset: tuple[str, Any]
    layout: int


class ExpressionRecord(TypedDict):
    """An expression for a size, and its value for the example inputs."""

    expr_str: str
    hint: tuple[str, Any] | None


class ArgumentRecord(TypedDict):
    """An argument of a node. `kind` says whether the argument is passed by position or by name."""

    name: str
    arg: tuple[str, Any]
    kind: int | None


class MetadataRecord(TypedDict):
    """The stack trace of a node, and the stack of modules that contain the node."""

    stack_trace: str | None
    nn_module_stack: str | None


class NodeRecord(TypedDict):
    """A node of a graph, which calls the function named `target`."""

    target: str
    inputs: list[ArgumentRecord]
    outputs: list[tuple[str, Any]]
    metadata: MetadataRecord
    is_hop_single_tensor_return: bool | None
    name: str | None


class GraphRecord(TypedDict):
    """A graph: its inputs, outputs and nodes, and maps from the names of values to their types."""

    inputs: list[tuple[str, Any]]
    outputs: list[tuple[str, Any]]
    nodes: list[NodeRecord]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, tuple[str, Any]]
    sym_bool_values: dict[str, tuple[str, Any]]
    sym_float_values: dict[str, tuple[str, Any]] | None
    is_single_tensor_return: bool | None


class NamedGraph(TypedDict):
    """A graph that is an argument of a node, such as a branch, and the graph's name."""

    name: str
    graph: GraphRecord


class DeviceRecord(TypedDict):
    """A device of PyTorch, such as `cuda:0`."""

    type: str
    index: int | None


class SignatureRecord(TypedDict):
    """The inputs and outputs of the program. Each is a pair of its kind, such as `parameter`, and its description."""

    input_specs: list[tuple[str, Any]]
    output_specs: list[tuple[str, Any]]


class RootRecord(TypedDict):
    """The outermost graph, and the signature of the program."""

    graph: GraphRecord
    signature: SignatureRecord


class RangeRecord(TypedDict):
    """The range of a symbolic size. A bound is None if it is infinite."""

    min_val: int | None
    max_val: int | None


class ModelRecord(TypedDict):
    """The program: its graphs, its signature, the ranges of its symbolic sizes, and PyTorch's verifiers for it."""

    graph_module: RootRecord
    range_constraints: dict[str, RangeRecord]
    verifiers: list[str] | None


class PayloadRecord(TypedDict):
    """An array of the archive: its type, and the part with its bytes, which is a pickle if `use_pickle`."""

    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: TensorMeta | None
