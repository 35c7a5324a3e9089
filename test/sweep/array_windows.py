"""Draws the ops with windows in `array_programs.py`: reduce_window, select_and_scatter and convolution."""

from collections.abc import Callable
from dataclasses import dataclass

from array_choices import is_integer
from array_numbers import Numbers
from loop_statements import Scope
from loop_text import Kind, Value, integers


@dataclass
class Window:
    """The windows along one dimension: size, stride, padding (`low` and `high`) and dilations."""

    size: int
    stride: int
    low: int
    high: int
    holes: int
    """The dilation of the array (base dilation)."""
    steps: int
    """The dilation of the window."""

    def count(self, n: int) -> int:
        """Returns the number of windows along a dimension of size n."""
        room = self.low + self.high + (n - 1) * self.holes + 1 if n else self.low + self.high
        width = (self.size - 1) * self.steps + 1
        return max(0, (room - width) // self.stride + 1)


class Windows(Numbers):
    """Draws ops with windows."""

    def _along(self, n: int, plain: bool) -> Window:
        """Returns random windows along a dimension of size `n`.

        With `plain`, there is no dilation, and the padding is less than half a window.
        """
        draw = self.random
        size = draw.choice([1, 1, 2, 3, min(n, 5) or 1, n or 1])
        size = size if size <= 40 else 1
        if plain:
            low, high = (draw.randint(0, (size - 1) // 2) for _ in range(2))
            return Window(size, draw.choice([1, 2, size]), low, high, 1, 1)
        low, high = (draw.choice([0, 0, 1, size - 1, -1 if n > 3 else 0]) for _ in range(2))
        return Window(
            size, draw.choice([1, 1, 2, 3]), low, high, draw.choice([1, 1, 1, 2]), draw.choice([1, 1, 2])
        )

    def _windows(self, kind: Kind, plain: bool = False) -> list[Window]:
        along = set(
            self.random.sample(range(len(kind.shape)), min(len(kind.shape), self.random.randint(1, 2)))
        )
        return [
            self._along(n, plain) if i in along else Window(1, 1, 0, 0, 1, 1)
            for i, n in enumerate(kind.shape)
        ]

    def _windowed(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a random reduce_window of one or two arrays."""
        if not kind.shape:
            return None
        windows = self._windows(kind)
        rest = tuple(w.count(n) for w, n in zip(windows, kind.shape, strict=True))
        count = Kind(tuple(w.size for w in windows), "i1").size
        if not self._fits((*rest, count // 4)):
            return None
        elements = [kind.element, *self.random.choices([x.element for x in self.kinds])]
        elements = elements[: self.random.choice([1, 1, 1, 2])]
        ops = [self._combiner(element) for element in elements]
        operands = self._all_summable(scope, [kind.of(element) for element in elements], ops, count)
        if operands is None:
            return None
        neutral = [self._neutral(element, op) for element, op in zip(elements, ops, strict=True)]
        attributes = f"base_dilations = {integers([w.holes for w in windows])}, {_described(windows)}"
        attributes += f", window_dilations = {integers([w.steps for w in windows])}"
        kinds = [Kind(rest, element) for element in elements]
        regions = [self._pairwise([x.kind for x in operands], ops)]
        results = self.several("reduce_window", [*operands, *neutral], kinds, attributes, regions)
        # The result of a window that contains only padding is the neutral element, which may be large.
        return [self.bounded(x if x.kind.is_complex else self._within(x)) for x in results]

    def _within(self, x: Value) -> Value:
        return x if is_integer(x.kind.element) or x.kind.element == "i1" else self.clamped(x, -12, 12)

    def _placed(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a random select_and_scatter. It adds an element at the position of the first extreme of each window."""
        if not kind.shape or not kind.size or kind.is_complex or kind.element == "i1":
            return None
        windows = self._windows(kind, plain=True)
        rest = tuple(w.count(n) for w, n in zip(windows, kind.shape, strict=True))
        if not self._fits((*rest, Kind(tuple(w.size for w in windows), "i1").size)):
            return None
        source = self._summable(self._get(scope, Kind(rest, kind.element)), "add", Kind(rest, "i1").size)
        if source is None:
            return None
        scalars = [Kind((), kind.element)] * 2
        direction = self.random.choice(["GE", "GE", "LE"])
        regions = [
            self.region(scalars, lambda x, y: [self.compared(direction, x, y)]),
            self.combined(kind.element, "add"),
        ]
        operands = [self._get(scope, kind), source, self.constant(scalars[0], 0)]
        return [self.bounded(self.op("select_and_scatter", operands, kind, _described(windows), regions))]

    def _convolved(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a random convolution over up to two dimensions, with any layout, and with feature or batch groups."""
        draw = self.random
        if not 2 <= len(kind.shape) <= 4 or not kind.size or kind.element == "i1":
            return None
        rank = len(kind.shape)
        of_image = draw.sample(range(rank), rank)  # positions of the batch, feature and spatial dimensions
        batch, features = kind.shape[of_image[0]], kind.shape[of_image[1]]
        sizes = [kind.shape[i] for i in of_image[2:]]
        windows = [self._along(n, False) for n in sizes]
        rest = [w.count(n) for w, n in zip(windows, sizes, strict=True)]
        groups = draw.choice([1, 1, 1, *(n for n in (2, 3) if features % n == 0)])
        batches = draw.choice([1, 1, *(n for n in (2, 3) if batch % n == 0)]) if groups == 1 else 1
        out = draw.choice([1, 2, 3]) * groups * batches
        of_kernel, of_result = (draw.sample(range(rank), rank) for _ in range(2))
        kernel = _placed_as([features // groups, out, *(w.size for w in windows)], of_kernel)
        result = _placed_as([batch // batches, out, *rest], of_result)
        count = features // groups * Kind(tuple(w.size for w in windows), "i1").size
        if not self._fits(kernel, result, (*result, count // 4)):
            return None
        y = self._get(scope, Kind(kernel, kind.element))
        operands = self._factors(self._get(scope, kind), y, count, kind.element)
        if operands is None:
            return None
        numbers = ", ".join(_letters(of, first) for of, first in ((of_image, "bf"), (of_kernel, "io")))
        attributes = (
            f"batch_group_count = {batches} : i64, dimension_numbers = #stablehlo.conv<"
            f"{numbers.replace(', [', 'x[')}->{_letters(of_result, 'bf')}>, feature_group_count = {groups} : i64, "
            f"lhs_dilation = {integers([w.holes for w in windows])}, padding = {_padding(windows)}, "
            f"rhs_dilation = {integers([w.steps for w in windows])}, "
            f"window_strides = {integers([w.stride for w in windows])}"
        )
        if draw.random() < 0.3 and windows:
            attributes += (
                f", window_reversal = array<i1: {', '.join(draw.choices(['true', 'false'], k=rank - 2))}>"
            )
        return [self.bounded(self.op("convolution", operands, Kind(result, kind.element), attributes))]


def _placed_as(sizes: list[int], order: list[int]) -> tuple[int, ...]:
    """Returns the shape whose dimension `order[i]` has the size `sizes[i]`."""
    return tuple(n for _, n in sorted(zip(order, sizes, strict=True)))


def _letters(order: list[int], first: str) -> str:
    """Returns the text of dimension numbers, such as `[b, 0, 1, f]`."""
    names = [*first, *map(str, range(len(order) - 2))]
    return f"[{', '.join(name for _, name in sorted(zip(order, names, strict=True)))}]"


def _padding(windows: list[Window]) -> str:
    rows = ", ".join(f"[{w.low}, {w.high}]" for w in windows)
    return f"dense<{f'[{rows}]' if windows else ''}> : tensor<{len(windows)}x2xi64>"


def _described(windows: list[Window]) -> str:
    """Returns the attributes that reduce_window and select_and_scatter have in common."""
    return (
        f"padding = {_padding(windows)}, window_dimensions = {integers([w.size for w in windows])}, "
        f"window_strides = {integers([w.stride for w in windows])}"
    )


WINDOWS: tuple[Callable[..., list[Value] | None], ...] = (
    Windows._windowed,
    Windows._windowed,
    Windows._placed,
    Windows._convolved,
    Windows._convolved,
)
