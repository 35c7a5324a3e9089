"""Represents ONNX's 2- and 4-bit integers by 8-bit integers, which torch-mlir and every engine support.

INT4, INT2                              INT8, with values in the range of the narrow type
UINT4, UINT2                            UINT8, with values in the range of the narrow type
y: INT4 = Cast(x)                       the lowest 4 bits of x as a signed number
y: INT4 = QuantizeLinear(x, ...)        Clip(QuantizeLinear(x, ...), -8, 7)

Nodes of all other operators are kept, because they give the same values for 8-bit operands.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

_BITS = {"INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4}


def widen(onnx: ModuleType, model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replaces 2- and 4-bit integers by 8-bit integers in a model. Changes the model in place and returns it."""
    kinds = {onnx.TensorProto.DataType.Value(name): bits for name, bits in _BITS.items()}
    if not any(kind in kinds for kind in _kinds(model.graph)):
        return model
    inferred = onnx.shape_inference.infer_shapes(model)
    narrow = {
        value.name: value.type.tensor_type.elem_type
        for graph in _graphs(inferred.graph)
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.elem_type in kinds
    }
    for graph in _graphs(model.graph):
        narrow |= {x.name: x.data_type for x in graph.initializer if x.data_type in kinds}
    for graph in list(_graphs(model.graph)):
        _widen_graph(onnx, graph, kinds, narrow)
    return model


def _graphs(graph: "onnx.GraphProto") -> Iterator[Any]:
    """Yields the graph and all of its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _graphs(inner)


def _kinds(graph: "onnx.GraphProto") -> Iterator[int]:
    """Yields the element types that occur in a graph and its subgraphs: of values, initializers and attributes."""
    for each in _graphs(graph):
        for value in (*each.input, *each.value_info, *each.output):
            yield value.type.tensor_type.elem_type
        for tensor in each.initializer:
            yield tensor.data_type
        for node in each.node:
            for attribute in node.attribute:
                yield attribute.t.data_type
                if attribute.name in _TYPES:
                    yield attribute.i


_TYPES = ("to", "dtype", "output_dtype")
"""The names of attributes that hold an element type."""


def _wide(onnx: ModuleType, kind: int) -> int:
    name = onnx.TensorProto.DataType.Name(kind)
    return int(onnx.TensorProto.UINT8 if name.startswith("U") else onnx.TensorProto.INT8)


def _widen_graph(
    onnx: ModuleType, graph: "onnx.GraphProto", kinds: dict[int, int], narrow: dict[str, int]
) -> None:
    for value in (*graph.input, *graph.value_info, *graph.output):
        type_ = value.type.tensor_type
        if type_.elem_type in kinds:
            type_.elem_type = _wide(onnx, type_.elem_type)
    for tensor in graph.initializer:
        _widen_tensor(onnx, tensor, kinds)
    nodes: list[Any] = []
    for node in graph.node:
        nodes += _widened(onnx, node, kinds, narrow)
    copies = [type(node)() for node in nodes]
    for copy, node in zip(copies, nodes, strict=True):
        copy.CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copies)


def _widen_tensor(onnx: ModuleType, tensor: "onnx.TensorProto", kinds: dict[int, int]) -> None:
    if tensor.data_type in kinds:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(_wide(onnx, tensor.data_type))
        wide = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(dtype), tensor.name)
        tensor.CopyFrom(wide)


def _widened(
    onnx: ModuleType, node: "onnx.NodeProto", kinds: dict[int, int], narrow: dict[str, int]
) -> list[Any]:
    """The nodes that replace a node. The last of these nodes computes the result with the original name."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _widen_tensor(onnx, attribute.t, kinds)
    target = narrow.get(node.output[0]) if node.output else None
    if target is not None and node.op_type in ("Cast", "CastLike"):
        return _cast(onnx, node, target, kinds[target])
    if target is not None and node.op_type == "QuantizeLinear":
        return _quantized(onnx, node, target, kinds[target])
    for attribute in node.attribute:
        if attribute.name in _TYPES and attribute.i in kinds and node.op_type != "BitCast":
            attribute.i = _wide(onnx, attribute.i)
    return [node]


def _limits(onnx: ModuleType, target: int, bits: int) -> tuple[int, int]:
    """The smallest and the largest value of a narrow type."""
    least = 0 if onnx.TensorProto.DataType.Name(target).startswith("U") else -(2 ** (bits - 1))
    return least, least + 2**bits - 1


def _cast(onnx: ModuleType, node: "onnx.NodeProto", target: int, bits: int) -> list[Any]:
    """The nodes that compute a Cast to a narrow type, as (x - least) mod 2^bits + least with 32-bit integers.

    `least` is the smallest value of the type.
    """
    least, _ = _limits(onnx, target, bits)
    y = node.output[0]

    def constant(name: str, number: int) -> Any:
        array = onnx.numpy_helper.from_array(np.asarray(number, np.int32), f"{y}.{name}")
        return onnx.helper.make_node("Constant", [], [f"{y}.{name}"], value=array)

    make = onnx.helper.make_node
    return [
        constant("least", least),
        constant("count", 2**bits),
        make("Cast", [node.input[0]], [f"{y}.whole"], to=onnx.TensorProto.INT32),
        make("Sub", [f"{y}.whole", f"{y}.least"], [f"{y}.away"]),
        make("Mod", [f"{y}.away", f"{y}.count"], [f"{y}.rest"]),
        make("Add", [f"{y}.rest", f"{y}.least"], [f"{y}.number"]),
        make("Cast", [f"{y}.number"], [y], to=_wide(onnx, target)),
    ]


def _quantized(onnx: ModuleType, node: "onnx.NodeProto", target: int, bits: int) -> list[Any]:
    y, wide = node.output[0], _wide(onnx, target)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(wide)
    for attribute in node.attribute:
        if attribute.name == "output_dtype":
            attribute.i = wide
    node.output[0] = f"{y}.wide"
    ends = [
        onnx.helper.make_node(
            "Constant",
            [],
            [f"{y}.{name}"],
            value=onnx.numpy_helper.from_array(np.asarray(number, dtype), f"{y}.{name}"),
        )
        for name, number in zip(("low", "high"), _limits(onnx, target, bits), strict=True)
    ]
    return [node, *ends, onnx.helper.make_node("Clip", [node.output[0], f"{y}.low", f"{y}.high"], [y])]
