"""Tests the rewrite of products and convolutions for NVIDIA's GPUs: values on the CPU, and on a GPU if present."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from cases.iree_case import Array
from harness.one_module import joined, selected
from harness.vulkan import has_device

from tiduc.backends.iree.compile import compile_module, compile_source
from tiduc.backends.iree.emit.gpu_tiles import TILES, Product
from tiduc.backends.iree.fast.cuda.gpu_convolutions import gpu_convolutions
from tiduc.backends.iree.fast.cuda.gpu_products import gpu_products
from tiduc.backends.iree.fast.products.flat_products import flat_products
from tiduc.backends.iree.source import Source
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse, stage
from tiduc.loading import load
from tiduc.runtime.run import Executable

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Form:
    """A test case: the shapes of an op's two operands and of its result, and the op's text without types."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    z: tuple[int, ...]
    op: str

    def function(self, name: str) -> str:
        """The text of a function that returns tanh of the op's result. IREE fuses the tanh with the op."""
        x, y, z = (f"tensor<{'x'.join(map(str, sizes))}xf32>" for sizes in (self.x, self.y, self.z))
        return f"""func.func @{name}(%x: {x}, %y: {y}) -> {z} {{
          %0 = {self.op} : ({x}, {y}) -> {z}
          %1 = stablehlo.tanh %0 : {z}
          return %1 : {z}
        }}"""

    @cached_property
    def arguments(self) -> tuple[Array, Array]:
        scale = (math.prod(self.x) * math.prod(self.y) / math.prod(self.z)) ** -0.25  # makes results about 1
        x, y = (scale * RNG.normal(size=sizes) for sizes in (self.x, self.y))
        return x.astype(np.float32), y.astype(np.float32)


def product(x: tuple[int, ...], y: tuple[int, ...], numbers: str, z: tuple[int, ...]) -> Form:
    return Form(x, y, z, f"stablehlo.dot_general %x, %y, {numbers}")


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], z: tuple[int, ...], window: str, layout: str = ""
) -> Form:
    layout = layout or "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"
    groups = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    return Form(
        x, w, z, f"stablehlo.convolution(%x, %y) dim_numbers = {layout}, window = {{{window}}} {groups}"
    )


FORMS = {
    "long_sum": product((33, 4096), (4096, 70), "contracting_dims = [1] x [0]", (33, 70)),
    "by_rows": product((65, 768), (127, 768), "contracting_dims = [1] x [1]", (65, 127)),
    "by_columns": product((197, 96), (197, 200), "contracting_dims = [0] x [0]", (96, 200)),
    "odd": product((131, 149), (149, 67), "contracting_dims = [1] x [0]", (131, 67)),
    "narrow": product((16, 5000), (17, 5000), "contracting_dims = [1] x [1]", (16, 17)),
    "batches": product(
        (3, 67, 2, 96),
        (2, 3, 96, 65),
        "batching_dims = [0, 2] x [1, 0], contracting_dims = [3] x [2]",
        (3, 2, 67, 65),
    ),
    "unit_batch": product(
        (1, 100, 128), (1, 128, 100), "batching_dims = [0] x [0], contracting_dims = [2] x [1]", (1, 100, 100)
    ),
    "batches_of_long_sums": product(
        (2, 1024, 40), (2, 1024, 33), "batching_dims = [0] x [0], contracting_dims = [1] x [1]", (2, 40, 33)
    ),
    "of_three_dimensions": product((5, 32, 256), (256, 66), "contracting_dims = [2] x [0]", (5, 32, 66)),
    "padded": convolution((2, 16, 17, 15), (32, 16, 3, 3), (2, 32, 17, 15), "pad = [[1, 1], [1, 1]]"),
    "strided": convolution(
        (1, 3, 40, 42), (64, 3, 7, 7), (1, 64, 20, 21), "stride = [2, 2], pad = [[3, 3], [3, 3]]"
    ),
    "pointwise": convolution((2, 64, 28, 28), (96, 64, 1, 1), (2, 96, 14, 14), "stride = [2, 2]"),
    "holes_in_the_image": convolution(
        (1, 32, 14, 14), (16, 32, 3, 3), (1, 16, 28, 28), "pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2]"
    ),
    "holes_in_the_kernel": convolution(
        (1, 16, 20, 20), (32, 16, 3, 3), (1, 32, 16, 16), "rhs_dilate = [2, 2]"
    ),
    "reversed": convolution(
        (1, 16, 20, 20),
        (16, 32, 3, 3),
        (1, 32, 20, 20),
        "pad = [[1, 1], [1, 1]], reverse = [true, true]",
        "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
    ),
    "toward_the_kernel": convolution(
        (2, 16, 28, 28),
        (2, 32, 28, 28),
        (16, 32, 3, 3),
        "pad = [[1, 1], [1, 1]]",
        "[f, b, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
    ),
    "channels_last": convolution(
        (2, 17, 15, 16),
        (3, 3, 16, 32),
        (2, 17, 15, 32),
        "pad = [[1, 1], [1, 1]]",
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    ),
}


def in_tiles(text: str, config: bool) -> str:
    """The text after all products have been split into tiles.

    If `config` is not set, removes the configuration for IREE's code generator for GPUs.
    """
    module = parse(text)
    gpu_convolutions(module)
    flat_products(module)
    assert gpu_products(module) == text.count("stablehlo.tanh")
    for op in outer_first(module.operation):
        if not config and "compilation_info" in op.attributes:
            del op.attributes["compilation_info"]
    return stage(lambda module: str(module.operation.get_asm(assume_verified=True)))(module)


@pytest.fixture(scope="module")
def on_cpu(request: pytest.FixtureRequest) -> dict[str, Sequence[Array]]:
    """Fixture: the results of the selected cases on the CPU, computed by one function."""
    forms = {name: FORMS[name] for name in FORMS if name in selected(request, "test_values")}
    text, _ = joined(form.function(name) for name, form in forms.items())
    run = Executable(compile_source(Source(in_tiles(text, config=False), "cpu")), "cpu")
    results = run(*(x for form in forms.values() for x in form.arguments))
    return {name: [z] for name, z in zip(forms, results, strict=True)}


@pytest.mark.more
@pytest.mark.parametrize("name", FORMS)
def test_values(on_cpu: dict[str, Sequence[Array]], name: str) -> None:
    check(on_cpu[name], name)


def check(results: Sequence[Array], name: str) -> None:
    text = FORMS[name].function("main").replace("f32", "f64")
    (expected,) = load(text).compile(engine="xla")(*(x.astype(np.float64) for x in FORMS[name].arguments))
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", FORMS)
def test_values_on_a_gpu(name: str) -> None:
    if not has_device("cuda"):
        pytest.skip("no device for CUDA")
    check(load(FORMS[name].function("main")).compile("cuda")(*FORMS[name].arguments), name)


def test_compiles_for_gpus() -> None:
    """Three cases compile for CUDA: a product with a split sum, a product with batches, and a padded convolution."""
    names = "long_sum", "batches", "padded"
    text = in_tiles("\n".join(FORMS[name].function(name) for name in names), config=True)
    assert text.count("{compilation_info = ") == 3
    compile_module(text, "cuda")


def test_choice_of_tiles() -> None:
    """Products with small results get small tiles or a split sum, so that all multiprocessors have work."""
    large, small = TILES

    def choice(*sizes: int, batches: tuple[int, ...] = ()) -> tuple[object, int]:
        product = Product(batches, *sizes)
        return min(product.choices(), key=lambda each: product.cycles(*each))

    assert choice(2048, 2048, 2048) == (large, 1)
    assert choice(128, 64, 128, batches=(12,)) == (small, 1)
    tile, parts = choice(128, 768, 3072)
    assert tile == large and parts >= 8
    assert choice(768, 3072, 197) == (large, 1)  # 197 is prime
