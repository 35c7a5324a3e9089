"""Expands ONNX operators into their function definitions, so that torch-mlir need not know these operators."""

import itertools
from collections.abc import Collection, Iterator
from typing import Any

from tiduc.dialect.errors import Unsupported


def expand(onnx: Any, model: Any, wanted: Collection[str]) -> bool:
    """Replaces each node of these types in a model's graph by its definition; returns whether there was one.

    A definition that depends on types uses the types from shape inference. `Unsupported` where ONNX cannot
    give it.
    """
    version = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    types = {x.name: x.type for x in values}
    for x in model.graph.initializer:
        types[x.name] = onnx.helper.make_tensor_type_proto(x.data_type, list(x.dims))
    nodes: list[Any] = []
    count = itertools.count()
    expanded = False
    for node in model.graph.node:
        if node.op_type not in wanted or node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        schema = onnx.defs.get_schema(node.op_type, version, "")
        body = _body(onnx, schema, node, [types.get(x) for x in node.input])
        if body is None:
            nodes.append(node)
            continue
        expanded = True
        nodes += _inlined(onnx, schema, body, node, f"tiduc.{node.op_type}{next(count)}")
    if expanded:
        copies = [type(node)() for node in nodes]
        for copy, node in zip(copies, nodes, strict=True):
            copy.CopyFrom(node)
        del model.graph.node[:]
        model.graph.node.extend(copies)
    return expanded


def _body(onnx: Any, schema: Any, node: Any, types: list[Any]) -> Any:
    """The definition of a node; None where its operator has none."""
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    empty = onnx.TypeProto()
    given = [(empty if t is None else t).SerializeToString() for t in types]
    body = onnx.FunctionProto()
    try:
        body.ParseFromString(schema.get_context_dependent_function(node.SerializeToString(), given))
    except Exception as error:  # raised by onnx
        line = str(error).partition("\n")[0]
        raise Unsupported(f"ONNX gives no definition of this {node.op_type}: {line}") from error
    return body


def _inlined(onnx: Any, schema: Any, body: Any, node: Any, prefix: str) -> Iterator[Any]:
    """The nodes of a definition, with the names and attributes of the node that they replace."""
    names = {"": ""}
    names |= {x: node.input[i] if i < len(node.input) else "" for i, x in enumerate(body.input)}
    names |= {y: node.output[i] for i, y in enumerate(body.output) if i < len(node.output) and node.output[i]}
    given = {a.name: a for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            given[name] = attribute.default_value
    for inner in body.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        for field in (copy.input, copy.output):
            for i, name in enumerate(field):
                field[i] = names.setdefault(name, f"{prefix}.{name}")
        del copy.attribute[:]
        for attribute in inner.attribute:
            source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if source is not None:
                bound = copy.attribute.add()
                bound.CopyFrom(source)
                bound.name = attribute.name
        yield copy
