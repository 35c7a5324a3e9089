"""toward_depthwise: gradients of depthwise convolutions with respect to their kernels, with channels first.

    y[c, i, j] = sum_(n, p, q) w[n, c, p, q] x[c, n, p + i, q + j]

Each workgroup computes one channel c. Vectors run along q. A tile covers some offsets (i, j). The sum for an offset is
a vector in a register, whose elements are added at the end. The images are padded, and divided into planes if the
cotangent w is dilated (planes.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.backends.iree.emit.workgroups import ArrayPart, Code
from tiduc.backends.iree.fast.convolutions.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.convolutions.planes import Planes
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape


def toward_depthwise(b: Emitter, c: Convolution) -> Result:
    """Computes a convolution from `Convolution.in_order` that has as many batch groups as images and outputs."""
    planes = Planes.of_kernel(c)
    x = planes.filled(b, b.reshape(c.x, [*shape(c.x)[:2], *planes.image]), 0)
    w = b.reshape(c.w, [*shape(c.w)[:2], *planes.places])
    rows, columns = _tile(planes, b.settings.registers.number)
    code = Code("toward_depthwise", _DepthwiseForm(c, planes, rows, columns), _DepthwisePart)
    y = code.run(b, [x, w], with_shape(c.x.type, [c.outputs, math.prod(planes.sizes)]), [c.outputs])
    return Result(b.reshape(y, [1, c.outputs, *c.places]), (BATCH, FEATURES, *range(c.rank)))


def _tile(planes: Planes, registers: int) -> tuple[int, int]:
    """Returns the numbers of rows and columns of offsets in the largest tile whose sums fit into the registers.

    These numbers divide the numbers of rows and columns of the window.
    """
    by_rows, by_columns = ([m for m in range(1, n + 1) if n % m == 0] for n in planes.sizes)
    tiles = [(i, j) for i in by_rows for j in by_columns if i * j + 2 < registers]
    return max(tiles, key=math.prod)


@dataclass(frozen=True)
class _DepthwiseForm:
    """The properties of a gradient that determine its code. A tile has `rows` times `columns` offsets."""

    c: Convolution
    planes: Planes
    rows: int
    columns: int


@dataclass(frozen=True)
class _DepthwisePart:
    """Emits the code for the gradient of one channel's kernel. `x` has the images as planes; `w` is the cotangent."""

    form: _DepthwiseForm
    numbers: None
    x: IrValue
    w: IrValue

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        """Emits the code for the part with the indices `place`: (channel,)."""
        (channel,), form = place, self.form
        rows, columns = form.planes.sizes
        sizes = [1, rows * columns]

        def tile(k: Vectors, place: Sequence[SizeLike], out: IrValue) -> list[IrValue]:
            i, j = k.held(place[0] * form.rows), k.held(place[1] * form.columns)
            sums = self.sums(k, channel, i, j)
            run = len(sums) if form.columns == columns else form.columns  # the number of adjacent offsets
            for begin in range(0, len(sums), run):
                first = k.held((i + begin // form.columns) * columns + j)
                for n in range(0, run, k.width):
                    vs = sums[begin + n : begin + min(n + k.width, run)]
                    mask = k.first(len(vs)) if len(vs) < k.width else None
                    out = k.store(k.totals(vs), out, [0, k.held(first + n)], mask)
            return [out]

        counts = [rows // form.rows, columns // form.columns]
        return ArrayPart(k.nest(counts, [k.array(sizes)], tile)[0], [channel, 0], sizes)

    def sums(self, k: Vectors, channel: SizeLike, i: SizeLike, j: SizeLike) -> Sequence[IrValue]:
        """Emits the loops that compute the sums of the tile whose first offset is (i, j): a vector for each offset."""
        c, planes = self.form.c, self.form.planes
        rows, columns = planes.places
        offsets = [
            [k.held(n) for n in planes.offsets.read([i + di, j + dj])]
            for di in range(self.form.rows)
            for dj in range(self.form.columns)
        ]
        whole = columns // k.width * k.width
        # The index of the image dimension, 0 or 1, in x and in w.
        images, cotangents = c.layout.input[1], c.layout.kernel[0]

        def some(
            k: Vectors, image: SizeLike, p: SizeLike, q: SizeLike, sums: Sequence[IrValue]
        ) -> list[IrValue]:
            mask = k.first(columns - q) if isinstance(q, int) else None
            of_w, of_x = ([channel, image] if d else [image, channel] for d in (cotangents, images))
            w = k.load(self.w, [*of_w, p, q], mask)
            place = k.held(p * planes.pitch + q)
            xs = [k.load(self.x, [*of_x, plane, k.held(place + far)], mask) for plane, far in offsets]
            return k.plus_products([w], xs, sums)

        def row(k: Vectors, place: Sequence[SizeLike], *sums: IrValue) -> Sequence[IrValue]:
            image, p = place
            sums = k.loop(0, whole, k.width, sums, lambda k, q, *sums: some(k, image, p, q, sums))
            return some(k, image, p, whole, sums) if whole < columns else sums

        return k.nest([c.features, rows], [k.zeros()] * len(offsets), row)
