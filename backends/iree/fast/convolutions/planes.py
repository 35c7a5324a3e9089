"""planes: images stored so that each offset of a window has a constant distance in memory from the window's start.

    x, 3 by 3, padding 1    ->    0 a b c 0 d e f 0 g h i 0     and a row of zeros before and after; the pitch is 4

At offset (i, j), a window at place (p, q) reads x[(p + i) pitch + q + j]. Let t = p pitch + q. A vector of x that
begins at t + i pitch + j then has the elements for the places t, t + 1, ..., even if a row ends among them. The right
padding of a row is also the left padding of the next row. If the window has strides, the rows and columns of an image
are divided by their remainders modulo the strides, and each pair of remainders has its own plane:

    stride 2:  plane 0 has the elements of even columns, plane 1 those of odd columns

The code that reads or writes planes reads their sizes at run time, so that images of many sizes share this code.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.patches import Along, patches
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike
from tiduc.backends.iree.emit.vectors import Vectors, quotient
from tiduc.backends.iree.emit.workgroups import ArrayPart, Code
from tiduc.backends.iree.fast.convolutions.convolution_form import Convolution
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape

Pair = tuple[int, int]
"""Two numbers: the first is for rows, the second for columns."""


@dataclass(frozen=True)
class Offsets:
    """Maps each offset of a window to the element of a plane that the window reads at this offset.

    `remainders` has the remainders that `Planes.remainders` returns for rows, and those for columns. Only `pitch`, the
    distance between rows of a plane, depends on the size of the images.
    """

    strides: Pair
    dilation: Pair
    remainders: tuple[tuple[int, ...], ...]
    pitch: SizeLike | None = None

    def read(self, offset: Sequence[SizeLike]) -> tuple[SizeLike, SizeLike]:
        """For an offset of the window, the index of a plane, and the distance in this plane from the window's start."""
        assert self.pitch is not None, "the code knows the distance of rows"
        plane: SizeLike = 0
        at: SizeLike = 0
        for d, j in enumerate(offset):
            planes, far = self.remainders[d], j * self.dilation[d]
            shift = quotient(far, self.strides[d])
            if len(planes) > 1:
                plane = plane * len(planes) + quotient(far - shift * self.strides[d], planes[1])
            at = at + shift * (1 if d else self.pitch)
        return plane, at


@dataclass(frozen=True)
class Planes:
    """The planes of the images of a convolution of one or two spatial dimensions. A one-dimensional image has one row.

    Each pair is (rows, columns). `places` is the spatial size of the result, and `image` that of an image. `sizes`,
    `strides` and `dilation` describe the window; `low` is the padding before the image.
    """

    places: Pair
    sizes: Pair
    strides: Pair
    dilation: Pair
    low: Pair
    image: Pair

    @staticmethod
    def of(c: Convolution) -> "Planes":
        """The planes for code that computes a convolution. The vectors of this code run along places of the result."""
        w = c.window
        return _planes(c, c.places, w.sizes, w.strides, w.dilation)

    @staticmethod
    def of_kernel(c: Convolution) -> "Planes":
        """The planes for code that computes the gradient with respect to a kernel.

        The vectors of this code run along the window, which is a cotangent. The window and the places exchange roles.
        """
        w = c.window
        return _planes(c, w.sizes, c.places, w.dilation, w.strides)

    def remainders(self, d: int) -> list[int]:
        """The remainders, modulo the stride, of the row indices (d = 0) or column indices (d = 1) that windows read.

        The list has 0 and multiples of its second entry.
        """
        stride, step = self.strides[d], self.dilation[d] % self.strides[d]
        if step * (self.sizes[d] - 1) < stride:
            return [j * step for j in range(self.sizes[d] if step else 1)]
        return list(range(0, stride, math.gcd(stride, step)))

    @property
    def offsets(self) -> Offsets:
        """The map from offsets of the window to elements of planes."""
        remainders = tuple(tuple(self.remainders(d)) for d in range(2))
        return Offsets(self.strides, self.dilation, remainders, self.pitch)

    @property
    def count(self) -> int:
        """The number of planes."""
        return math.prod(len(self.remainders(d)) for d in range(2))

    @property
    def reach(self) -> Pair:
        """The distance, in a plane, from the window's first element to its last element, in rows and columns."""
        rows, columns = ((self.sizes[d] - 1) * self.dilation[d] // self.strides[d] for d in range(2))
        return rows, columns

    @property
    def shared(self) -> int:
        """The number of zeros that are both the right padding of a row and the left padding of the next row.

        There are at most as many as the reach of a window, so that each place of the result has its own index in a
        plane.
        """
        if self.strides[1] > 1:
            return 0
        behind = self.places[1] + self.reach[1] - self.low[1] - self.image[1]
        return max(0, min(self.low[1], behind, self.reach[1]))

    @property
    def pitch(self) -> int:
        """The distance from the start of a row of a plane to the start of the next row."""
        return self.places[1] + self.reach[1] - self.shared

    def flat(self, rows: int) -> int:
        """The number of places in `rows` rows of the result, including the places between these rows."""
        return (rows - 1) * self.pitch + self.places[1]

    def rows(self, least: int) -> int:
        """The number of rows that a plane needs so that windows can be read at all places.

        The places include those between rows. If there are fewer than `least`, windows can be read at `least` places.
        """
        furthest = max(self.flat(self.places[0]), least) + self.reach[0] * self.pitch + self.reach[1]
        return -(-furthest // self.pitch)

    def filled(self, b: Emitter, x: IrValue, least: int) -> IrValue:
        """Copies images (batch, features, rows, columns) to planes (batch, features, planes, elements).

        `least` is the argument of `rows`.
        """
        n, m, *image = shape(x)
        rows = self.rows(least)
        size = rows * self.pitch
        if (rows, self.pitch) == tuple(image) and self.low == (0, 0) and self.strides == (1, 1):
            return b.reshape(x, [n, m, 1, size])
        if self.strides[1] > 2:
            return self._gathered(b, x, rows)
        type_ = with_shape(x.type, [n, m, self.count, size])
        numbers = _Numbers(n, m, image[0], image[1], size, self.pitch, self.kept(0)[2], self.kept(1)[2])
        axes = ("images", "channels", "height", "width"), ("images", "channels", None, "size")
        form = _PlanesForm(self.strides, self.offsets.remainders, self.low)
        return Code("planes", form, _PlanesPart, numbers, ["images"], axes).run(b, [x], type_, [n, m])

    def _gathered(self, b: Emitter, x: IrValue, rows: int) -> IrValue:
        """Computes the planes as `filled` does, by a loop over their elements instead of vectors."""
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

    def kept(self, d: int) -> tuple[int, int, int]:
        """Counts elements along dimension d of an image. Returns three numbers.

        They count the leading elements that no window reads, the zeros before the image, and the elements that windows
        read.
        """
        skipped, low = max(0, -self.low[d]), max(0, self.low[d])
        reached = (self.places[d] - 1) * self.strides[d] + (self.sizes[d] - 1) * self.dilation[d] + 1
        return skipped, low, max(0, min(self.image[d] - skipped, reached - low))


class _Numbers(NamedTuple):
    """The numbers that the code reads at run time.

    They are the sizes of the images, the size of a plane, the distance between its rows, and the numbers of rows and
    columns of an image that windows read.
    """

    images: SizeLike
    channels: SizeLike
    height: SizeLike
    width: SizeLike
    size: SizeLike
    pitch: SizeLike
    rows: SizeLike
    columns: SizeLike


@dataclass(frozen=True)
class _PlanesForm:
    """The properties of planes that determine the code that fills them. See `Offsets`."""

    strides: Pair
    remainders: tuple[tuple[int, ...], ...]
    low: Pair

    @property
    def count(self) -> int:
        """The number of planes."""
        return math.prod(map(len, self.remainders))


@dataclass(frozen=True)
class _PlanesPart:
    """Emits the code that fills the planes of one feature of an image. `x` has the images."""

    form: _PlanesForm
    numbers: _Numbers
    x: IrValue

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        """Emits the code for the part with the indices `place`: (image, feature)."""
        n, form = self.numbers, self.form
        stride, first = form.strides[0], max(0, -form.low[0])
        sizes = [1, 1, form.count, n.size]
        out = k.cleared(k.array(sizes), sizes)
        for i, remainder in enumerate(form.remainders[0]):
            # Row r of the plane is row r * stride + shift of the image.
            shift = remainder - form.low[0]
            begin = -((shift - first) // stride)
            end = k.held(quotient(n.rows + (first - shift + stride - 1), stride))

            def row(
                k: Vectors, r: RunTimeSize, out: IrValue, i: int = i, shift: int = shift
            ) -> list[IrValue]:
                source = [*place, k.held(r * stride + shift)]
                return [self.row(k, source, k.held(r * n.pitch), i * len(form.remainders[1]), out)]

            (out,) = k.loop(begin, end, 1, [out], row)
        return ArrayPart(out, [*place, 0, 0], sizes)

    def row(self, k: Vectors, source: Sequence[SizeLike], at: SizeLike, plane: int, out: IrValue) -> IrValue:
        """Copies a row of the image to `out`, and divides its elements among the planes from index `plane` on.

        In each of these planes, the row begins at index `at`.
        """
        step, count = k.width * self.form.strides[1], self.numbers.columns
        whole = k.held(quotient(count, step) * step)

        def step_of_row(k: Vectors, q: RunTimeSize, out: IrValue) -> list[IrValue]:
            return [self.vectors_of_row(k, source, at, plane, q, out, None)]

        (out,) = k.loop(0, whole, step, [out], step_of_row)
        return self.vectors_of_row(k, source, at, plane, whole, out, k.held(count - whole))

    def vectors_of_row(
        self,
        k: Vectors,
        source: Sequence[SizeLike],
        at: SizeLike,
        plane: int,
        q: SizeLike,
        out: IrValue,
        count: SizeLike | None,
    ) -> IrValue:
        """Copies elements of a row of the image to `out`, beginning with the q-th element that windows read.

        Copies as many vectors as the stride is long. If `count` is not None, copies only the first `count` elements of
        these vectors.
        """
        stride, remainders = self.form.strides[1], self.form.remainders[1]
        low, skipped = max(0, self.form.low[1]), max(0, -self.form.low[1])
        masks = [None if count is None else k.first(count - v * k.width) for v in range(stride)]
        vs = [k.load(self.x, [*source, q + (skipped + v * k.width)], mask) for v, mask in enumerate(masks)]
        for e, v in enumerate(k.deinterleaved(*vs) if stride == 2 else vs):
            begin, remainder = divmod(e + low, stride)
            if remainder in remainders:
                place = at + begin + quotient(q, stride)
                mask = None if count is None else k.first(quotient(count + (stride - 1 - e), stride))
                out = k.store(v, out, [0, 0, plane + remainders.index(remainder), place], mask)
        return out


def _two(values: Sequence[int], fill: int) -> Pair:
    first, second = [fill] * (2 - len(values)) + list(values)
    return first, second


def _planes(c: Convolution, *roles: Sequence[int]) -> Planes:
    """Creates a `Planes` for a convolution. `roles` has the fields `places`, `sizes`, `strides` and `dilation`."""
    image = _two([shape(c.x)[d] for d in c.layout.input[2:]], 1)
    places, sizes, strides, dilation = (_two(role, 1) for role in roles)
    return Planes(places, sizes, strides, dilation, _two(c.window.low, 0), image)
