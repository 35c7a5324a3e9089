"""Prepares an ONNX model for torch-mlir: infers shapes, expands functions, folds constants, and rewrites nodes.

    a node whose operator has a definition       the nodes of the definition
    Shape of a value with static shape           a constant
    a node with constant operands                a constant
    a node in the table of rewrites              other nodes, or a call of a StableHLO function
    If, Loop, Scan                               a call of a StableHLO function; the subgraphs become functions

These steps are repeated until no emitted node has a rewrite.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import ParseError, Unsupported, first_line
from tiduc.models.onnx.at_run_time import AT_RUN_TIME
from tiduc.models.onnx.declared import fix_operands, select_axes
from tiduc.models.onnx.functions import expand
from tiduc.models.onnx.nodes import CALL, Nodes
from tiduc.models.onnx.quantized import pass_through
from tiduc.models.onnx.refused import refuse
from tiduc.models.onnx.rewrites import REWRITES
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    import onnx

_LARGEST = 1 << 20
"""A node is not folded if one of its operands or results has more elements than this number."""

_ROUNDS = 20
_OWN = ("", "ai.onnx", "ai.onnx.preview", "ai.onnx.preview.training")


def prepare(
    onnx: Any,
    model: "onnx.ModelProto",
    functions: "list[onnx.ModelProto | None]",
    straight_through: bool = False,
) -> "onnx.ModelProto":
    """Returns the model with rewrites of all nodes that torch-mlir cannot lower. May change `model`.

    Each subgraph of a control-flow node becomes a model of its own, which is appended to `functions`. With
    `straight_through`, a quantization has the derivative of its clipping, as if it did not round. Raises `Unsupported`
    if StableHLO cannot express a node.
    """
    if all(each.domain != CALL for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(CALL, 1))
    model = _with_shapes(onnx, model)
    for _ in range(_ROUNDS):
        _fix(onnx, model)
        while expand(onnx, model):  # a definition may contain nodes that have definitions too
            model = _with_shapes(onnx, model)
        again = _rewrite(_nodes(onnx, model, functions, straight_through))
        model = _with_shapes(onnx, model)
        if not again and not _has_known_shape(onnx, model):
            break
    return model


def _has_known_shape(onnx: ModuleType, model: "onnx.ModelProto") -> bool:
    """Whether the model has a Shape or Size node of a value with static shape, which another round can fold."""
    nodes = _nodes(onnx, model, [])
    return any(
        node.op_type in ("Shape", "Size") and nodes.is_static(node.input[0]) for node in model.graph.node
    )


def _with_shapes(onnx: ModuleType, model: "onnx.ModelProto") -> "onnx.ModelProto":
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=True, data_prop=True)
    except Exception as error:  # raised by onnx
        raise ParseError(f"the shapes of the ONNX model disagree: {first_line(error)}") from error


def _nodes(
    onnx: ModuleType,
    model: "onnx.ModelProto",
    functions: "list[onnx.ModelProto | None]",
    straight_through: bool = False,
) -> Nodes:
    return Nodes(
        onnx,
        model,
        lambda inner: prepare(onnx, inner, functions, straight_through),
        functions,
        straight_through,
    )


def _fix(onnx: ModuleType, model: "onnx.ModelProto") -> None:
    """Replaces operands whose values follow from the declared shapes by constants."""
    nodes = _nodes(onnx, model, [])
    for node in model.graph.node:
        fix_operands(nodes, node)


def _rewrite(nodes: Nodes) -> bool:
    """Rewrites a graph's nodes in place. Returns whether the emitted nodes may have rewrites themselves."""
    onnx, model = nodes.onnx, nodes.model
    kept: list[Any] = []
    results = {each.name for each in model.graph.output}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = nodes.renamed.get(name, name)
        if node.domain in _OWN and _folded(nodes, node):
            continue
        replacement = _replacement(nodes, node) if node.domain in _OWN else None
        kept += nodes.emitted
        nodes.emitted = []
        if replacement is None:
            kept.append(node)
            continue
        for old, new in zip(node.output, replacement, strict=False):
            nodes.renamed[old] = new
            if old in nodes.floats:
                nodes.floats[new] = nodes.floats[old]
            if old in nodes.types:
                nodes.types.setdefault(new, nodes.types[old])
    kept += [
        onnx.helper.make_node("Identity", [nodes.renamed[name]], [name])
        for name in results
        if name in nodes.renamed
    ]
    copies = []
    for node in kept:
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return nodes.again


def _replacement(nodes: Nodes, node: "onnx.NodeProto") -> list[str] | None:
    """The names of the values that replace the node's results. Returns None if the node is not replaced."""
    try:
        found: str | list[str] | None = pass_through(nodes, node)
        found = select_axes(nodes, node) if found is None else found
        for table in (AT_RUN_TIME, REWRITES):
            if found is None and node.op_type in table:
                found = table[node.op_type](nodes, node)
        if found is None:
            refuse(node)
    except Unsupported as error:
        raise Unsupported(f"{describe_node(node)}: {error.message}") from error
    return [found] if isinstance(found, str) else found


def describe_node(node: "onnx.NodeProto") -> str:
    """The node's operator and name, for diagnostics."""
    return f"{node.op_type} {node.name!r}" if node.name else f"{node.op_type} of {node.output[0]!r}"


# ---- constants ---------------------------------------------------------------------------------------------


_DRAWING = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def _folded(nodes: Nodes, node: "onnx.NodeProto") -> bool:
    """Replaces the node's results by constants if they are known. Returns whether the results were replaced.

    Results are known if all operands are constants, or if the node is a Shape or Size of a value with static shape.
    """
    names = [name for name in node.output if name]
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return False
    if node.op_type in ("Shape", "Size"):
        if not nodes.is_static(node.input[0]):
            return False
        given, sizes = nodes.attributes(node), nodes.sizes(node.input[0])
        part = (
            sizes[slice(given.get("start"), given.get("end"))] if node.op_type == "Shape" else np.prod(sizes)
        )
        arrays = [np.asarray(part, np.int64)]
    else:
        if node.op_type in _DRAWING or not all(x in nodes.constants for x in node.input if x):
            return False
        if any(nodes.constants[x].size > _LARGEST for x in node.input if x) or _is_weight(nodes, node):
            return False
        evaluated = _evaluated(nodes, node)
        if evaluated is None:
            return False
        arrays = evaluated
    for name, array in zip(names, arrays, strict=True):
        nodes.renamed[name] = nodes.hold(array)
    return True


def _is_weight(nodes: Nodes, node: "onnx.NodeProto") -> bool:
    """Whether a node casts a quantized weight from 8-bit integers to floats, which take more memory."""
    if node.op_type != "Cast":
        return False
    codes, to = nodes.constants[node.input[0]], nodes.attributes(node)["to"]
    return (
        codes.ndim > 1
        and codes.dtype in (np.int8, np.uint8)
        and nodes.onnx.helper.tensor_dtype_to_np_dtype(to).kind == "f"
    )


def _evaluated(nodes: Nodes, node: "onnx.NodeProto") -> list[Array] | None:
    """The results of a node with constant operands, computed by ONNX's evaluator.

    Returns None if the evaluator fails, or if a result is not an array or is too large.
    """
    from onnx.reference import ReferenceEvaluator

    helper = nodes.onnx.helper
    given = {x: nodes.constants[x] for x in node.input if x}
    inputs = [
        helper.make_tensor_value_info(x, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for x, a in given.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(y) for y in node.output if y]
    model = helper.make_model(
        helper.make_graph([node], "node", inputs, outputs),
        opset_imports=[helper.make_opsetid("", nodes.version)],
    )
    try:
        values = ReferenceEvaluator(model).run(None, given)
    except Exception:  # torch-mlir may lower a node that the evaluator rejects
        return None
    arrays = [x for x in values if isinstance(x, np.ndarray | np.generic)]
    if len(arrays) < len(values) or any(x.size > _LARGEST for x in arrays):
        return None
    return [np.asarray(x) for x in arrays]
