"""Rewrites ONNX's pooling: means and norms become sums over windows, by StableHLO's `reduce_window`.

    AveragePool(x)     the sum of each window, divided by the number of its elements that count
    LpPool(x)          the p-th root of the sum of |x|^p over each window

With `ceil_mode`, the padding at the end is enlarged until it contains the last window.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.nodes import Nodes

if TYPE_CHECKING:
    import onnx


def largest(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites a MaxPool with `ceil_mode` as a MaxPool with more padding at the end. Pools UINT8 elements as floats.

    The padding has the lowest value of the type, so that it does not change a maximum. Returns None for other nodes.
    """
    given = nodes.attributes(node)
    if nodes.like(node, 0).dtype == np.uint8 and len(node.output) == 1:
        kinds = nodes.onnx.TensorProto
        whole = nodes.emit("MaxPool", nodes.emit("Cast", node.input[0], to=kinds.FLOAT), **given)
        nodes.again = True
        return nodes.emit("Cast", whole, to=kinds.UINT8)
    if nodes.like(node, 0).dtype.kind == "u":
        raise Unsupported(
            "torch-mlir crashes on a MaxPool of unsigned integers with indices; cast the operand to float first"
        )
    if not given.pop("ceil_mode", 0):
        return None
    before, after = _pads(nodes, node, True)
    if len([y for y in node.output if y]) > 1:
        raise Unsupported(
            "a MaxPool with both ceil_mode and indices is not supported; leave out ceil_mode and pad the operand"
        )
    given.pop("auto_pad", None)
    return nodes.emit("MaxPool", node.input[0], **(given | {"pads": [*before, *after]}))


def mean(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    given = nodes.attributes(node)
    rank = len(given["kernel_shape"])
    if None in nodes.shape(node.input[0])[2:]:
        is_plain = not given.get("ceil_mode") and given.get("auto_pad", "NOTSET") == "NOTSET" and rank < 3
        if is_plain and not given.get("dilations"):
            return None
        raise Unsupported("the pooled dimensions need static sizes; set these sizes with --size NAME=N")
    before, after = _pads(nodes, node, bool(given.get("ceil_mode", 0)))
    inside = (before, after)
    if not given.get("auto_pad", "NOTSET").startswith("SAME"):
        pads = given.get("pads", [0] * 2 * rank)
        inside = pads[:rank], pads[rank:]
    count = np.ones(())
    steps, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    for i, n in enumerate(nodes.sizes(node.input[0])[2:]):
        counts = np.pad(
            np.ones(n), (inside[0][i], inside[1][i]), constant_values=given.get("count_include_pad", 0)
        )
        counts = np.pad(counts, (0, after[i] - inside[1][i]))
        size = given["kernel_shape"][i]
        window = dilations[i] * (size - 1) + 1
        starts = range(0, len(counts) - window + 1, steps[i])
        count = np.multiply.outer(count, [counts[a : a + window : dilations[i]].sum() for a in starts])
    sums = _window_sums(nodes, node.input[0], given, before, after)
    return nodes.emit("Div", sums, count.astype(nodes.like(node, 0).dtype))


def norm(nodes: Nodes, node: "onnx.NodeProto") -> str:
    given = nodes.attributes(node)
    before, after = _pads(nodes, node, bool(given.get("ceil_mode", 0)))
    power = nodes.like(node, given.get("p", 2))
    powers = nodes.emit("Pow", nodes.emit("Abs", node.input[0]), power)
    nodes.types[powers] = nodes.types[node.input[0]]
    sums = _window_sums(nodes, powers, given, before, after)
    return nodes.emit("Pow", sums, 1 / power)


def _window_sums(
    nodes: Nodes, x: str, given: Mapping[str, Sequence[int]], before: Sequence[int], after: Sequence[int]
) -> str:
    rank = len(before)
    kernel, steps, dilations = (
        [1, 1, *given.get(name, [1] * rank)] for name in ("kernel_shape", "strides", "dilations")
    )
    pads = [[0, 0], [0, 0], *([a, b] for a, b in zip(before, after, strict=True))]

    def emit(body: Body, x: TextTensor) -> list[TextTensor]:
        sizes = [*x.sizes[:2]]
        for d in range(2, rank + 2):
            window = dilations[d] * (kernel[d] - 1) + 1
            sizes.append((x.sizes[d] + sum(pads[d]) - window) // steps[d] + 1)
        listed = {"window_dimensions": kernel, "window_strides": steps, "window_dilations": dilations}
        attributes = [f"{name} = array<i64: {', '.join(map(str, v))}>" for name, v in listed.items()]
        attributes.append(f"padding = dense<{pads}> : tensor<{rank + 2}x2xi64>")
        add = body.region([((), x.element)] * 2, lambda a, b: [body.add(a, b)])
        zero = body.zeros([], x.element)
        return body.emit_all("reduce_window", [x, zero], [(sizes, x.element)], ", ".join(attributes), [add])

    return nodes.call("window_sums", [x], emit)[0]


def _pads(nodes: Nodes, node: "onnx.NodeProto", ceil_mode: bool) -> tuple[list[int], list[int]]:
    """The padding before and after the elements of each spatial dimension.

    With `ceil_mode`, the padding after the elements is enlarged until it contains the last window.
    """
    given, sizes = nodes.attributes(node), nodes.sizes(node.input[0])[2:]
    rank = len(sizes)
    pads = list(given.get("pads", [0] * 2 * rank))
    steps, dilations = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    after = list(pads[rank:])
    for i, (n, k) in enumerate(zip(sizes, given["kernel_shape"], strict=True)):
        window = dilations[i] * (k - 1) + 1
        if given.get("auto_pad", "NOTSET").startswith("SAME"):
            whole = max(0, (-(-n // steps[i]) - 1) * steps[i] + window - n)
            pads[i] = whole // 2 if given["auto_pad"] == "SAME_UPPER" else -(-whole // 2)
            after[i] = whole - pads[i]
            continue
        padded = n + pads[i] + pads[rank + i]
        count = -(-(padded - window) // steps[i]) + 1
        count -= (count - 1) * steps[i] >= n + pads[i]  # no window may begin in the padding at the end
        after[i] += max(0, (count - 1) * steps[i] + window - padded) if ceil_mode else 0
    return pads[:rank], after
