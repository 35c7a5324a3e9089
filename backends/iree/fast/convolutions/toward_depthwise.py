"""toward_depthwise: gradients of depthwise convolutions toward their kernels, with channels first.

    y[c, i, j] = sum_(n, p, q) w[n, c, p, q] x[c, n, p + i, q + j]

Each part of the dispatch is one channel c. Vectors are along q. A tile is some offsets (i, j); its sums, one vector
each, stay in registers until the end, where their elements are added. The images are padded, and divided into planes
if the cotangent w is dilated (planes.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.backends.iree.emit.workgroups import Part, in_workgroups
from tiduc.backends.iree.fast.convolutions.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.convolutions.planes import Planes
from tiduc.dialect.shapes.types import shape, with_shape


def toward_depthwise(b: Emitter, c: Convolution) -> Result:
    """The result of a convolution `in_order`, with a batch group for each image and feature of the result."""
    planes = Planes.of_kernel(c)
    x = planes.filled(b, b.reshape(c.x, [*shape(c.x)[:2], *planes.image]), 0)
    w = b.reshape(c.w, [*shape(c.w)[:2], *planes.places])
    rows, columns = _tile(planes, b.settings.registers.number)
    part = _Part(c, planes, rows, columns)

    def one(k: Vectors, place: Sequence[Any], inputs: Sequence[Any]) -> Part:
        return replace(part, x=inputs[0], w=inputs[1]).one(k, place[0])

    type_ = with_shape(c.x.type, [c.outputs, math.prod(planes.sizes)])
    y = in_workgroups(b, "toward_depthwise", part, [x, w], type_, [c.outputs], one)
    return Result(b.reshape(y, [1, c.outputs, *c.places]), (BATCH, FEATURES, *range(c.rank)))


def _tile(planes: Planes, registers: int) -> tuple[int, int]:
    """The rows and columns of offsets in a tile: the most that divide the window and whose sums fit into registers."""
    by_rows, by_columns = ([m for m in range(1, n + 1) if n % m == 0] for n in planes.sizes)
    tiles = [(i, j) for i in by_rows for j in by_columns if i * j + 2 < registers]
    return max(tiles, key=math.prod)


@dataclass(frozen=True)
class _Part:
    """Emits the gradient toward the kernel of one channel, in tiles of `rows` by `columns` offsets.

    In the code of a dispatch, `x` are the images as planes, and `w` is the cotangent.
    """

    c: Convolution
    planes: Planes
    rows: int
    columns: int
    x: Any = field(default=None, repr=False)
    w: Any = field(default=None, repr=False)

    def one(self, k: Vectors, channel: Any) -> Part:
        """The part of a channel."""
        rows, columns = self.planes.sizes
        sizes = [1, rows * columns]

        def tile(k: Vectors, place: Sequence[Any], out: Any) -> list[Any]:
            i, j = k.held(place[0] * self.rows), k.held(place[1] * self.columns)
            sums = self.sums(k, channel, i, j)
            run = len(sums) if self.columns == columns else self.columns  # sums side by side in the result
            for begin in range(0, len(sums), run):
                first = k.held((i + begin // self.columns) * columns + j)
                for n in range(0, run, k.width):
                    vs = sums[begin + n : begin + min(n + k.width, run)]
                    mask = k.first(len(vs)) if len(vs) < k.width else None
                    out = k.store(k.totals(vs), out, [0, k.held(first + n)], mask)
            return [out]

        counts = [rows // self.rows, columns // self.columns]
        return Part(k.nest(counts, [k.array(sizes)], tile)[0], [channel, 0], sizes)

    def sums(self, k: Vectors, channel: Any, i: Any, j: Any) -> Sequence[Any]:
        """The sums of a tile at the offsets from (i, j) on: vectors."""
        rows, columns = self.planes.places
        offsets = [
            [k.held(n) for n in self.planes.offsets.read([i + di, j + dj])]
            for di in range(self.rows)
            for dj in range(self.columns)
        ]
        whole = columns // k.width * k.width
        images, cotangents = (
            self.c.layout.input[1],
            self.c.layout.kernel[0],
        )  # 0 or 1: the dimension of images

        def some(k: Vectors, image: Any, p: Any, q: Any, sums: Sequence[Any]) -> list[Any]:
            mask = k.first(columns - q) if isinstance(q, int) else None
            of_w, of_x = ([channel, image] if d else [image, channel] for d in (cotangents, images))
            w = k.load(self.w, [*of_w, p, q], mask)
            place = k.held(p * self.planes.pitch + q)
            xs = [k.load(self.x, [*of_x, plane, k.held(place + far)], mask) for plane, far in offsets]
            return k.plus_products([w], xs, sums)

        def row(k: Vectors, place: Sequence[Any], *sums: Any) -> Sequence[Any]:
            image, p = place
            sums = k.loop(0, whole, k.width, sums, lambda k, q, *sums: some(k, image, p, q, sums))
            return some(k, image, p, whole, sums) if whole < columns else sums

        return k.nest([self.c.features, rows], [k.zeros()] * len(offsets), row)
