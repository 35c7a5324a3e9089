"""Each rewrite of convolutions for speed on CPUs keeps the values. The tests compare mostly in f64."""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from harness.convolutions import of_any_size
from harness.sources import source_of
from harness.variants import named
from harness.xla import by_xla

import tiduc
from tiduc.backends.iree.fast.convolutions import channels_first, convolutions_to_kernels
from tiduc.backends.reference.interpreter import evaluate
from tiduc.loading import load

RNG = np.random.default_rng(0)
IMAGE, KERNEL = "bf", "io"


def letters(sizes: dict[str, int], draw: random.Random, shuffled: bool = True) -> tuple[str, list[int]]:
    """Returns the letters of an array's dimensions in random order if `shuffled`, and the sizes in that order."""
    order = list(sizes)
    if shuffled:
        draw.shuffle(order)
    return ", ".join(order), [sizes[letter] for letter in order]


def tensor(sizes: list[int]) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf64>"


def drawn(draw: random.Random, kind: str) -> tuple[str, list[list[int]]]:
    """The text of a function with a random convolution, and the shapes of its operands.

    The kinds are "dense"; "alone", which is depthwise; "groups", with feature groups; "batches", with batch groups of
    one image and one feature; "batch groups", with batch groups of several; and "kernel", whose kernel is reversed in
    PyTorch's layout, or has its features swapped.
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
    if kind == "batch groups":
        batches = draw.randint(2, 3)
        n, f = n * batches, draw.choice([1, 4, 9]) * batches
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


def joined(programs: Sequence[str]) -> str:
    """Joins programs to one that contains all their convolutions, and has all their arguments and results."""
    parameters, types, body = [], [], ""
    for i, text in enumerate(programs):
        found = re.search(r"@main\(%x: (\S+), %w: (\S+)\) -> (\S+) \{\n(.*)return %y : ", text, re.DOTALL)
        assert found is not None
        x, w, y, ops = found.groups()
        parameters += [f"%x{i}: {x}", f"%w{i}: {w}"]
        types.append(y)
        body += re.sub(r"%([xwky])\b", rf"%\g<1>{i}", ops)
    results = ", ".join(f"%y{i}" for i in range(len(types)))
    head = f"func.func @main({', '.join(parameters)}) -> ({', '.join(types)}) {{"
    return f"{head}\n{body}return {results} : {', '.join(types)}\n}}"


TARGETS = ("cpu", "cpu:x86-64-v3", "cpu:x86-64")
"""CPUs with this machine's vectors; with 256-bit vectors; with 128-bit vectors and no fused multiply-adds."""
KINDS = ("dense", "alone", "groups", "batches", "batch groups", "kernel")


@pytest.mark.more
@pytest.mark.parametrize(
    ("kind", "target", "seed"),
    [
        *((kind, "cpu", 0) for kind in KINDS),
        *(
            pytest.param(kind, target, seed, marks=pytest.mark.slow)
            for kind in KINDS
            for target in TARGETS
            for seed in (1, 2, 3)
        ),
    ],
)
def test_random_convolutions(kind: str, target: str, seed: int) -> None:
    """Eight random convolutions give the interpreter's values, and at least four of them become kernels.

    Layouts, strides, dilations, reversals, paddings (also negative), numbers of dimensions, and groups are random.
    """
    if ":" in target and not {"avx2", "fma"} <= set(features()):
        pytest.skip("this CPU cannot run code for x86-64-v3")
    draw = random.Random(seed)
    programs, shapes = zip(*(drawn(draw, kind) for _ in range(8)), strict=True)
    arguments = [RNG.normal(size=shape) for pair in shapes for shape in pair]
    program = load(joined(programs))
    with of_any_size(), patch.object(channels_first, "_CHANNELS", 3):
        assert str(source_of(program, named(target)).stablehlo).count('"flow.dispatch"(') >= 4
        compiled = program.compile(target=target)
    for text, y, expected in zip(
        programs, compiled(*arguments), evaluate(program.text, arguments), strict=True
    ):
        np.testing.assert_allclose(
            y, expected, rtol=0, atol=1e-12 * max(1, abs(expected).max()), err_msg=text
        )


def features() -> list[str]:
    """The features of this machine's CPU, by Linux's names. Returns [] if they are unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return next((line.split() for line in lines if line.startswith("flags")), [])


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
"""For each name: the shapes of image, kernel (input features first) and result, and the attributes of the window."""


@pytest.mark.more
def test_compiled() -> None:
    """The convolutions of `CONVOLUTIONS`, rewritten and compiled by IREE, give the interpreter's values."""
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
    with of_any_size():
        compiled = tiduc.load(text).compile()
    for y, expected in zip(compiled(*arguments), evaluate(text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-11 * abs(expected).max())


FEW_PLACES = {
    "layer": (("2x64x2x2", "64x64x3x3", "2x64x2x2"), "oi", "by_product"),
    "layer, some images": (("6x64x2x2", "64x64x3x3", "6x64x2x2"), "oi", "channels_first"),
    "layer, many images": (("9x64x2x2", "64x64x3x3", "9x64x2x2"), "oi", "toward_kernel"),
    "toward an image": (("2x64x2x2", "64x64x3x3", "2x64x2x2"), "io", "channels_first"),
    "toward a kernel, few images": (("3x2x10x10", "2x32x8x8", "3x32x5x5"), "io", "toward_kernel"),
}
"""For each name: the shapes of image, kernel and result; the order of the kernel's features; the emitting function.

All these convolutions have a padding of 1.
"""


@pytest.mark.parametrize("name", FEW_PLACES)
def test_windows_larger_than_the_result(name: str) -> None:
    """A convolution whose window is larger than its result is emitted by the expected function.

    Its values equal XLA's.
    """
    shapes, order, form = FEW_PLACES[name]
    x, w, y = (f"tensor<{shape}xf64>" for shape in shapes)
    text = f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[{order[0]}, {order[1]}, 0, 1]->[b, f, 0, 1],
        window = {{pad = [[1, 1], [1, 1]]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({x}, {w}) -> {y}
      return %0 : {y}
    }}"""
    emitter = patch.object(convolutions_to_kernels, form, wraps=getattr(convolutions_to_kernels, form))
    with of_any_size(), emitter as emits:
        compiled = load(text).compile(cached=False)
    assert emits.call_count >= 1
    arguments = [RNG.normal(size=[int(n) for n in shape.split("x")]) for shape in shapes[:2]]
    (expected,) = by_xla(text, arguments)
    np.testing.assert_allclose(compiled(*arguments)[0], expected, rtol=0, atol=1e-12 * abs(expected).max())


def test_grouped_convolutions_without_a_window() -> None:
    text = """func.func @main(%x: tensor<2x4xf32>, %w: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f]x[i, o]->[b, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}"""
    assert source_of(load(text))


def test_dilated_groups_with_few_places() -> None:
    """A convolution with groups gives the interpreter's values if its dilated window is larger than the result."""
    text = """func.func @main(%x: tensor<2x21x4xf64>, %w: tensor<21x7x3xf64>) -> tensor<2x21x1xf64> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {stride = [5], pad = [[4, 0]], rhs_dilate = [2]}
    {batch_group_count = 1 : i64, feature_group_count = 3 : i64}
    : (tensor<2x21x4xf64>, tensor<21x7x3xf64>) -> tensor<2x21x1xf64>
  return %0 : tensor<2x21x1xf64>
}"""
    arguments = [RNG.normal(size=shape) for shape in ([2, 21, 4], [21, 7, 3])]
    with of_any_size():
        (ours,) = load(text).compile()(*arguments)
    np.testing.assert_allclose(ours, evaluate(text, arguments)[0], rtol=0, atol=1e-12)


def test_gradient_of_strided_groups() -> None:
    """The gradient with respect to the image equals XLA's.

    The convolution has strides, groups, and the features as last dimension.
    """
    text = """func.func @main(%x: tensor<1x7x31x16xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<1x4x16x16xf32> {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [2, 2], pad = [[1, 1], [1, 1]]}
        {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
        : (tensor<1x7x31x16xf32>, tensor<3x3x8x16xf32>) -> tensor<1x4x16x16xf32>
      return %0 : tensor<1x4x16x16xf32>
    }"""
    gradient = load(text).vjp(["x"])
    arguments = [
        RNG.normal(size=s).astype(np.float32) for s in ([1, 7, 31, 16], [3, 3, 8, 16], [1, 4, 16, 16])
    ]
    (expected,) = by_xla(gradient.text, arguments)[-1:]
    np.testing.assert_allclose(gradient.compile()(*arguments)[-1], expected, rtol=0, atol=1e-4)
