"""planes: images with channels first as arrays in which every offset of a window is one constant distance away.

    x, 3 by 3, padding 1    ->    0 a b c 0 d e f 0 g h i 0     with rows of zeros before and behind; the pitch is 4

The element that offset (i, j) of a window at place (p, q) reads is x[(p + i) pitch + q + j], so a vector of x at
t + i pitch + j has the elements for the places t, t + 1, ... of all rows. The right padding of a row is the left one of
the next. With strides, there is one such plane for each remainder of rows and columns, without holes:

    stride 2:  plane 0 has the elements of even columns, plane 1 those of odd columns
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import Convolution
from tiduc.backends.iree.fast.patches import Along, patches
from tiduc.backends.iree.fast.vectors import Vectors, quotient
from tiduc.backends.iree.fast.workgroups import Part, in_workgroups
from tiduc.dialect.types import shape, with_shape

Pair = tuple[int, int]
"""A number for rows and a number for columns."""


@dataclass(frozen=True)
class Planes:
    """The planes of the images of a convolution of one or two spatial dimensions; an image of one has one row.

    `places` and `sizes` are the rows and columns of the result and of the window; `strides`, `dilation` and `low` are
    those of the window; `image` is the size of an image.
    """

    places: Pair
    sizes: Pair
    strides: Pair
    dilation: Pair
    low: Pair
    image: Pair

    @staticmethod
    def of(c: Convolution) -> "Planes":
        """The planes of a convolution's images."""
        w = c.window
        return _planes(c, c.places, w.sizes, w.strides, w.dilation)

    @staticmethod
    def of_kernel(c: Convolution) -> "Planes":
        """The planes of a convolution toward a kernel: the window and its places change roles."""
        w = c.window
        return _planes(c, w.sizes, c.places, w.dilation, w.strides)

    def shift(self, d: int, j: int) -> int:
        """The places between the element that the window reads at offset j in its plane, and the window's place."""
        return j * self.dilation[d] // self.strides[d]

    def remainders(self, d: int) -> list[int]:
        """The remainders of rows or columns for which there are planes: multiples of the second one, from 0 on."""
        stride, step = self.strides[d], self.dilation[d] % self.strides[d]
        if step * (self.sizes[d] - 1) < stride:
            return [j * step for j in range(self.sizes[d] if step else 1)]
        return list(range(0, stride, math.gcd(stride, step)))

    @property
    def count(self) -> int:
        """The number of planes."""
        return math.prod(len(self.remainders(d)) for d in range(2))

    @property
    def reach(self) -> Pair:
        """The largest shifts."""
        rows, columns = (self.shift(d, self.sizes[d] - 1) for d in range(2))
        return rows, columns

    @property
    def shared(self) -> int:
        """The zeros that are the right padding of one row and the left padding of the next.

        They are not more than a window reaches, so that no two places of the result are one place of a plane.
        """
        if self.strides[1] > 1:
            return 0
        behind = self.places[1] + self.reach[1] - self.low[1] - self.image[1]
        return max(0, min(self.low[1], behind, self.reach[1]))

    @property
    def pitch(self) -> int:
        """The distance of rows."""
        return self.places[1] + self.reach[1] - self.shared

    def flat(self, rows: int) -> int:
        """The number of consecutive places in these rows of the result, those between rows included."""
        return (rows - 1) * self.pitch + self.places[1]

    def rows(self, least: int) -> int:
        """The rows of a plane, of which at least `least` consecutive places are read."""
        furthest = max(self.flat(self.places[0]), least) + self.reach[0] * self.pitch + self.reach[1]
        return -(-furthest // self.pitch)

    def filled(self, b: Emitter, x: Any, least: int) -> Any:
        """The planes (batch, features, planes, elements) of x, (batch, features, rows, columns)."""
        n, m, *image = shape(x)
        rows = self.rows(least)
        size = rows * self.pitch
        if (rows, self.pitch) == tuple(image) and self.low == (0, 0) and self.strides == (1, 1):
            return b.reshape(x, [n, m, 1, size])
        if self.strides[1] > 2:
            return self._gathered(b, x, rows)
        type_, sizes = with_shape(x.type, [n, m, self.count, size]), [1, 1, self.count, size]

        def one(k: Vectors, image: Sequence[Any], inputs: Sequence[Any]) -> Part:
            out = k.cleared(k.array(sizes), sizes[:-1])
            return Part(self._copied(k, inputs[0], image, out), [*image, 0, 0], sizes)

        return in_workgroups(b, "planes", self, [x], type_, [n, m], one)

    def _gathered(self, b: Emitter, x: Any, rows: int) -> Any:
        """The planes, by a loop over their elements."""
        n, m, *_ = shape(x)
        kept = [self.remainders(d) for d in range(2)]
        steps = [each[1] if len(each) > 1 else 1 for each in kept]
        at = [
            Along(n, 0),
            Along(m, 1),
            *(Along(len(each), d + 2, steps[d]) for d, each in enumerate(kept)),
            *(Along(size, d + 2, self.strides[d]) for d, size in enumerate((rows, self.pitch))),
        ]
        return patches(b, x, at, [0, 0, *(-lo for lo in self.low)], [n, m, self.count, rows * self.pitch])

    def _copied(self, k: Vectors, x: Any, image: Sequence[Any], out: Any) -> Any:
        """The planes with the elements of an image."""
        skipped, low, count = self.kept(0)
        for i, remainder in enumerate(self.remainders(0)):
            # Row r of the plane is row r * stride + remainder - low of the image.
            begin, end = (-((remainder - low - n) // self.strides[0]) for n in (0, count))
            plane, shift = i * len(self.remainders(1)), remainder - low + skipped

            def row(k: Vectors, r: Any, out: Any, plane: int = plane, shift: int = shift) -> list[Any]:
                source = [*image, k.held(r * self.strides[0] + shift)]
                return [self._row(k, x, source, k.held(r * self.pitch), plane, out)]

            (out,) = k.loop(begin, end, 1, [out], row)
        return out

    def _row(self, k: Vectors, x: Any, source: Sequence[Any], at: Any, plane: int, out: Any) -> Any:
        """The planes from `plane` on, of one remainder of rows, with a row of the image; `at` is its place in them."""
        width, stride, remainders = k.width, self.strides[1], self.remainders(1)
        skipped, low, count = self.kept(1)
        whole = count // (width * stride) * width * stride

        def some(k: Vectors, q: Any, out: Any) -> Any:
            last = isinstance(q, int)
            masks = [k.first(count - q - v * width) if last else None for v in range(stride)]
            vs = [k.load(x, [*source, q + (skipped + v * width)], mask) for v, mask in enumerate(masks)]
            for e, v in enumerate(k.deinterleaved(*vs) if stride == 2 else vs):
                begin, remainder = divmod(e + low, stride)
                if remainder in remainders:
                    to, place = plane + remainders.index(remainder), quotient(q, stride)
                    mask = k.first(-((e - count) // stride) - place) if last else None
                    out = k.store(v, out, [0, 0, to, at + begin + place], mask)
            return out

        (out,) = k.loop(0, whole, width * stride, [out], lambda k, q, out: [some(k, q, out)])
        return some(k, whole, out) if whole < count else out

    def read(self, offset: Sequence[Any]) -> tuple[Any, Any]:
        """The plane that an offset of the window reads, and the distance in it from the window's place."""
        plane, at = 0, 0
        for d, j in enumerate(offset):
            planes, far = self.remainders(d), j * self.dilation[d]
            shift = quotient(far, self.strides[d])
            if len(planes) > 1:
                plane = plane * len(planes) + quotient(far - shift * self.strides[d], planes[1])
            at = at + shift * (1 if d else self.pitch)
        return plane, at

    def kept(self, d: int) -> tuple[int, int, int]:
        """Along dimension d, the first elements of the image, which no window reads, the padding, and those read."""
        skipped, low = max(0, -self.low[d]), max(0, self.low[d])
        reached = (self.places[d] - 1) * self.strides[d] + (self.sizes[d] - 1) * self.dilation[d] + 1
        return skipped, low, max(0, min(self.image[d] - skipped, reached - low))


def _two(values: Any, fill: int) -> Pair:
    first, second = [fill] * (2 - len(values)) + list(values)
    return first, second


def _planes(c: Convolution, *roles: Sequence[int]) -> Planes:
    """The planes of a convolution's images, with these places, sizes, strides and dilation of the window."""
    image = _two([shape(c.x)[d] for d in c.layout.input[2:]], 1)
    places, sizes, strides, dilation = (_two(role, 1) for role in roles)
    return Planes(places, sizes, strides, dilation, _two(c.window.low, 0), image)
