"""Families of ops with windows: convolution, reduce_window and select_and_scatter."""

import math
from dataclasses import dataclass

from composer import ELEMENTS, Composer, Value, tensor


@dataclass(frozen=True)
class Window:
    """The windows along one dimension. `dilation` is the dilation of the window, and `holes` that of the array."""

    size: int = 1
    stride: int = 1
    dilation: int = 1
    holes: int = 1
    low: int = 0
    high: int = 0

    def count(self, n: int) -> int:
        """Returns the number of windows along a dimension of size n."""
        room = (n - 1) * self.holes + 1 + self.low + self.high
        return max(0, (room - (self.size - 1) * self.dilation - 1) // self.stride + 1)


def _window(c: Composer, n: int, most: int = 3, negative: bool = False) -> Window:
    """Returns random windows along a dimension of size n. There is at least one window."""
    if c.integer(0, 3) == 0:  # windows of a cumulative sum
        return Window(n, low=n - 1) if c.flag() else Window(n, high=n - 1)
    while True:
        size, stride, dilation, holes = c.integer(1, most), c.integer(1, 2), c.integer(1, 2), c.integer(1, 2)
        low, high = c.integers(2, -1 if negative else 0, 2)
        window = Window(size, stride, dilation, holes, low, high)
        if window.count(n):
            return window


def _array(values: list[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _turned(c: Composer, sizes: dict[str, int], letters: str) -> tuple[str, tuple[int, ...]]:
    """Returns the letters of dimensions in random order, as text for `dim_numbers`, and the shape in this order."""
    order = list(letters)
    c.random.shuffle(order)
    return ", ".join(order), tuple(sizes[letter] for letter in order)


def convolution(c: Composer) -> Value:
    """Adds a convolution with random dimension numbers, groups, strides, dilations, padding and reversal."""
    rank = c.choose((0, 1, 1, 1, 2))
    space = "01"[:rank]
    groups, batches = c.choose(((1, 1), (1, 1), (2, 1), (1, 2)))
    features, out = groups * c.integer(1, 2), groups * batches * c.integer(1, 2)
    n = [c.integer(1, 4) for _ in space]
    along = [_window(c, size, negative=True) for size in n]
    counts = [window.count(size) for window, size in zip(along, n, strict=True)]
    if math.prod(counts) * out > ELEMENTS:
        return c.any()
    spatial = dict(zip(space, n, strict=True))
    kernel = {letter: window.size for letter, window in zip(space, along, strict=True)}
    left, x_shape = _turned(c, {"b": batches, "f": features, **spatial}, "bf" + space)
    right, w_shape = _turned(c, {"i": features // groups, "o": out, **kernel}, "io" + space)
    to, shape = _turned(c, {"b": 1, "f": out, **dict(zip(space, counts, strict=True))}, "bf" + space)
    x = c.fit(c.any(), x_shape, is_complex := c.integer(0, 5) == 0)
    w = c.fit(c.any(), w_shape, is_complex)
    pads = ", ".join(f"[{window.low}, {window.high}]" for window in along)
    reverse = ", ".join(str(int(c.integer(0, 3) == 0)) for _ in along)
    listed = {
        "stride": [window.stride for window in along],
        "lhs_dilate": [window.holes for window in along],
        "rhs_dilate": [window.dilation for window in along],
    }
    settings = ", ".join(f"{name} = {values}" for name, values in listed.items())
    text = (
        f"stablehlo.convolution({x.name}, {w.name}) dim_numbers = [{left}]x[{right}]->[{to}], window = "
        f"{{{settings}, pad = [{pads}], reverse = [{reverse}]}} "
        f"{{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64}} "
        f": ({x.type}, {w.type}) -> {tensor(shape, x.element)}"
    )
    many = math.prod(w_shape)
    return c.emit(text, shape, is_complex, x.bound * w.bound * many)


def reduce_window(c: Composer) -> Value:
    """Adds a reduce_window along some dimensions: a sum, product, maximum or minimum, which may be cumulative."""
    x = c.real(1)
    op = c.choose(("add", "add", "multiply", "maximum", "minimum"))
    neutral = {"add": 0.0, "multiply": 1.0, "maximum": -100.0, "minimum": 100.0}[op]
    init = c.constant(neutral)
    along = [_window(c, n) if c.flag() else Window() for n in x.shape]
    shape = tuple(window.count(n) for window, n in zip(along, x.shape, strict=True))
    # The result for a window that contains only padding would be the initial value, which is too large.
    if math.prod(shape) > ELEMENTS or (neutral in (-100.0, 100.0) and any(_reaches_out(w) for w in along)):
        return x
    arrays = {
        "window_dimensions": [window.size for window in along],
        "window_strides": [window.stride for window in along],
        "window_dilations": [window.dilation for window in along],
        "base_dilations": [window.holes for window in along],
    }
    attributes = ", ".join(f"{name} = {_array(v)}" for name, v in arrays.items())
    pads = ", ".join(f"[{window.low}, {window.high}]" for window in along)
    text = (
        f'"stablehlo.reduce_window"({x.name}, {init.name}) <{{{attributes}, '
        f"padding = dense<[{pads}]> : tensor<{x.rank}x2xi64>}}> ({c.scalars(op)}) "
        f": ({x.type}, tensor<f64>) -> {tensor(shape)}"
    )
    many = math.prod(window.size for window in along)
    bound = {"add": x.bound * many, "multiply": max(1.0, x.bound) ** many}.get(op, x.bound)
    return c.emit(text, shape, bound=bound)


def _reaches_out(window: Window) -> bool:
    return window.low + window.high >= window.size * window.dilation or window.holes > 1


def select_and_scatter(c: Composer) -> Value:
    """Adds a select_and_scatter. It adds each source element at the largest or smallest element of a window."""
    x = c.real(1)
    along = [Window(c.integer(1, n), c.integer(1, 2)) for n in x.shape]
    shape = tuple(window.count(n) for window, n in zip(along, x.shape, strict=True))
    y, init = c.fit(c.real(), shape), c.constant(0.0)
    direction = c.choose(("GE", "LE"))
    text = (
        f'"stablehlo.select_and_scatter"({x.name}, {y.name}, {init.name}) <{{'
        f"window_dimensions = {_array([w.size for w in along])}, "
        f"window_strides = {_array([w.stride for w in along])}, "
        f"padding = dense<0> : tensor<{x.rank}x2xi64>}}> ({{\n"
        "  ^bb0(%a: tensor<f64>, %b: tensor<f64>):\n"
        f"    %p = stablehlo.compare {direction}, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>\n"
        f"    stablehlo.return %p : tensor<i1>\n  }}, {c.scalars('add')}) "
        f": ({x.type}, {y.type}, tensor<f64>) -> {x.type}"
    )
    return c.emit(text, x.shape, bound=y.bound * math.prod(shape))


WINDOWS = (convolution, convolution, reduce_window, reduce_window, select_and_scatter)
