"""Drops the outputs of an ONNX model that are not arrays, and turns maps of probabilities into arrays."""

import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.dialect.errors import TiducRemark

if TYPE_CHECKING:
    import onnx

ML = "ai.onnx.ml"


def arrays_only(onnx: ModuleType, model: "onnx.ModelProto") -> None:
    """Turns outputs that are maps of probabilities into arrays, and drops outputs of strings. Changes the model in
    place.

    If all outputs are strings, none is dropped. Each change is reported by a remark.
    """
    graph = model.graph
    outputs = {value.name: value for value in graph.output}
    for node in [n for n in graph.node if n.domain == ML and n.op_type == "ZipMap"]:
        if node.output[0] in outputs:
            _unmapped(onnx, graph, node, outputs[node.output[0]])
    texts = [value for value in graph.output if value.type.tensor_type.elem_type == onnx.TensorProto.STRING]
    if texts and len(texts) < len(graph.output):
        for value in texts:
            _remark(f"the output {value.name!r} is left out: StableHLO has no strings")
            graph.output.remove(value)
        _drop_dead(graph)


def _unmapped(
    onnx: ModuleType, graph: "onnx.GraphProto", node: "onnx.NodeProto", value: "onnx.ValueInfoProto"
) -> None:
    """Replaces a map from classes to probabilities by the array of the probabilities."""
    classes: list[Any] = []
    for attribute in node.attribute:
        classes += [
            x.decode() if isinstance(x, bytes) else x for x in onnx.helper.get_attribute_value(attribute)
        ]
    listed = ", ".join(map(str, classes))
    _remark(f"the output {value.name!r}, a map, becomes an array with a column for each class: {listed}")
    value.CopyFrom(
        onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, [None, len(classes)])
    )
    node.CopyFrom(onnx.helper.make_node("Identity", [node.input[0]], [node.output[0]], node.name))


def _drop_dead(graph: "onnx.GraphProto") -> None:
    """Erases nodes and initializers that no output needs, and the names of unread results."""
    read = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if not read.isdisjoint(node.output) or any(a.HasField("g") or a.graphs for a in node.attribute):
            kept.append(node)
            read.update(node.input)
            for attribute in node.attribute:
                for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                    read.update(x for each in inner.node for x in each.input)
    for node in kept:
        for i, name in enumerate(node.output):
            node.output[i] = name if name in read else ""
    copies = [type(node)() for node in kept]
    for copy, node in zip(copies, reversed(kept), strict=True):
        copy.CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copies)
    arrays = [x for x in graph.initializer if x.name in read]
    kept_arrays = [type(x)() for x in arrays]
    for copied, x in zip(kept_arrays, arrays, strict=True):
        copied.CopyFrom(x)
    del graph.initializer[:]
    graph.initializer.extend(kept_arrays)


def _remark(text: str) -> None:
    warnings.warn(text, TiducRemark, stacklevel=4)
