"""Rewrites ONNX nodes that torch-mlir cannot lower, or lowers to wrong numbers, in terms of other nodes.

    Shape of a static shape, any node of constants   a constant
    Resize                                           a gather (nearest), or a product with a matrix, per dimension
    Pad, other than mode constant                    a gather per dimension
    MaxPool, AveragePool with ceil_mode              the op without ceil_mode, with more padding at the end
    Mod, LpNormalization, OneHot, Swish              their formulas

The emitted nodes either mean the same in every opset version or are spelled for the model's version.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.interpolation import table
from tiduc.models.onnx_formulas import FORMULAS
from tiduc.models.onnx_kinks import leaky_relu, relu
from tiduc.models.onnx_nodes import Nodes
from tiduc.models.onnx_quantized import QUANTIZED
from tiduc.runtime.arrays import Array

Rewrite = Callable[[Nodes, Any], str | None]
"""(nodes, node) -> the name that replaces its only output; None where the node stays."""

_LARGEST = 1 << 20
"""Constants with more elements are not folded."""


def rewrite(onnx: Any, model: Any) -> None:
    """Rewrites a graph's nodes; `Unsupported` at a node that torch-mlir would lower wrongly or crash on."""
    nodes = Nodes(onnx, model)
    kept: list[Any] = []
    renamed: dict[str, str] = {}
    results = {each.name for each in model.graph.output}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        if node.domain not in ("", "ai.onnx"):
            kept.append(node)
            continue
        folded = _folded(nodes, node, results)
        if folded:
            continue
        known = REWRITES.get(node.op_type)
        replacement = known(nodes, node) if known is not None else None
        kept += nodes.emitted
        nodes.emitted = []
        if replacement is None:
            kept.append(node)
        elif node.output[0] in results:
            kept.append(onnx.helper.make_node("Identity", [replacement], [node.output[0]]))
        else:
            renamed[node.output[0]] = replacement
    copies = []
    for node in kept:
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)


# ---- constants ---------------------------------------------------------------------------------------------


_DRAWING = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def _folded(nodes: Nodes, node: Any, results: set[str]) -> bool:
    """Folds a node with constant operands into constants; returns whether it did."""
    names = [name for name in node.output if name]
    if any(a.HasField("g") or a.graphs for a in node.attribute) or not results.isdisjoint(names):
        return False
    if node.op_type == "Shape":
        sizes = nodes.shape(node.input[0]) if nodes.has_rank(node.input[0]) else [None]
        if None in sizes:
            return False
        given = nodes.attributes(node)
        arrays = [np.asarray(sizes[slice(given.get("start"), given.get("end"))], np.int64)]
    else:
        if node.op_type in _DRAWING or not all(x in nodes.constants for x in node.input if x):
            return False
        if any(nodes.constants[x].size > _LARGEST for x in node.input if x):
            return False
        evaluated = _evaluated(nodes, node)
        if evaluated is None:
            return False
        arrays = evaluated
    for name, array in zip(names, arrays, strict=True):
        nodes.constants[name] = array
        nodes.graph.initializer.append(nodes.onnx.numpy_helper.from_array(array, name))
    return True


def _evaluated(nodes: Nodes, node: Any) -> list[Array] | None:
    """The results of a node of constants, by ONNX's reference evaluator; None where it fails or a result is large."""
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
    except Exception:  # torch-mlir may know an op that the evaluator does not
        return None
    arrays = [x for x in values if isinstance(x, np.ndarray | np.generic)]
    if len(arrays) < len(values) or any(x.size > _LARGEST for x in arrays):
        return None
    return [np.asarray(x) for x in arrays]


# ---- sizes and windows -------------------------------------------------------------------------------------


def _resize(nodes: Nodes, node: Any) -> str | None:
    given = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", **nodes.attributes(node)}
    if node.op_type == "Upsample" or nodes.version < 11:
        given["coordinate_transformation_mode"] = "asymmetric"
        given["nearest_mode"] = "floor"
    scales = nodes.constant(node, 1 if node.op_type == "Upsample" or nodes.version < 11 else 2)
    if scales is None and "scales" in given:
        scales = np.asarray(given["scales"])
    wanted = nodes.constant(node, 3)
    shape = nodes.shape(node.input[0])
    axes = [d % len(shape) for d in given.get("axes", range(len(shape)))]
    if given.get("keep_aspect_ratio_policy", "stretch") != "stretch" or (
        (scales is None or not scales.size) and wanted is None
    ):
        raise Unsupported("Resize is supported for constant scales or sizes with mode stretch only")
    x = node.input[0]
    for i, d in enumerate(axes):
        n = shape[d]
        if scales is not None and scales.size:
            if scales[i] == 1:
                continue
            scale, m = float(scales[i]), None if n is None else int(np.floor(n * scales[i]))
        else:
            assert wanted is not None
            m = int(wanted[i])
            if m == n:
                continue
            scale = m / (n or 1)
        if n is None or m is None:
            raise Unsupported("Resize needs static sizes of the dimensions that it scales")
        weights = table(n, m, scale, given)
        x = _along(nodes, node, x, d, len(shape), weights)
    return x if x != node.input[0] else nodes.emit("Identity", x)


def _along(nodes: Nodes, node: Any, x: str, d: int, rank: int, weights: Array) -> str:
    """The product with a matrix along dimension d; a gather where `weights` are indices."""
    if weights.ndim == 1:
        return nodes.emit("Gather", x, weights, axis=d)
    weights = weights.astype(nodes.like(node, 0).dtype)
    if d == rank - 2:
        return nodes.emit("MatMul", weights, x)
    order = [e for e in range(rank) if e != d] + [d]
    last = x if d == rank - 1 else nodes.emit("Transpose", x, perm=order)
    product = nodes.emit("MatMul", last, np.ascontiguousarray(weights.T))
    if d == rank - 1:
        return product
    return nodes.emit("Transpose", product, perm=[int(e) for e in np.argsort(order)])


def _pad(nodes: Nodes, node: Any) -> str | None:
    given = nodes.attributes(node)
    mode = given.get("mode", "constant")
    if mode == "constant":
        return None
    widths = nodes.constant(node, 1) if nodes.version >= 11 else np.asarray(given["pads"])
    axes = nodes.constant(node, 3)
    shape = nodes.shape(node.input[0])
    if widths is None or (len(node.input) > 3 and node.input[3] and axes is None):
        raise Unsupported(f"Pad of mode {mode} is supported for constant widths only")
    along = range(len(shape)) if axes is None else [int(d) % len(shape) for d in axes]
    x, count = node.input[0], len(widths) // 2
    for i, d in enumerate(along):
        before, after, n = int(widths[i]), int(widths[count + i]), shape[d]
        if not before and not after:
            continue
        if n is None:
            raise Unsupported(f"Pad of mode {mode} needs static sizes of the dimensions that it pads")
        places = np.pad(np.arange(n), (max(before, 0), max(after, 0)), mode)
        places = places[max(-before, 0) : len(places) - max(-after, 0)]
        x = nodes.emit("Gather", x, places, axis=d)
    return x if x != node.input[0] else nodes.emit("Identity", x)


def _largest(nodes: Nodes, node: Any) -> str | None:
    """MaxPool without ceil_mode: more padding does not change a maximum, since it holds the lowest value."""
    given = nodes.attributes(node)
    if nodes.like(node, 0).dtype.kind == "u":
        raise Unsupported("MaxPool of unsigned integers: torch-mlir ends the process")
    if not given.pop("ceil_mode", 0):
        return None
    pads = _pads(nodes, node, True)
    if len([y for y in node.output if y]) > 1:
        raise Unsupported("MaxPool with ceil_mode that gives indices has no StableHLO")
    given.pop("auto_pad", None)
    return nodes.emit("MaxPool", node.input[0], **(given | {"pads": [*pads[0], *pads[1]]}))


def _mean(nodes: Nodes, node: Any) -> str | None:
    """AveragePool over a zero-padded operand, divided by the share of each window that counts."""
    given = nodes.attributes(node)
    rank, ceil_mode = len(given["kernel_shape"]), given.get("ceil_mode", 0)
    own, as_large = given.get("pads", [0] * 2 * rank), given.get("auto_pad", "NOTSET").startswith("SAME")
    if rank > 2:
        raise Unsupported("AveragePool of three dimensions: torch-mlir ends the process")
    if any(d != 1 for d in given.get("dilations", ())):
        raise Unsupported("AveragePool with dilations has no StableHLO: torch-mlir leaves them out")
    if not ceil_mode and not as_large and own[:rank] == own[rank:]:
        return None
    before, after = _pads(nodes, node, bool(ceil_mode))
    if as_large:
        own = [*before, *after]
    sizes, include = nodes.shape(node.input[0])[2:], given.get("count_include_pad", 0)
    steps = given.get("strides", [1] * rank)
    share = np.ones(())
    for i, n in enumerate(sizes):
        counts = np.pad(np.ones(n or 0), (own[i], own[rank + i]), constant_values=float(bool(include)))
        counts = np.pad(counts, (0, after[i] - own[rank + i]))
        size = given["kernel_shape"][i]
        starts = range(0, len(counts) - size + 1, steps[i])
        share = np.multiply.outer(share, [counts[start : start + size].mean() for start in starts])
    x = nodes.emit("Pad", node.input[0], np.asarray([0, 0, *before, 0, 0, *after], np.int64))
    kept = {name: given[name] for name in ("kernel_shape", "strides") if name in given}
    mean = nodes.emit("AveragePool", x, **kept)
    return nodes.emit("Div", mean, share.astype(nodes.like(node, 0).dtype))


def _pads(nodes: Nodes, node: Any, ceil_mode: bool) -> tuple[list[int], list[int]]:
    """The padding before and after, enlarged so that the last windows stay inside."""
    given, sizes = nodes.attributes(node), nodes.shape(node.input[0])[2:]
    if None in sizes or nodes.version < 11:
        raise Unsupported(f"{node.op_type} with ceil_mode, or more padding at the end, needs static shapes")
    rank = len(sizes)
    pads = list(given.get("pads", [0] * 2 * rank))
    steps, dilations = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    after = list(pads[rank:])
    for i, (n, k) in enumerate(zip(sizes, given["kernel_shape"], strict=True)):
        assert n is not None
        window = dilations[i] * (k - 1) + 1
        if given.get("auto_pad", "NOTSET").startswith("SAME"):
            whole = max(0, (-(-n // steps[i]) - 1) * steps[i] + window - n)
            pads[i] = whole // 2 if given["auto_pad"] == "SAME_UPPER" else -(-whole // 2)
            after[i] = whole - pads[i]
            continue
        padded = n + pads[i] + pads[rank + i]
        count = -(-(padded - window) // steps[i]) + 1
        count -= (count - 1) * steps[i] >= n + pads[i]  # no window may begin in the padding after
        after[i] += max(0, (count - 1) * steps[i] + window - padded) if ceil_mode else 0
    return pads[:rank], after


# ---- outputs -----------------------------------------------------------------------------------------------


def _recurrent(nodes: Nodes, node: Any) -> None:
    """Names all outputs, so that later code can tell which is which."""
    count = 3 if node.op_type == "LSTM" else 2
    node.output.extend([""] * (count - len(node.output)))
    for i, name in enumerate(node.output):
        node.output[i] = name or nodes.fresh()


# ---- what torch-mlir gets wrong ----------------------------------------------------------------------------


def _refused(what: str, wrong: Callable[[Nodes, Any, Mapping[str, Any]], bool]) -> Rewrite:
    def refuse(nodes: Nodes, node: Any) -> None:
        if wrong(nodes, node, nodes.attributes(node)):
            raise Unsupported(
                f"{node.op_type} {what} has no StableHLO: torch-mlir lowers it to other numbers"
            )

    return refuse


def _fatal(what: str, ends: Callable[[Nodes, Any], bool]) -> Rewrite:
    def refuse(nodes: Nodes, node: Any) -> None:
        if ends(nodes, node):
            raise Unsupported(f"{node.op_type} of {what}: torch-mlir ends the process")

    return refuse


def _has_scalar(nodes: Nodes, node: Any) -> bool:
    return any(nodes.has_rank(x) and not nodes.shape(x) for x in node.input)


REWRITES: dict[str, Rewrite] = {
    "AveragePool": _mean,
    "Einsum": _fatal("operands of rank 0", _has_scalar),
    "GRU": _recurrent,
    "GridSample": _refused("of mode nearest", lambda _, node, given: given.get("mode") == "nearest"),
    "LSTM": _recurrent,
    "LeakyRelu": leaky_relu,
    "LpPool": _refused("of three dimensions", lambda _, node, given: len(given["kernel_shape"]) > 2),
    "MaxPool": _largest,
    "Pad": _pad,
    "RNN": _recurrent,
    "Relu": relu,
    "Resize": _resize,
    "SpaceToDepth": _refused("of mode CRD", lambda _, node, given: given.get("mode") == "CRD"),
    "Upsample": _resize,
    **FORMULAS,
    **QUANTIZED,
}
"""The rewrite of each node type."""
