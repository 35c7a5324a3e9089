"""Rewrites ONNX's DFT and STFT as StableHLO's `fft`.

ONNX stores a complex tensor as a tensor of real numbers. The last dimension, of size 2, holds the real and imaginary
parts.
"""

from typing import TYPE_CHECKING

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.nodes import Nodes, operand
from tiduc.models.onnx.tensors import held, take, tensor

if TYPE_CHECKING:
    import onnx


def dft(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    given = nodes.attributes(node)
    x, rank = node.input[0], len(nodes.sizes(node.input[0]))
    axis = given.get("axis", 1)
    if nodes.version >= 20:
        axis = _number(nodes, node, 2, -2)
    axis %= rank
    inverse, is_onesided = bool(given.get("inverse", 0)), bool(given.get("onesided", 0))
    n = nodes.sizes(x)[axis]
    length = _number(nodes, node, 1, 2 * (n - 1) if inverse and is_onesided else n)

    def emit(body: Body, x: TextTensor) -> list[TextTensor]:
        order = [*(d for d in range(rank - 1) if d != axis), axis, rank - 1]
        y = _transformed(body, body.transpose(x, order), length, inverse, is_onesided)
        return [body.transpose(y, [int(d) for d in np.argsort(order)])]

    return nodes.call("DFT", [x], emit)


def _number(nodes: Nodes, node: "onnx.NodeProto", i: int, default: int) -> int:
    if not operand(node, i):
        return default
    found = nodes.constant(node, i)
    if found is None:
        raise Unsupported(f"operand {i} must be known at import; give it with --constant {node.input[i]}=N")
    return int(found.reshape(-1)[0])


def _transformed(body: Body, x: TextTensor, length: int, inverse: bool, is_onesided: bool) -> TextTensor:
    """The transform of x along the next to last dimension. The last dimension holds the real and imaginary parts."""
    *batch, n, parts = x.sizes
    count = length // 2 + 1 if is_onesided and inverse else length
    if n < count:
        x = body.concatenate([x, body.zeros([*batch, count - n, parts], x.element)], len(batch))
    whole = [(0, m) for m in (*batch, count)]
    re = body.reshape(body.slice(x, [*whole, (0, 1)]), [*batch, count])
    im = body.zeros([*batch, count], x.element)
    if parts == 2:
        im = body.reshape(body.slice(x, [*whole, (1, 2)]), [*batch, count])
    kind = f"complex<{x.element}>"
    if is_onesided and not inverse:
        y = _fft(body, re, "RFFT", length, length // 2 + 1, kind)
    else:
        z = body.emit("complex", [re, im], re.sizes, element=kind)
        if is_onesided:
            real = _fft(body, z, "IRFFT", length, length, x.element)
            return body.reshape(real, [*real.sizes, 1])
        y = _fft(body, z, "IFFT" if inverse else "FFT", length, length, kind)
    ends = [body.emit(part, [y], y.sizes, element=x.element) for part in ("real", "imag")]
    return body.concatenate([body.reshape(v, [*v.sizes, 1]) for v in ends], len(y.sizes))


def _fft(body: Body, x: TextTensor, kind: str, length: int, result: int, element: str) -> TextTensor:
    settings = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = array<i64: {length}>"
    return body.emit("fft", [x], [*x.sizes[:-1], result], settings, element)


def stft(nodes: Nodes, node: "onnx.NodeProto") -> str:
    """The DFT of each frame of the signal, after multiplication by the window function."""
    signal = held(nodes, tensor(nodes, node.input[0]))
    step = tensor(nodes, node.input[1])
    window = tensor(nodes, node.input[2]) if operand(node, 2) else None
    length = _number(nodes, node, 3, 0) if window is None else window.shape[0]
    n = signal.shape[1]
    if isinstance(step, np.ndarray):
        count = (n - length) // int(step.reshape(-1)[0]) + 1
    else:
        count = nodes.sizes(node.output[0])[1]
    starts = step.reshape(1, 1) * np.arange(count)[:, None]
    frames = take(signal, (starts + np.arange(length)).reshape(-1), 1)
    frames = frames.reshape(signal.shape[0], count, length, signal.shape[2])
    if window is not None:
        frames = frames * window.reshape(1, 1, -1, 1)
    is_onesided = nodes.attributes(node).get("onesided", 1)
    nodes.again = True
    if nodes.version >= 20:
        return nodes.emit("DFT", frames.name, "", np.int64(2), onesided=is_onesided)
    return nodes.emit("DFT", frames.name, onesided=is_onesided, axis=2)
