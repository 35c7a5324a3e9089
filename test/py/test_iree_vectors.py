"""Tests the vector kernels by which CPUs compute convolutions: their values, shared code, and sizes of tiles."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from harness.convolutions import of_any_size
from harness.sources import source_of, sources_of
from harness.variants import HERE, named

from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.fast.convolutions import channels_first, toward_kernels
from tiduc.backends.iree.fast.convolutions.channels_first import ImageSums
from tiduc.backends.iree.fast.convolutions.convolutions_to_kernels import convolutions_to_kernels
from tiduc.backends.iree.fast.convolutions.image_parts import ImageTile
from tiduc.backends.iree.fast.convolutions.planes import Planes
from tiduc.backends.iree.fast.convolutions.toward_kernels import KernelSums
from tiduc.backends.iree.fast.memory.select_reruns import select_reruns
from tiduc.backends.iree.fast.products import products_in_tiles
from tiduc.backends.iree.settings import Settings
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.graph.matching import traced
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.runtime.run import Executable

RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A convolution with channels first: the shape of the images, the features of the result, and the window."""

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
        """The sizes of the spatial dimensions of the result."""
        sizes = zip(self.image[2:], self.window, strict=True)
        holed = [((n - 1) * self.holes + 1, (k - 1) * self.dilation + 1) for n, k in sizes]
        return [(n + sum(self.padding) - k) // self.stride + 1 for n, k in holed]

    def text(self, i: int) -> tuple[str, list[str], list[list[int]]]:
        """The text of the op; the types of image, kernel and result; and their shapes."""
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
    Case((2, 5, 17, 19), 13, (3, 3), padding=(1, 1), kind="f32"),  # sizes that are no multiples of a tile
    Case((1, 64, 7, 7), 9, (3, 3), padding=(1, 1), kind="f32"),  # rows shorter than a vector
    Case((1, 40, 9, 3), 8, (3, 3), padding=(2, 2)),
    Case((3, 20, 2, 3), 19, (3, 3), padding=(1, 1), kind="f32"),  # a window larger than the image
    Case((1, 3, 40, 40), 8, (7, 7), 2, (3, 3), kind="f32"),
    Case((2, 6, 23, 22), 10, (3, 3), 2, (1, 0)),
    Case((1, 6, 23, 22), 10, (2, 5), 3, (2, 1), 2),
    Case((1, 4, 33, 31), 6, (3, 3), 5, (0, 3), 3),  # offsets modulo the stride are not ascending
    Case((1, 8, 16, 16), 12, (1, 1), kind="f32"),
    Case((2, 8, 15, 16), 12, (1, 1), 2),
    Case((1, 8, 20, 20), 8, (3, 3), padding=(-1, -2)),
    Case((2, 30, 27, 11), 21, (3, 3), padding=(3, 3)),  # padding larger than the window
    Case((2, 12, 14, 14), 18, (3, 3), padding=(1, 1), groups=3),
    Case((3, 8, 60), 11, (5,), 2, (2, 2)),
    Case((1, 8, 9, 9), 7, (3, 3), padding=(1, 2), holes=2),
    Case((2, 8, 9, 8), 7, (4, 2), padding=(2, 3), dilation=2, holes=3, kind="f32"),
    Case((3, 8, 20), 12, (2,), padding=(1, 2), groups=4, holes=3),
    Case((2, 10, 14, 17), 10, (5, 3), padding=(1, 2), groups=10, kind="f32"),
    Case((1, 9, 20, 19), 9, (3, 3), 2, (1, 1), groups=9),
    Case((2, 7, 40), 7, (33,), padding=(9, 8), groups=7),  # the window does not fit into registers
)
"""Convolutions with odd sizes, strides, dilations, groups, batches or base dilation. Some are depthwise."""


def convolved(cases: Sequence[Case]) -> tuple[str, list[Any]]:
    """A program that computes all the convolutions, and its arguments: the images and kernels."""
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
    """Context manager: vector kernels compute convolutions of any size, with tiles that add few channels at a time."""
    with (
        of_any_size(),
        patch.object(channels_first, "_CHANNELS", 4),
        patch.multiple(products_in_tiles, _WORK=0, _LEAST=1),
    ):
        yield


FEW = [CASES[i] for i in (2, 15)]


@pytest.mark.parametrize(
    ("target", "cases"), [("cpu-threads", FEW), pytest.param("cpu", CASES, marks=pytest.mark.slow)]
)
def test_kernels_of_vectors(target: str, cases: Sequence[Case]) -> None:
    """Convolutions and their VJPs become vector kernels, whose values equal the interpreter's."""
    text, arguments = convolved(cases)
    arguments += [RNG.normal(size=y.shape).astype(y.dtype) for y in evaluate(text, arguments)]
    program = load(text).vjp()
    with in_vectors():
        source, compiled = source_of(program, named(target)), program.compile(target=target)
        *_, without = sources_of(program, named(target))
        assert "flow.executable" not in str(without.stablehlo)
    assert str(source.stablehlo).count('"flow.dispatch"(') >= 3 * len(cases)
    for y, right in zip(compiled(*arguments), evaluate(program.text, arguments), strict=True):
        tolerance = 2e-6 if right.dtype == np.float32 else 1e-14
        np.testing.assert_allclose(y, right, rtol=0, atol=tolerance * abs(right).max())


SHARED = [
    (Case((2, 16, 12, 21), 24, (3, 3), stride, (1, 1)), Case((3, 32, 13, 23), 48, (3, 3), stride, (1, 1)))
    for stride in (1, 2)
]
"""Pairs of convolutions that share code, although their batches, channels, images and results differ in size."""


@pytest.mark.parametrize("cases", SHARED, ids=["stride 1", "stride 2"])
def test_convolutions_of_other_sizes_share_code(cases: Sequence[Case]) -> None:
    """Two convolutions of different sizes and their gradients need no more code than the first alone.

    The code reads the sizes at run time. Values equal PyTorch's.
    """
    torch = pytest.importorskip("torch")
    text, arguments = convolved(cases)
    xs = [torch.from_numpy(x).requires_grad_() for x in arguments]
    ys = [torch.conv2d(*xs[2 * i : 2 * i + 2], stride=c.stride, padding=1) for i, c in enumerate(cases)]
    cts = [torch.from_numpy(RNG.normal(size=tuple(y.shape))) for y in ys]
    right = [*ys, *torch.autograd.grad(ys, xs, cts)]
    with in_vectors():
        alone = source_of(load(convolved(cases[:1])[0]).vjp())
        source = source_of(load(text).vjp())
        here = source_of(load(text).vjp(), HERE)
    assert source.workgroups.keys() == alone.workgroups.keys() and len(source.workgroups) >= 5
    ours = Executable(compile_source(here, cached=False))(*arguments, *(ct.numpy() for ct in cts))
    for y, expected in zip(ours, right, strict=True):
        wanted = expected.detach().numpy()
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-13 * abs(wanted).max())


@pytest.mark.parametrize(("batch", "last"), [(1, ["product"]), (2, ["panels", "toward_kernel"])])
def test_windows_of_one_element_are_products(batch: int, last: list[str]) -> None:
    """A convolution with a 1x1 window and its gradients become products.

    If there are several images, the gradient with respect to the kernel is a vector kernel instead.
    """
    text, _ = convolved([Case((batch, 16, 56, 56), 24, (1, 1), kind="f32")])
    module = parse(load(text).vjp().text)
    with of_any_size():
        convolutions_to_kernels(module, Settings(vectors="512x32"))
    module.operation.verify()
    names = re.findall(r'"flow.dispatch"\(.*?entry_points = \[@([a-z_]+?)_[n\d]', str(module))
    assert names == ["product", "product", *last]


def test_phases_share_code() -> None:
    """A convolution with base dilation is one dispatch for all its phases (see `phases.py`).

    With a 1x1 kernel, only one phase is not zero, and it becomes a product of matrices.
    """
    text, _ = convolved([Case((1, 8, 16, 16), 8, (3, 3), holes=2), Case((1, 8, 16, 16), 8, (1, 1), holes=2)])
    module = parse(text)
    with of_any_size(), patch.multiple(products_in_tiles, _WORK=0, _LEAST=1):
        convolutions_to_kernels(module, Settings(vectors="512x32"))
    module.operation.verify()
    names = re.findall(r'"flow.dispatch"\(.*?entry_points = \[@([a-z_]+?)_[n\d]', str(module))
    assert names == ["convolution", "product"]


@pytest.mark.parametrize("stride", [1, 2])
def test_reruns_of_reversals(stride: int) -> None:
    """A dispatch reads the kernel of a convolution directly, although the program reverses and recomputes it."""
    kernel = "tensor<8x1x3x3xf32>"
    text, _ = convolved([Case((1, 8, 16, 16), 8, (3, 3), stride, (1, 1), groups=8, kind="f32")])
    text = load(text).vjp().text
    assert (reverse := re.search(r"(%\d+) = stablehlo.reverse (%\w+), ", text)) is not None
    rerun = f"%r = stablehlo.optimization_barrier {{tidu.recomputed}} {reverse[2]} : {kernel}\n"
    module = parse(text.replace(reverse[0], f"{rerun}{reverse[1]} = stablehlo.reverse %r, "))
    with of_any_size():
        assert select_reruns(module) == 1
        convolutions_to_kernels(module, Settings(vectors="512x32"))
    module.operation.verify()
    (dispatch,) = re.findall(
        r'"flow.dispatch"\((.*?)\) {entry_points = \[@convolution_.*tensor<1x8x3x3xf32>', str(module)
    )
    (reshaped,) = re.findall(rf"{dispatch.split(', ')[4]} = stablehlo.reshape (%\w+) ", str(module))
    assert reshaped == reverse[2]


def test_equal_convolutions_share_code() -> None:
    """Of four convolutions that differ only in padding or in a reversed window, those without reversal share code."""
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
    with of_any_size():
        assert convolutions_to_kernels(module, Settings(vectors="512x32")) == 4
    module.operation.verify()
    texts = str(module)
    assert texts.count('"flow.dispatch"(') == 8 and texts.count("flow.executable.export") == 2 + 2


def test_results_in_order() -> None:
    """If a kernel is larger than the images, its gradient is computed in the kernel's layout, without a transpose."""
    text, _ = convolved([Case((2, 16, 2, 2), 24, (3, 3), padding=(1, 1), kind="f32")])
    module = parse(load(text).vjp([1]).text)
    with of_any_size():
        convolutions_to_kernels(module, Settings(vectors="512x32"))
    module.operation.verify()
    (value,) = module.body.operations[0].regions[0].blocks[0].operations[-1].operands[1:]
    producers = [y.owner.name for y in traced(value, ("stablehlo.reshape", "stablehlo.transpose"))]
    assert "stablehlo.transpose" not in producers and producers[-1] == "flow.dispatch"


def test_parts_for_threads() -> None:
    """A convolution and its gradient with respect to the image are each divided into eight parts for threads."""
    text, _ = convolved([Case((1, 64, 32, 32), 64, (3, 3), padding=(1, 1), kind="f32")])
    module = parse(load(text).vjp([0]).text)
    convolutions_to_kernels(module, Settings(vectors="512x32"))
    dispatches = r'"flow.dispatch"\(%c(\d+)\w*, [^)]*\) \{entry_points = \[@convolution_'
    assert re.findall(dispatches, str(module)) == ["8", "8"]


def test_choice_of_tiles() -> None:
    """The chosen tile fits into the registers, and the tiles that cover the result exceed it by little."""
    assert ImageSums(64, 28 * 57 - 1, 16, 576).best(32) == ImageTile(8, 3)
    assert ImageSums(64, 28 * 57 - 1, 8, 576).best(16) == ImageTile(4, 2)
    assert ImageSums(5, 1000, 16, 576).best(32).features == 5
    assert ImageSums(1, 49, 16, 9).best(32) == ImageTile(1, 4)
    assert all(
        (n.features + 1) * n.vectors < 31 for n in (ImageSums(m, 1000, 16, 9).best(32) for m in range(1, 40))
    )


def test_choice_of_tiles_toward_kernels() -> None:
    """A tile for the gradient of a kernel has all offsets of a small window, and fits into the registers.

    It has no more features than the result, rounded up to a vector.
    """
    assert KernelSums(64, 64, 3, 3, 3136, 16).best(32) == toward_kernels.KernelTile(1, 3, 3, 2)
    assert KernelSums(64, 3, 7, 7, 12544, 16).best(32).columns == 7
    for features, window in ((8, 3), (64, 5), (300, 1)):
        tile = KernelSums(features, 32, window, window, 1000, 16).best(32)
        assert 32 % tile.channels == window % tile.rows == window % tile.columns == 0
        assert (tile.height + 1) * tile.vectors < 31 and tile.vectors <= -(-features // 16)


@pytest.mark.parametrize(("size", "padding"), [(1, 1), (3, 3), (3, 5)])
def test_wide_padding(size: int, padding: int) -> None:
    """A row of a plane is as long as a row of the result, even if whole windows lie in the padding."""
    places = 9 + 2 * padding - size + 1
    planes = Planes((places,) * 2, (size,) * 2, (1, 1), (1, 1), (padding,) * 2, (9, 9))
    assert planes.pitch >= places


@pytest.mark.parametrize(
    ("stride", "dilation", "size"), [(1, 1, 3), (2, 1, 3), (3, 2, 2), (5, 3, 3), (4, 2, 5), (4, 4, 2)]
)
def test_planes_have_every_offset(stride: int, dilation: int, size: int) -> None:
    """For each offset in the window, the chosen plane and shift are those of the element that the window reads."""
    planes = Planes((9, 9), (size, size), (stride,) * 2, (dilation,) * 2, (0, 0), (64, 64))
    remainders = planes.remainders(1)
    for j in range(size):
        plane, shift = planes.offsets.read([0, j])
        assert remainders[plane] + stride * shift == j * dilation
