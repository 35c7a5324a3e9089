"""Emits reductions, prefix scans and windowed reductions by any associative function.

Each step applies the function to whole tensors, so that few steps suffice. The function takes two lists of tensors, the
earlier and the later elements, and returns a list of tensors; all tensors have the same shape. StableHLO allows any
grouping of the elements of a reduction, but no other order, so neighbours are combined unless the function is known to
be commutative. A reduction or scan of n elements combines O(n) pairs, so its derivative also stores only O(n) elements.

Source: Blelloch, "Prefix Sums and Their Applications" (1990).
"""

from collections.abc import Callable, Sequence
from typing import Any, Never

from tiduc.dialect.emitters.protocol import V
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.facts.windows import Window
from tiduc.dialect.shapes.sizes import Extent
from tiduc.dialect.shapes.types import rank, shape

Values = Sequence[Any]
Combine = Callable[[Values, Values], Values]


def total(b: StablehloOps[V, Never], combine: Combine, values: Values, commutes: bool = False) -> Values:
    """Combines all elements along dimension 0, which must not be empty.

    Each step combines neighbours or, if the function `commutes`, the first half with the second half.
    """
    while (count := shape(values[0])[0]) > 1:
        pairs = combine(*(_halves if commutes else _neighbours)(b, values, 0))
        values = pairs if count % 2 == 0 else _joined(b, pairs, part(b, values, 0, count - 1, count), 0)
    return [b.reshape(v, shape(v)[1:]) for v in values]


def prefixes(b: StablehloOps[V, Never], combine: Combine, values: Values, d: int) -> Values:
    """For each position along dimension d, combines the elements up to and including this position.

    Computes the prefixes p' of the array of pairs x[2i] x[2i + 1], and from p' the prefixes p of x:

        p[2i + 1] = p'[i],    p[2i] = p'[i - 1] x[2i] for i > 0,    p[0] = x[0]
    """
    count = shape(values[0])[d]
    if count < 2:
        return values
    first, second = _neighbours(b, values, d)
    of_pairs = prefixes(b, combine, combine(first, second), d)
    half, beginning = count // 2, part(b, values, d, 0, 1)
    rest = part(b, first, d, 1, half)
    if count % 2:
        rest = _joined(b, rest, part(b, values, d, count - 1, count), d)
    places = shape(rest[0])[d]
    between = combine(part(b, of_pairs, d, 0, places), rest) if places else rest
    even = _joined(b, beginning, between, d)
    last = part(b, even, d, half, half + count % 2)
    return _joined(b, _interleaved(b, part(b, even, d, 0, half), of_pairs, d), last, d)


def suffixes(b: StablehloOps[V, Never], combine: Combine, values: Values, d: int) -> Values:
    """For each position along dimension d, combines the elements from this position to the last."""
    turned = prefixes(b, lambda x, y: combine(y, x), [b.reverse(v, [d]) for v in values], d)
    return [b.reverse(v, [d]) for v in turned]


def over_windows(
    b: StablehloOps[V, Never], combine: Combine, values: Values, inits: Values, window: Window, neutral: bool
) -> Values:
    """Combines an initial value and the elements of each window, in row-major order.

    Padding elements are initial values. `neutral` says that the initial values are neutral elements of the function.
    Each window's initial value is then omitted. For cumulative windows, padding is omitted, too.
    """
    d = window.cumulative(shape(values[0]))
    if d is not None:
        return _cumulative(b, combine, values, inits, d, window.low[d] > 0, neutral)
    interior = [a - 1 for a in window.base]
    values = [
        b.pad(v, init, window.low, window.high, interior) for v, init in zip(values, inits, strict=True)
    ]
    for d in reversed(range(rank(values[0]))):  # this gives row-major order
        values = _windows_along(b, combine, values, d, window)
    return values if neutral else combine(everywhere(b, inits, shape(values[0])), values)


def everywhere(b: StablehloOps[V, Never], scalars: Values, sizes: Sequence[Extent]) -> Values:
    """The scalars, each broadcast to the shape `sizes`."""
    return [b.broadcast_in_dim(v, [], list(sizes)) for v in scalars]


def part(
    b: StablehloOps[V, Never], values: Values, d: int, start: int, limit: int, stride: int = 1
) -> Values:
    """Slices each value along dimension d, from `start` up to but excluding `limit`, with the given stride."""
    sizes = shape(values[0])
    if (start, limit, stride) == (0, sizes[d], 1):
        return values
    low, high, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    low[d], high[d], strides[d] = start, limit, stride
    return [b.slice(v, low, high, strides) for v in values]


def _halves(b: StablehloOps[V, Never], values: Values, d: int) -> tuple[Values, Values]:
    """The first and the second half along dimension d. If the size is odd, the last element is in neither."""
    half = shape(values[0])[d] // 2
    return part(b, values, d, 0, half), part(b, values, d, half, 2 * half)


def _neighbours(b: StablehloOps[V, Never], values: Values, d: int) -> tuple[Values, Values]:
    """The elements at even and at odd indices along dimension d. If the size is odd, the last element is in neither.

    Reshapes the pairs to a dimension of size 2 and slices this dimension. Slices with stride 2 would be simpler, but
    their transposes would be interior paddings.
    """
    half = shape(values[0])[d] // 2
    paired = [_with(b, v, d, [half, 2]) for v in part(b, values, d, 0, 2 * half)]
    first, second = (part(b, paired, d + 1, i, i + 1) for i in (0, 1))
    return [_merged(b, v, d) for v in first], [_merged(b, v, d) for v in second]


def _interleaved(b: StablehloOps[V, Never], first: Values, second: Values, d: int) -> Values:
    """The elements of `first` and `second`, alternating along dimension d."""
    count = shape(first[0])[d]
    x, y = ([_with(b, v, d, [count, 1]) for v in values] for values in (first, second))
    return [_merged(b, v, d) for v in _joined(b, x, y, d + 1)]


def _with(b: StablehloOps[V, Never], v: V, d: int, instead: list[int]) -> V:
    """v reshaped, so that dimensions of the sizes `instead` replace dimension d."""
    return b.reshape(v, [*shape(v)[:d], *instead, *shape(v)[d + 1 :]])


def _merged(b: StablehloOps[V, Never], v: V, d: int) -> V:
    """v with dimensions d and d + 1 merged into one."""
    sizes = shape(v)
    return b.reshape(v, [*sizes[:d], sizes[d] * sizes[d + 1], *sizes[d + 2 :]])


def _joined(b: StablehloOps[V, Never], first: Values, second: Values, d: int) -> Values:
    if 0 in (shape(first[0])[d], shape(second[0])[d]):
        return second if shape(first[0])[d] == 0 else first
    return [b.concatenate([u, v], d) for u, v in zip(first, second, strict=True)]


def _cumulative(
    b: StablehloOps[V, Never],
    combine: Combine,
    values: Values,
    inits: Values,
    d: int,
    forward: bool,
    neutral: bool,
) -> Values:
    """Combines cumulative windows along dimension d: prefixes if `forward`, else suffixes.

    Unless `neutral`, also combines the initial values of each window. At position o of n, n - o initial values come
    before a prefix. One initial value comes before a suffix, and o initial values come after the suffix.
    """
    y = (prefixes if forward else suffixes)(b, combine, values, d)
    if neutral:
        return y
    sizes = shape(values[0])
    count, rest = sizes[d], [*sizes[:d], sizes[d] - 1, *sizes[d + 1 :]]
    # Element o of `repeated` combines o + 1 initial values.
    repeated = prefixes(b, combine, everywhere(b, inits, [count]), 0)
    if forward:
        return combine([b.broadcast_in_dim(b.reverse(v, [0]), [d], sizes) for v in repeated], y)
    padding = [b.broadcast_in_dim(v, [d], rest) for v in part(b, repeated, 0, 0, count - 1)]
    padded = combine(part(b, y, d, 1, count), padding)
    return combine(everywhere(b, inits, sizes), _joined(b, part(b, y, d, 0, 1), padded, d))


def _windows_along(
    b: StablehloOps[V, Never], combine: Combine, values: Values, d: int, window: Window
) -> Values:
    """Combines the elements of each window along dimension d of padded tensors.

    Let P_n[o] combine the n elements o, o + dilation, ... Then P_(m+n)[o] = P_m[o] P_n[o + m dilation]. The function
    computes P_n for n = 1, 2, 4, ..., and combines those whose n add up to the window's size.
    """
    size, stride, dilation = window.sizes[d], window.strides[d], window.dilation[d]
    places = (shape(values[0])[d] - (size - 1) * dilation - 1) // stride * stride + 1
    done, power, length = 0, values, 1  # `result` is P_done, and `power` is P_length
    result: Values = []
    while True:
        if size & length:
            start = done * dilation
            moved = part(b, power, d, start, start + places, stride)
            result = combine(result, moved) if done else moved
            done += length
        if done == size:
            return result
        count, step = shape(power[0])[d], length * dilation
        power = combine(part(b, power, d, 0, count - step), part(b, power, d, step, count))
        length *= 2
