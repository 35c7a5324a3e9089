"""Convolutions that are rewritten for speed on CPUs: every rewrite computes the same numbers, in f64."""

import functools
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

import tiduc
from tiduc.backends.iree.fast import (
    channels_first,
    convolution_form,
    large_kernels,
    patches,
    products,
    toward_kernels,
)
from tiduc.backends.iree.fast import convolutions_to_products as convolution
from tiduc.backends.iree.fast.channels_first import Shape, Tile
from tiduc.backends.iree.fast.convolutions_to_products import convolutions_to_products
from tiduc.backends.iree.fast.planes import Planes
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.targets import find_target
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.context import parse
from tiduc.program import load

RNG = np.random.default_rng(0)
IMAGE, KERNEL = "bf", "io"


def letters(sizes: dict[str, int], draw: random.Random, shuffled: bool = True) -> tuple[str, list[int]]:
    """Dimension numbers in some order, and the sizes of an array in that order."""
    order = list(sizes)
    if shuffled:
        draw.shuffle(order)
    return ", ".join(order), [sizes[letter] for letter in order]


def tensor(sizes: list[int]) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf64>"


def drawn(draw: random.Random, kind: str) -> tuple[str, list[list[int]]]:
    """The text of a function that is a random convolution, and the shapes of its operands.

    Kinds: "dense"; "alone", each feature by itself; "groups"; "batches", with batch groups; "kernel", with a reversed
    kernel in PyTorch's layout or with its features swapped.
    """
    rank = draw.choice([1, 2, 2, 2, 3])
    n, c, f, k = (draw.randint(1, 4) for _ in range(4))
    strides = [draw.randint(1, 3) for _ in range(rank)]
    base = [draw.choice([1, 1, 2, 3]) if s == 1 and kind != "batches" else 1 for s in strides]
    dilation = [draw.choice([1, 1, 2, 3]) for _ in range(rank)]
    ends = [[draw.randint(-1, 3), draw.randint(-1, 3)] for _ in range(rank)]
    image, window = ([draw.randint(2, 7) for _ in range(rank)] for _ in range(2))
    window = [draw.choice([1, w]) for w in window]
    padded = [(m - 1) * a + 1 + sum(e) for m, a, e in zip(image, base, ends, strict=True)]
    extent = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    if any(m < e for m, e in zip(padded, extent, strict=True)):
        return drawn(draw, kind)
    places = [(m - e) // s + 1 for m, e, s in zip(padded, extent, strides, strict=True)]
    spatial = [str(d) for d in range(rank)]
    features, batches, taken = 1, 1, c
    if kind == "alone":
        features, taken, f = c, 1, c
    if kind == "groups":
        features, taken = draw.randint(2, 3), c
        c, f = c * features, f * features
    if kind == "batches":
        n, f, batches = k, k, k
    x_numbers, x = letters({"b": n, "f": c, **dict(zip(spatial, image, strict=True))}, draw)
    order = {"i": taken, "o": f} if draw.random() < 0.5 else {"o": f, "i": taken}
    w_numbers, w = letters({**order, **dict(zip(spatial, window, strict=True))}, draw, kind != "kernel")
    y_numbers, y = letters({"b": n // batches, "f": f, **dict(zip(spatial, places, strict=True))}, draw)
    turned = ", ".join(draw.choice(["true", "false", "false"]) for _ in range(rank))
    pads = f"stride = {strides}, pad = {ends}, lhs_dilate = {base}, rhs_dilate = {dilation}, reverse = [{turned}]"
    reverse = f"stablehlo.reverse %w, dims = [{', '.join(map(str, range(2, rank + 2)))}] : {tensor(w)}"
    text = f"""func.func @main(%x: {tensor(x)}, %w: {tensor(w)}) -> {tensor(y)} {{
      %k = {reverse if kind == "kernel" else f"stablehlo.optimization_barrier %w : {tensor(w)}"}
      %y = stablehlo.convolution(%x, %k) dim_numbers = [{x_numbers}]x[{w_numbers}]->[{y_numbers}],
        window = {{{pads}}} {{batch_group_count = {batches} : i64, feature_group_count = {features} : i64}}
        : ({tensor(x)}, {tensor(w)}) -> {tensor(y)}
      return %y : {tensor(y)}
    }}"""
    return text, [x, w]


@contextmanager
def small() -> Iterator[None]:
    """Rewrites convolutions of any size, and takes any kernel for a large one."""
    limits = {"_WORK": 0, "_WORK_DEPTHWISE": 0, "_WORK_DILATED": 0}
    with patch.multiple(convolution, **limits), patch.multiple(large_kernels, _LARGE=0, _RATIO=0):
        yield


def gathered(b: Any, x: Any, dimensions: Any, starts: Any, to: Any) -> Any:
    """Patches in StableHLO: slices of one element along each dimension of the array, concatenated."""
    order: list[int] = []
    for d, start in enumerate(starts):
        steps = [np.arange(size) * step for size, of, step in dimensions if of == d]
        order += [i for i, each in enumerate(dimensions) if each.dimension == d]
        places = (functools.reduce(np.add.outer, steps) + start).ravel().tolist()
        low, high = [0] * len(starts), [0] * len(starts)
        low[d], high[d] = max(0, -min(places)), max(0, max(places) + 1 - x.type.shape[d])
        x = b.pad(x, patches.zero(b, x), low, high, [0] * len(starts))
        x = b.concatenate([b.cut(x, d, i + low[d], i + low[d] + 1) for i in places], d)
    x = b.reshape(x, [dimensions[i].size for i in order])
    return b.reshape(b.transpose(x, [order.index(i) for i in range(len(order))]), to)


@contextmanager
def interpreted() -> Iterator[None]:
    """Emits StableHLO alone, so that the interpreter runs the rewritten convolutions."""
    with ExitStack() as stack:
        for module in (products, large_kernels):
            stack.enter_context(patch.object(module, "patches", gathered))
        for module in (patches, products, convolution_form):
            stack.enter_context(patch.object(module, "in_own_dispatch", lambda b, type_, fill: fill(b)))
        yield


def check(kind: str, seed: int, count: int) -> int:
    """Compares random convolutions before and after the pass; the number of those that the pass rewrote."""
    draw, rewritten = random.Random(seed), 0
    for _ in range(count):
        text, shapes = drawn(draw, kind)
        arguments = [RNG.normal(size=shape) for shape in shapes]
        module = parse(text)
        with small(), interpreted():
            rewritten += convolutions_to_products(module, Settings())
        module.operation.verify()
        (ours,), (expected,) = evaluate(str(module), arguments), evaluate(text, arguments)
        np.testing.assert_allclose(
            ours, expected, rtol=0, atol=1e-12 * max(1, abs(expected).max()), err_msg=text
        )
    return rewritten


@pytest.mark.parametrize("kind", ["dense", "alone", "groups", "batches", "kernel"])
def test_random_convolutions(kind: str) -> None:
    """All forms: layouts, strides, dilations, reversals, paddings (negative, too), and groups of one feature."""
    assert check(kind, 0, 30) >= (15 if kind == "groups" else 20)


def test_patches_of_columns() -> None:
    """Gradients of kernels whose patches are in the order of channels last, and their products as sums of products."""
    with patch.object(products, "_COLUMNS", 0):
        check("dense", 1, 20)
    with patch.multiple(products, _LARGE=0, _PART=0x20):
        check("dense", 2, 20)


CONVOLUTIONS = {
    "toward an image, strided": (
        "2x16x9x9",
        "16x8x3x3",
        "2x8x18x18",
        "lhs_dilate = [2, 2], pad = [[1, 2], [1, 2]]",
    ),
    "toward an image, large kernel": ("1x24x3x3", "24x16x3x3", "1x16x3x3", "pad = [[1, 1], [1, 1]]"),
    "toward a kernel": ("16x2x8x8", "2x24x7x6", "16x24x3x3", "rhs_dilate = [1, 2], pad = [[1, 0], [-1, 6]]"),
    "toward a kernel, few images": (
        "3x1x9x9",
        "1x8x4x3",
        "3x8x3x2",
        "stride = [1, 3], pad = [[0, 0], [0, -1]], rhs_dilate = [2, 2]",
    ),
    "toward a kernel, many features": (
        "3x1x9x9",
        "1x40x4x3",
        "3x40x3x2",
        "stride = [1, 3], pad = [[0, 0], [1, 0]], rhs_dilate = [2, 2]",
    ),
    "windows of one row": ("2x5x9x9", "5x4x1x3", "2x4x5x4", "stride = [2, 2], pad = [[1, -1], [-1, 1]]"),
    "small groups": ("2x6x9x9", "2x12x3x3", "2x12x5x4", "stride = [2, 2], pad = [[1, 1], [0, 0]]"),
    "each feature alone": ("2x24x6x6", "1x24x3x3", "2x24x6x6", "pad = [[1, 1], [1, 1]]"),
}
"""Shapes of image, kernel (input features first) and result, and the window's attributes."""


def test_compiled() -> None:
    """The rewritten convolutions as IREE compiles them, against the interpreter."""
    parameters: list[str] = []
    arguments: list[Any] = []
    body, types = "", []
    for i, (name, (x, w, y, window)) in enumerate(CONVOLUTIONS.items()):
        xt, wt, yt = (f"tensor<{shape}xf64>" for shape in (x, w, y))
        groups = {"each feature alone": 24, "small groups": 3}.get(name, 1)
        parameters += [f"%x{i}: {xt}", f"%w{i}: {wt}"]
        body += f"""%y{i} = stablehlo.convolution(%x{i}, %w{i})
          dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {{{window}}}
          {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({xt}, {wt}) -> {yt}\n"""
        types.append(yt)
        arguments += [RNG.normal(size=[int(n) for n in shape.split("x")]) for shape in (x, w)]
    results = ", ".join(f"%y{i}" for i in range(len(types)))
    text = f"func.func @main({', '.join(parameters)}) -> ({', '.join(types)}) {{\n{body}"
    text += f"return {results} : {', '.join(types)}\n}}"
    with small():
        compiled = tiduc.load(text).compile()
    for y, expected in zip(compiled(*arguments), evaluate(text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-11 * abs(expected).max())


def test_patches_are_one_loop() -> None:
    """Patches need no slices, each of which would be a dispatch; the products of their parts are one dispatch, too."""
    module = parse("""func.func @main(%x: tensor<3x1x64x64xf32>, %w: tensor<1x8x60x60xf32>) -> tensor<3x8x5x5xf32> {
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<3x1x64x64xf32>, tensor<1x8x60x60xf32>) -> tensor<3x8x5x5xf32>
      return %y : tensor<3x8x5x5xf32>
    }""")
    with patch.multiple(products, _LARGE=2**16, _PART=2**14):
        assert convolutions_to_products(module, Settings()) == 1
    text = str(module)
    assert text.count("linalg.generic") == 1 and text.count("flow.dispatch.region") == 2
    assert "stablehlo.slice" not in text and "stablehlo.concatenate" not in text
    assert "batching_dims" in text


def test_grouped_convolutions_without_a_window() -> None:
    text = """func.func @main(%x: tensor<2x4xf32>, %w: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f]x[i, o]->[b, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}"""
    assert load(text).source()


def test_dilated_groups_with_few_places() -> None:
    """A convolution with groups that kernels of vectors do not take, since the window is larger than the result."""
    text = """func.func @main(%x: tensor<2x21x4xf64>, %w: tensor<21x7x3xf64>) -> tensor<2x21x1xf64> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {stride = [5], pad = [[4, 0]], rhs_dilate = [2]}
    {batch_group_count = 1 : i64, feature_group_count = 3 : i64}
    : (tensor<2x21x4xf64>, tensor<21x7x3xf64>) -> tensor<2x21x1xf64>
  return %0 : tensor<2x21x1xf64>
}"""
    arguments = [RNG.normal(size=shape) for shape in ([2, 21, 4], [21, 7, 3])]
    module = parse(text)
    with small(), interpreted():
        convolutions_to_products(module, Settings(wide=True))
    (ours,), (expected,) = evaluate(str(module), arguments), evaluate(text, arguments)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


WIDE = pytest.mark.skipif(not find_target("cpu").wide, reason="this CPU has no vectors of 512 bits")


class Case(NamedTuple):
    """A convolution with channels first: a batch of images, features of the result, a window, and its attributes."""

    image: tuple[int, ...]
    outputs: int
    window: tuple[int, ...]
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    dilation: int = 1
    groups: int = 1
    kind: str = "f64"
    holes: int = 1

    @property
    def places(self) -> list[int]:
        """The spatial shape of the result."""
        sizes = zip(self.image[2:], self.window, strict=True)
        holed = [((n - 1) * self.holes + 1, (k - 1) * self.dilation + 1) for n, k in sizes]
        return [(n + sum(self.padding) - k) // self.stride + 1 for n, k in holed]

    def text(self, i: int) -> tuple[str, list[str], list[list[int]]]:
        """The op, the types of its operands and result, and their shapes."""
        batch, channels, *_ = self.image
        shapes = [
            list(self.image),
            [self.outputs, channels // self.groups, *self.window],
            [batch, self.outputs, *self.places],
        ]
        types = [f"tensor<{'x'.join(map(str, shape))}x{self.kind}>" for shape in shapes]
        rank = len(self.window)
        spatial = ", ".join(map(str, range(rank)))
        each = {
            "stride": self.stride,
            "pad": list(self.padding),
            "lhs_dilate": self.holes,
            "rhs_dilate": self.dilation,
        }
        window = ", ".join(f"{name} = {[value] * rank}" for name, value in each.items())
        op = f"""%y{i} = stablehlo.convolution(%x{i}, %w{i})
          dim_numbers = [b, f, {spatial}]x[o, i, {spatial}]->[b, f, {spatial}], window = {{{window}}}
          {{batch_group_count = 1 : i64, feature_group_count = {self.groups} : i64}}
          : ({types[0]}, {types[1]}) -> {types[2]}"""
        return op, types, shapes


CASES = (
    Case((1, 16, 20, 20), 16, (3, 3), padding=(1, 1)),
    Case((2, 5, 17, 19), 13, (3, 3), padding=(1, 1), kind="f32"),  # no size is a multiple of a tile
    Case((1, 64, 7, 7), 9, (3, 3), padding=(1, 1), kind="f32"),  # rows shorter than a vector
    Case((1, 40, 9, 3), 8, (3, 3), padding=(2, 2)),
    Case((1, 3, 40, 40), 8, (7, 7), 2, (3, 3), kind="f32"),
    Case((2, 6, 23, 22), 10, (3, 3), 2, (1, 0)),
    Case((1, 6, 23, 22), 10, (2, 5), 3, (2, 1), 2),
    Case((1, 4, 33, 31), 6, (3, 3), 5, (0, 3), 3),  # remainders of columns are not in order
    Case((1, 8, 16, 16), 12, (1, 1), kind="f32"),
    Case((2, 8, 15, 16), 12, (1, 1), 2),
    Case((1, 8, 20, 20), 8, (3, 3), padding=(-1, -2)),
    Case((2, 12, 14, 14), 18, (3, 3), padding=(1, 1), groups=3),
    Case((3, 8, 60), 11, (5,), 2, (2, 2)),
    Case((1, 8, 9, 9), 7, (3, 3), padding=(1, 2), holes=2),
    Case((2, 8, 9, 8), 7, (4, 2), padding=(2, 3), dilation=2, holes=3, kind="f32"),
)
"""Odd sizes, strides, dilations, groups, batches and images with holes."""


def convolved(cases: Sequence[Case]) -> tuple[str, list[Any]]:
    """A program with the convolutions, and its arguments: images and kernels."""
    parts, arguments = [], []
    for i, case in enumerate(cases):
        op, types, shapes = case.text(i)
        parts.append((op, [f"%x{i}: {types[0]}", f"%w{i}: {types[1]}"], types[2]))
        dtype = np.float32 if case.kind == "f32" else np.float64
        arguments += [RNG.normal(size=shape).astype(dtype) for shape in shapes[:2]]
    body = "\n".join(op for op, _, _ in parts)
    parameters = ", ".join(name for _, names, _ in parts for name in names)
    results, values = (
        ", ".join(each) for each in ([y for *_, y in parts], [f"%y{i}" for i in range(len(parts))])
    )
    return (
        f"func.func @main({parameters}) -> ({results}) {{\n{body}\nreturn {values} : {results}\n}}",
        arguments,
    )


@contextmanager
def in_vectors() -> Iterator[None]:
    """Computes convolutions of any size by kernels of vectors, whose tiles add few channels at a time."""
    with small(), patch.object(toward_kernels, "_SHARE", 0), patch.object(channels_first, "_CHANNELS", 4):
        yield


FEW = [CASES[i] for i in (2, 5, 11, 13)]


@WIDE
@pytest.mark.parametrize(
    ("target", "cases"), [("cpu-threads", FEW), pytest.param("cpu", CASES, marks=pytest.mark.slow)]
)
def test_kernels_of_vectors(target: str, cases: Sequence[Case]) -> None:
    """Convolutions and their gradients by kernels of vectors, as IREE compiles them, against the interpreter."""
    text, arguments = convolved(cases)
    arguments += [RNG.normal(size=y.shape).astype(y.dtype) for y in evaluate(text, arguments)]
    program = load(text).vjp()
    with in_vectors():
        source, compiled = program.source(target=target), program.compile(target=target)
        assert source.otherwise is not None and "flow.executable" not in str(source.otherwise().stablehlo)
    assert str(source.stablehlo).count('"flow.dispatch"(') >= 3 * len(cases)
    for y, right in zip(compiled(*arguments), evaluate(program.text, arguments), strict=True):
        tolerance = 2e-6 if right.dtype == np.float32 else 1e-14
        np.testing.assert_allclose(y, right, rtol=0, atol=tolerance * abs(right).max())


def test_equal_convolutions_share_code() -> None:
    """Equal convolutions are dispatches of one executable; those that differ in a padding or reversal are not."""
    kind, kernel = "tensor<1x8x16x16xf32>", "tensor<8x8x3x3xf32>"
    windows = ["pad = [[1, 1], [1, 1]]"] * 2 + [
        "pad = [[0, 2], [0, 2]]",
        "pad = [[1, 1], [1, 1]], reverse = [1, 1]",
    ]
    lines = [
        f"""%{i + 1} = stablehlo.convolution(%{i}, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
          window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
          : ({kind}, {kernel}) -> {kind}"""
        for i, window in enumerate(windows)
    ]
    text = f"func.func @main(%x: {kind}, %w: {kernel}) -> {kind} {{\n%0 = stablehlo.abs %x : {kind}\n"
    text += "\n".join(lines) + f"\nreturn %4 : {kind}\n}}"
    module = parse(text)
    with small():
        assert convolutions_to_products(module, Settings(wide=True)) == 4
    module.operation.verify()
    texts = str(module)
    assert texts.count('"flow.dispatch"(') == 8 and texts.count("flow.executable.export") == 2 + 3


def test_choice_of_tiles() -> None:
    """A tile fits into the registers, and covers few places and features beyond those of the result."""
    assert Shape(64, 28 * 57 - 1, 16, 576).best() == Tile(8, 3)
    assert Shape(5, 1000, 16, 576).best().features == 5
    assert Shape(1, 49, 16, 9).best() == Tile(1, 4)
    assert all(
        (n.features + 1) * n.vectors < 31 for n in (Shape(m, 1000, 16, 9).best() for m in range(1, 40))
    )


@pytest.mark.parametrize(
    ("stride", "dilation", "size"), [(1, 1, 3), (2, 1, 3), (3, 2, 2), (5, 3, 3), (4, 2, 5), (4, 4, 2)]
)
def test_planes_have_every_offset(stride: int, dilation: int, size: int) -> None:
    """The plane and shift of each offset name the element that the window reads."""
    planes = Planes((9, 9), (size, size), (stride,) * 2, (dilation,) * 2, (0, 0), (64, 64))
    remainders = planes.remainders(1)
    for j in range(size):
        plane, shift = planes.read([0, j])
        assert remainders[plane] + stride * shift == j * dilation
