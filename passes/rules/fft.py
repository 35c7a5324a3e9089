"""fft: discrete Fourier transforms over the last dimensions. All four kinds are linear.

Let N be the number of points, and R the points k of the last dimension that RFFT keeps. Then

    FFT     adjoint N IFFT
    IFFT    adjoint FFT / N
    RFFT    FFT, restricted to R           adjoint N Re(IFFT), with zeros for the points not in R
    IRFFT   Re(IFFT) of R and its mirror   adjoint w RFFT / N

where the mirror has the conjugate of each point in R that is not its own conjugate. For n points along the last
dimension, w is 1 for points that are their own conjugate (k = 0, and k = n / 2 for even n), and 2 for all others.
"""

from math import prod

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import dims, is_empty, rank, shape, with_shape
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.opset import linear


@linear("stablehlo.fft", [0])
def fft(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    x = op.operands[0]
    if is_empty(x) or is_empty(ct):
        return [None]
    length = list(op.attributes["fft_length"])
    count = prod(length)
    kind = hlo.FftTypeAttr(op.attributes["fft_type"]).value
    if kind == "FFT":
        return [times(b, count, _transform(b, ct, "IFFT", length, x.type))]
    if kind == "IFFT":
        return [times(b, 1 / count, _transform(b, ct, "FFT", length, x.type))]
    if kind == "IRFFT":
        transformed = _transform(b, ct, "RFFT", length, x.type)
        return [b.multiply(times(b, 1 / count, _weights(b, x, length[-1])), transformed)]
    if len(length) == 1:  # IRFFT in more dimensions is specified for transforms of real values only
        return [
            times(b, count, _transform(b, b.divide(ct, _weights(b, ct, length[0])), "IRFFT", length, x.type))
        ]
    missing = [0] * (rank(x) - 1) + [shape(x)[-1] - shape(ct)[-1]]
    none = [0] * rank(x)
    zero = b.zero(with_shape(ct.type, []))
    full = b.pad(ct, zero, none, missing, none)
    return [times(b, count, b.real(_transform(b, full, "IFFT", length, full.type)))]


def _transform(b: StablehloBuilder, x: Value, kind: str, length: list[int], type_: ir.Type) -> Value:
    attributes = {"fft_type": hlo.FftTypeAttr.get(kind), "fft_length": dims(length)}
    return b.emit("stablehlo.fft", (x,), type_, attributes)


def _weights(b: StablehloBuilder, x: Value, count: int) -> Value:
    """The weights w above: 1 or 2 for each point of the last dimension of x, for a transform of `count` points."""
    last = shape(x)[-1]
    alone = 2 - count % 2 if count > 1 else 1
    two, one = (b.constant(n, with_shape(x.type, sizes)) for n, sizes in ((2, [last - alone]), (1, [])))
    line = b.pad(two, one, [1], [alone - 1], [0])
    return b.broadcast_in_dim(line, [rank(x) - 1], x)
