"""Expands ONNX operators that torch-mlir cannot lower. ONNX defines these operators as functions of others."""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.nodes import version

if TYPE_CHECKING:
    import onnx

_DOMAINS = ("", "ai.onnx", "ai.onnx.preview")

_EXPANDED = frozenset(
    {
        "AffineGrid",
        "Attention",
        "BlackmanWindow",
        "CastLike",
        "CausalConvWithState",
        "CenterCropPad",
        "DynamicQuantizeLinear",
        "FlexAttention",
        "HammingWindow",
        "HannWindow",
        "LinearAttention",
        "MeanVarianceNormalization",
        "NegativeLogLikelihoodLoss",
        "RMSNormalization",
        "RotaryEmbedding",
        "SoftmaxCrossEntropyLoss",
        "Softsign",
        "SpaceToDepth",
        "SwiGLU",
    }
)
"""The operators that are expanded."""


def expand(onnx: ModuleType, model: "onnx.ModelProto") -> bool:
    """Replaces each node of a type in `_EXPANDED` by the nodes of its definition, in place.

    Returns whether a node was replaced. If a definition depends on types, the types are those from shape inference.
    Raises `Unsupported` if ONNX cannot provide the definition.
    """
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    types = {x.name: x.type for x in values}
    for x in model.graph.initializer:
        types[x.name] = onnx.helper.make_tensor_type_proto(x.data_type, list(x.dims))
    nodes: list[Any] = []
    expanded = False
    for node in model.graph.node:
        body = _body(onnx, model, node, types) if _is_expanded(node) else None
        if body is None:
            nodes.append(node)
            continue
        expanded = True
        first = next(y for y in node.output if y)
        nodes += _inlined(onnx, body, node, f"{first}.{node.op_type}")
    if expanded:
        copies = [type(node)() for node in nodes]
        for copy, node in zip(copies, nodes, strict=True):
            copy.CopyFrom(node)
        del model.graph.node[:]
        model.graph.node.extend(copies)
    return expanded


def _is_expanded(node: "onnx.NodeProto") -> bool:
    return node.op_type in _EXPANDED and node.domain in _DOMAINS


def _body(
    onnx: ModuleType, model: "onnx.ModelProto", node: "onnx.NodeProto", types: "Mapping[str, onnx.TypeProto]"
) -> "onnx.FunctionProto":
    """The definition of a node's operator in the ONNX version of the model. Returns None if there is no definition.

    Adds attributes that the node lacks, with their default values, to the node.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    imported = {each.domain: each.version for each in model.opset_import}
    own = imported.get(domain, version(model))
    schema = onnx.defs.get_schema(node.op_type, own, domain)
    body = onnx.FunctionProto()
    try:
        if schema.has_function:
            body.ParseFromString(
                schema.get_function_with_opset_version(_latest(schema.function_opset_versions, own))
            )
        elif schema.has_context_dependent_function:
            empty = onnx.TypeProto()
            given = [types.get(x, empty).SerializeToString() for x in node.input]
            found = _latest(schema.context_dependent_function_opset_versions, version(model))
            written = node.SerializeToString()
            body.ParseFromString(
                schema.get_context_dependent_function_with_opset_version(found, written, given)
            )
        else:
            return None
    except Exception as error:  # raised by onnx
        line = str(error).partition("\n")[0]
        raise Unsupported(f"ONNX gives no definition of this {node.op_type}: {line}") from error
    named = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in named and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
    return body


def _latest(versions: Sequence[int], most: int) -> int:
    """The latest version up to `most`. If all versions are later, the first version."""
    return int(max((v for v in versions if v <= most), default=min(versions)))


def _inlined(
    onnx: ModuleType, body: "onnx.FunctionProto", node: "onnx.NodeProto", prefix: str
) -> Iterator[Any]:
    """Copies of the nodes of a definition, with the values and the attributes of the node that they replace."""
    names = {"": ""}
    names |= {x: node.input[i] if i < len(node.input) else "" for i, x in enumerate(body.input)}
    names |= {y: node.output[i] for i, y in enumerate(body.output) if i < len(node.output) and node.output[i]}
    given = {a.name: a for a in node.attribute}
    for inner in body.node:
        yield _bound(onnx, inner, names, given, prefix)


def _bound(
    onnx: ModuleType,
    inner: "onnx.NodeProto",
    names: dict[str, str],
    given: "Mapping[str, onnx.AttributeProto]",
    prefix: str,
) -> "onnx.NodeProto":
    """A copy of a node in a definition. `names` maps names in the definition to names in the model.

    `given` has the attributes of the node that the definition replaces. If `names` lacks a name, it is added to `names`
    and mapped to the name with the prefix.
    """
    copy = onnx.NodeProto()
    copy.CopyFrom(inner)
    for field in (copy.input, copy.output):
        for i, name in enumerate(field):
            field[i] = names.setdefault(name, f"{prefix}.{name}")
    del copy.attribute[:]
    for attribute in inner.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is None:
            continue
        bound = copy.attribute.add()
        bound.CopyFrom(source)
        bound.name = attribute.name
        if bound.HasField("g") and source is attribute:
            _bind_graph(onnx, bound.g, dict(names), given, prefix)
    return copy


def _bind_graph(
    onnx: ModuleType, graph: "onnx.GraphProto", names: dict[str, str], given: Mapping[str, Any], prefix: str
) -> None:
    """Renames the values of a subgraph in a definition, and fills in the attributes of its nodes, in place.

    `names` maps names in the definition to names in the model. Names that the subgraph defines get the prefix, and are
    added to `names`. `given` has the attributes of the node that the definition replaces.
    """
    for x in (*graph.input, *graph.initializer):
        names[x.name] = f"{prefix}.{x.name}"
        x.name = names[x.name]
    nodes = [_bound(onnx, inner, names, given, prefix) for inner in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for y in graph.output:
        y.name = names[y.name]
    del graph.value_info[:]
