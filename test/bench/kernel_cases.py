"""Draws functions of PyTorch with random sizes, for kernels.py: `KINDS` maps a kind to a function that draws one.

Sizes are log-uniform. A function has enough work that its kernels, and not the call, take most of the time.
"""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

ELEMENTS = 2**16, 2**22
PRODUCTS = 2**20, 2**28
"""The least and the largest numbers of elements and of multiplications."""


class Case(NamedTuple):
    """A drawn function: the kind, a description for the table, the function in PyTorch and its arguments."""

    kind: str
    name: str
    function: Callable[..., Any]
    arguments: list[Any]


class Draw:
    """Draws sizes and arrays by a seed."""

    def __init__(self, seed: int) -> None:
        self.random, self.arrays = Random(seed), np.random.default_rng(seed)

    def size(self, least: float, most: float) -> int:
        """Returns a log-uniform size."""
        return max(1, round(math.exp(self.random.uniform(math.log(least), math.log(most)))))

    def shape(self, rank: int, elements: tuple[float, float] = ELEMENTS) -> list[int]:
        """Returns a shape whose number of elements is log-uniform, divided at random among the dimensions."""
        total = math.log(self.size(*elements))
        parts = [self.random.expovariate(1) for _ in range(rank)]
        return [max(1, round(math.exp(total * part / sum(parts)))) for part in parts]

    def floats(self, *shape: int) -> Any:
        """Returns an array of normally distributed numbers."""
        return self.arrays.standard_normal(shape, np.float32)

    def choice(self, *options: Any) -> Any:
        """Returns one of the options."""
        return self.random.choice(options)


def product(draw: Draw) -> Case:
    """Draws a product of matrices, or of batches of matrices, each of which may be transposed."""
    while not PRODUCTS[0] <= math.prod(sizes := [draw.size(1, 2048) for _ in range(3)]) <= PRODUCTS[1]:
        pass
    m, k, n = sizes
    batch = draw.choice([], [], [draw.size(2, 16)])
    turned = draw.choice(False, True), draw.choice(False, True)

    def function(x: Any, y: Any) -> Any:
        return (x.mT if turned[0] else x) @ (y.mT if turned[1] else y)

    shapes = [k, m] if turned[0] else [m, k], [n, k] if turned[1] else [k, n]
    name = f"{m} x {k} x {n}" + "".join(
        f", {side} transposed" for side, t in zip("xy", turned, strict=True) if t
    )
    name += f", batch of {batch[0]}" if batch else ""
    return Case("product", name, function, [draw.floats(*batch, *shape) for shape in shapes])


def linear(draw: Draw) -> Case:
    """Draws a linear layer with an activation."""
    while not PRODUCTS[0] <= math.prod(sizes := [draw.size(1, 2048) for _ in range(3)]) <= PRODUCTS[1]:
        pass
    m, k, n = sizes
    act = draw.choice("relu", "gelu", "silu", "tanh")

    def function(x: Any, w: Any, b: Any) -> Any:
        return getattr(torch if act == "tanh" else functional, act)(functional.linear(x, w, b))

    return Case(
        "linear", f"{act}, {m} x {k} x {n}", function, [draw.floats(m, k), draw.floats(n, k), draw.floats(n)]
    )


REDUCTIONS: dict[str, Callable[[Any, list[int]], Any]] = {
    "sum": lambda x, dims: x.sum(dims),
    "mean": lambda x, dims: x.mean(dims),
    "amax": lambda x, dims: x.amax(dims),
    "var": lambda x, dims: x.var(dims, correction=0),
    "logsumexp": lambda x, dims: torch.logsumexp(x, dims),
    "norm": lambda x, dims: torch.linalg.vector_norm(x, dim=dims),
}


def reduction(draw: Draw) -> Case:
    """Draws a reduction along some dimensions of an array of one to four dimensions."""
    shape = draw.shape(rank := draw.choice(1, 2, 3, 4))
    dims = sorted(draw.random.sample(range(rank), draw.choice(*range(1, rank + 1))))
    kind = draw.choice(*REDUCTIONS)
    name = f"{kind} of {sized(shape)} along {', '.join(map(str, dims))}"
    return Case("reduction", name, lambda x: REDUCTIONS[kind](x, dims), [draw.floats(*shape)])


def scan(draw: Draw) -> Case:
    """Draws a cumulative sum, a cumulative maximum, or a sort."""
    shape = draw.shape(rank := draw.choice(1, 2, 3), (2**12, 2**19))
    dim, kind = draw.choice(*range(rank)), draw.choice("cumsum", "logcumsumexp", "cummax", "sort", "topk")
    count = min(shape[dim], draw.size(1, 32))

    def function(x: Any) -> Any:
        if kind == "topk":
            return torch.topk(x, count, dim).values
        found = getattr(torch, kind)(x, dim=dim)
        return found if kind in ("cumsum", "logcumsumexp") else found.values

    return Case("scan", f"{kind} of {sized(shape)} along {dim}", function, [draw.floats(*shape)])


def normalization(draw: Draw) -> Case:
    """Draws a layer, RMS, group, instance or batch normalization with scales and, except for RMS, offsets."""
    kind = draw.choice("layer", "rms", "group", "instance", "batch")
    shape = draw.shape(draw.choice(2, 3) if kind in ("layer", "rms") else 4)
    if kind in ("layer", "rms"):
        scale, offset = draw.floats(shape[-1]), draw.floats(shape[-1])
        name = f"{kind} of {sized(shape)}"
        if kind == "rms":
            return Case(
                "normalization",
                name,
                lambda x, w: functional.rms_norm(x, w.shape, w),
                [draw.floats(*shape), scale],
            )
        return Case(
            "normalization",
            name,
            lambda x, w, b: functional.layer_norm(x, w.shape, w, b),
            [draw.floats(*shape), scale, offset],
        )
    groups = draw.size(1, 32)
    shape[1] = max(1, shape[1] // groups) * groups
    shape[0] += shape[2] * shape[3] * shape[0] == 1
    shape[2] += shape[2] * shape[3] == 1

    def function(x: Any, w: Any, b: Any) -> Any:
        if kind == "group":
            return functional.group_norm(x, groups, w, b)
        if kind == "instance":
            return functional.instance_norm(x, weight=w, bias=b)
        return functional.batch_norm(x, None, None, w, b, training=True)

    name = f"{kind} of {sized(shape)}" + f", {groups} groups" * (kind == "group")
    return Case(
        "normalization", name, function, [draw.floats(*shape), draw.floats(shape[1]), draw.floats(shape[1])]
    )


def softmax(draw: Draw) -> Case:
    """Draws a softmax, its logarithm, or a cross-entropy with labels."""
    kind = draw.choice("softmax", "log_softmax", "cross_entropy")
    shape = draw.shape(rank := 2 if kind == "cross_entropy" else draw.choice(1, 2, 3, 4))
    if kind == "cross_entropy":
        labels = draw.arrays.integers(0, shape[1], shape[0])
        return Case(
            "softmax", f"{kind} of {sized(shape)}", functional.cross_entropy, [draw.floats(*shape), labels]
        )
    dim = draw.choice(*range(rank))
    name = f"{kind} of {sized(shape)} along {dim}"
    return Case("softmax", name, lambda x: getattr(functional, kind)(x, dim), [draw.floats(*shape)])


def attention(draw: Draw) -> Case:
    """Draws attention of several heads, causal or not, with as many or fewer heads of keys and values."""
    while (
        not 2**20
        <= math.prod(sizes := [draw.size(1, 16), *(draw.size(8, 1024),) * 2, draw.size(8, 128)])
        <= 2**27
    ):
        pass
    heads, length, _, width = sizes
    causal = draw.choice(False, True)
    others = length if causal else draw.size(8, 1024)
    shapes = [1, heads, length, width], [1, heads, others, width], [1, heads, others, width]

    def function(q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    name = f"{heads} heads of {length} by {others} x {width}" + ", causal" * causal
    return Case("attention", name, function, [draw.floats(*shape) for shape in shapes])


def resizing(draw: Draw) -> Case:
    """Draws an interpolation of images."""
    mode = draw.choice("nearest", "bilinear", "bicubic", "area")
    channels, height, width = draw.size(1, 256), draw.size(4, 128), draw.size(4, 128)
    size = [draw.size(max(1, side / 4), 4 * side) for side in (height, width)]
    corners = mode in ("bilinear", "bicubic") and draw.choice(False, True)
    if not ELEMENTS[0] <= channels * max(height * width, math.prod(size)) <= ELEMENTS[1]:
        return resizing(draw)

    def function(x: Any) -> Any:
        return functional.interpolate(x, size, mode=mode, **({"align_corners": True} if corners else {}))

    name = f"{mode} of {channels} x {height} x {width} to {sized(size)}" + ", corners" * corners
    return Case("resizing", name, function, [draw.floats(1, channels, height, width)])


def pooling(draw: Draw) -> Case:
    """Draws a maximum or mean over windows."""
    kind, window, stride = draw.choice("max", "avg", "adaptive"), draw.choice(2, 3, 5), draw.choice(1, 2, 3)
    batch, channels, height, width = (draw.size(1, most) for most in (8, 256, 128, 128))
    height, width = max(height, window), max(width, window)
    size = draw.size(1, 8)
    if not ELEMENTS[0] <= batch * channels * height * width <= ELEMENTS[1]:
        return pooling(draw)

    def function(x: Any) -> Any:
        if kind == "adaptive":
            return functional.adaptive_avg_pool2d(x, size)
        return getattr(functional, f"{kind}_pool2d")(x, window, stride, window // 2)

    described = f"to {size}" if kind == "adaptive" else f"by {window}, stride {stride}"
    name = f"{kind} of {batch} x {channels} x {height} x {width} {described}"
    return Case("pooling", name, function, [draw.floats(batch, channels, height, width)])


def embedding(draw: Draw) -> Case:
    """Draws an embedding, or a selection along a dimension, by random indices."""
    kind = draw.choice("embedding", "index_select", "gather", "take_along", "index")
    if kind == "embedding":
        rows, width, count = draw.size(16, 2**15), draw.size(8, 512), draw.size(16, 4096)
        if count * width < ELEMENTS[0] // 4 or max(rows, count) * width > ELEMENTS[1]:
            return embedding(draw)
        indices = draw.arrays.integers(0, rows, count)
        name = f"{count} of {rows} rows of {width}"
        return Case(
            "embedding", name, lambda x, i: functional.embedding(i, x), [draw.floats(rows, width), indices]
        )
    shape = draw.shape(rank := 2 if kind == "take_along" else 3)
    dim, count = draw.choice(*range(rank)), draw.size(4, 512)
    taken = math.prod(shape) // math.prod(shape[:2] if kind == "index" else shape[dim : dim + 1]) * count
    if shape[dim] < 2 or not ELEMENTS[0] // 4 <= taken <= ELEMENTS[1]:
        return embedding(draw)
    if kind == "index":
        pairs = [draw.arrays.integers(0, shape[i], count) for i in range(2)]
        name = f"{count} pairs of {sized(shape)}"
        return Case("embedding", name, lambda x, i, j: x[i, j], [draw.floats(*shape), *pairs])
    if kind == "index_select":
        indices = draw.arrays.integers(0, shape[dim], count)
        name = f"{count} of {sized(shape)} along {dim}"
        return Case("embedding", name, lambda x, i: x.index_select(dim, i), [draw.floats(*shape), indices])
    several = [*shape[:dim], count, *shape[dim + 1 :]]
    indices = draw.arrays.integers(0, shape[dim], several)
    name = f"gather of {sized(several)} from {sized(shape)} along {dim}"
    return Case("embedding", name, lambda x, i: x.gather(dim, i), [draw.floats(*shape), indices])


UNARY = ("tanh", "sigmoid", "exp", "sin", "erf", "log1p", "sqrt", "relu", "softplus", "gelu", "silu")


def elementwise(draw: Draw) -> Case:
    """Draws a chain of elementwise functions of broadcast arrays."""
    shape = draw.shape(rank := draw.choice(1, 2, 3, 4))
    unary = [draw.choice(*UNARY) for _ in range(draw.choice(1, 2, 3))]
    other = [n if draw.random.random() < 0.6 else 1 for n in shape]

    def function(x: Any, y: Any) -> Any:
        for i, name in enumerate(unary):
            x = x + y if i % 2 else x * y
            x = x.square() if name in ("sqrt", "log1p") else x
            x = getattr(functional if name in ("softplus", "gelu", "silu") else torch, name)(x)
        return x

    name = f"{', '.join(unary)} of {sized(shape)} and {sized(other)}"
    return Case(
        "elementwise", name, function, [draw.floats(*shape), draw.floats(*other[rank - len(other) :])]
    )


def movement(draw: Draw) -> Case:
    """Draws a permutation, concatenation, padding, rolling, flipping, slicing with strides, or stacking."""
    kind = draw.choice("permute", "cat", "pad", "roll", "flip", "slice", "repeat", "unfold")
    shape = draw.shape(rank := draw.choice(2, 3, 4))
    order, dim = draw.random.sample(range(rank), rank), draw.choice(*range(rank))
    shape[dim] = max(shape[dim], 4)
    if kind == "permute" and order == sorted(order):
        order.reverse()
    step, count = draw.choice(1, 2, 3), draw.choice(2, 3)
    amount = draw.size(1, 3)

    def function(x: Any) -> Any:
        if kind == "permute":
            return x.permute(order).contiguous()
        if kind == "cat":
            return torch.cat([x, x.exp(), x * 2], dim)
        if kind == "pad":
            return functional.pad(x, [amount] * 2 * rank)
        if kind in ("roll", "flip"):
            return torch.roll(x, shape[dim] // 2, dim) if kind == "roll" else torch.flip(x, [dim])
        if kind == "slice":
            return x.narrow(dim, 1, shape[dim] - 2)[
                (slice(None),) * dim + (slice(None, None, step),)
            ].contiguous()
        if kind == "repeat":
            return x.repeat_interleave(count, dim)
        return x.unfold(dim, 3, step).contiguous()

    described = {"permute": f"by {order}", "pad": f"by {amount}", "repeat": f"{count} times along {dim}"}
    name = f"{kind} of {sized(shape)} {described.get(kind, f'along {dim}')}" + f", step {step}" * (
        kind in ("slice", "unfold")
    )
    return Case("movement", name, function, [draw.floats(*shape)])


KINDS: dict[str, Callable[[Draw], Case]] = {
    each.__name__: each
    for each in (
        product,
        linear,
        reduction,
        scan,
        normalization,
        softmax,
        attention,
        resizing,
        pooling,
        embedding,
        elementwise,
        movement,
    )
}


def sized(shape: Sequence[int]) -> str:
    """Returns the text of a shape."""
    return " x ".join(map(str, shape))
