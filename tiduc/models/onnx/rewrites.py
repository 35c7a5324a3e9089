"""Rewrites ONNX nodes that torch-mlir cannot lower, or lowers wrongly, in terms of other nodes.

    Resize                                    for each dimension, a gather (mode nearest) or a product with a matrix
    Pad in a mode other than constant         a gather for each dimension
    MaxPool with ceil_mode                    MaxPool without ceil_mode, with more padding at the end
    Mod, LpNormalization, OneHot, Swish       the arithmetic that defines the operator

The emitted nodes are valid in the model's opset version.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.casts import cast
from tiduc.models.onnx.choices import CHOICES
from tiduc.models.onnx.control import if_, loop, scan
from tiduc.models.onnx.formulas import FORMULAS
from tiduc.models.onnx.fourier import dft, stft
from tiduc.models.onnx.kinks import leaky_relu, relu
from tiduc.models.onnx.moves import MOVES
from tiduc.models.onnx.nodes import Nodes
from tiduc.models.onnx.optimizers import OPTIMIZERS
from tiduc.models.onnx.pools import largest, mean, norm
from tiduc.models.onnx.quantized import QUANTIZED
from tiduc.models.onnx.resize import resize
from tiduc.models.onnx.sampling import deformable, grid_sample
from tiduc.models.onnx.sequences import SEQUENCES

if TYPE_CHECKING:
    import onnx

Rewrite = Callable[[Nodes, Any], str | list[str] | None]
"""Maps (nodes, node) to the names of the values that replace the node's outputs. One name may be a string.

Returns None if the node is not replaced.
"""

# ---- sizes and windows -------------------------------------------------------------------------------------


def _pad(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    given = nodes.attributes(node)
    mode = given.get("mode", "constant")
    if mode == "constant":
        return _padded_by_zeros(nodes, node)
    widths = nodes.constant(node, 1) if nodes.version >= 11 else np.asarray(given["pads"])
    axes = nodes.constant(node, 3)
    shape = nodes.shape(node.input[0])
    if widths is None or (len(node.input) > 3 and node.input[3] and axes is None):
        raise Unsupported(
            f"mode {mode} needs constant widths and axes, unless the model declares the shape of the result"
        )
    along = range(len(shape)) if axes is None else [int(d) % len(shape) for d in axes]
    x, count = node.input[0], len(widths) // 2
    for i, d in enumerate(along):
        before, after, n = int(widths[i]), int(widths[count + i]), shape[d]
        if not before and not after:
            continue
        if n is None:
            raise Unsupported(
                f"mode {mode} needs static sizes of the padded dimensions; set these sizes with --size"
            )
        places = np.pad(np.arange(n), (max(before, 0), max(after, 0)), mode)
        places = places[max(-before, 0) : len(places) - max(-after, 0)]
        x = nodes.emit("Gather", x, places, axis=d)
    return x if x != node.input[0] else nodes.emit("Identity", x)


def _padded_by_zeros(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites a Pad of mode constant that has axes as a Pad of all dimensions. Returns None for other nodes."""
    widths, axes = nodes.constant(node, 1), nodes.constant(node, 3)
    if widths is None or axes is None:
        return None
    rank, count = len(nodes.shape(node.input[0])), len(axes)
    whole = np.zeros(2 * rank, np.int64)
    for i, axis in enumerate(axes.tolist()):
        whole[[axis % rank, rank + axis % rank]] = widths[[i, count + i]]
    return nodes.emit("Pad", node.input[0], whole, *node.input[2:3])


# ---- outputs -----------------------------------------------------------------------------------------------


def _recurrent(nodes: Nodes, node: "onnx.NodeProto") -> None:
    """Gives a name to each output that has none, so that later code can identify the outputs by position."""
    count = 3 if node.op_type == "LSTM" else 2
    node.output.extend([""] * (count - len(node.output)))
    for i, name in enumerate(node.output):
        node.output[i] = name or nodes.fresh()


# ---- nodes that torch-mlir lowers wrongly ---------------------------------------------------------------------


def _fatal(what: str, ends: "Callable[[Nodes, onnx.NodeProto], bool]") -> Rewrite:
    def refuse(nodes: Nodes, node: "onnx.NodeProto") -> None:
        if ends(nodes, node):
            raise Unsupported(f"torch-mlir crashes on {node.op_type} of {what}")

    return refuse


def _has_scalar(nodes: Nodes, node: "onnx.NodeProto") -> bool:
    return any(nodes.has_rank(x) and not nodes.shape(x) for x in node.input)


REWRITES: dict[str, Rewrite] = {
    "AveragePool": mean,
    "Einsum": _fatal("operands of rank 0", _has_scalar),
    "GRU": _recurrent,
    "Cast": cast,
    "DFT": dft,
    "DeformConv": deformable,
    "GridSample": grid_sample,
    "If": if_,
    "LSTM": _recurrent,
    "LeakyRelu": leaky_relu,
    "Loop": loop,
    "LpPool": norm,
    "MaxPool": largest,
    "Pad": _pad,
    "RNN": _recurrent,
    "Relu": relu,
    "Resize": resize,
    "STFT": stft,
    "Scan": scan,
    "Upsample": resize,
    **CHOICES,
    **FORMULAS,
    **MOVES,
    **OPTIMIZERS,
    **QUANTIZED,
    **SEQUENCES,
}
"""Maps each operator type to the function that rewrites its nodes."""
