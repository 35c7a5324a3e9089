"""Tests the pass that computes matrix products in tiles on CPUs with 512-bit vectors.

The products have odd sizes, several layouts, and batches.
"""

from typing import Any

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one, selected
from harness.sources import source_of, sources_of
from harness.variants import AVX512

import tiduc
from tiduc.backends.iree.fast.products.flat_products import flat_products
from tiduc.backends.iree.fast.products.products_in_tiles import products_in_tiles
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse


def product(formula: str, left: list[int], right: list[int], kind: str = "f32") -> str:
    """The text of a product of two arrays, given by a formula as in `einsum`, such as `ik,kj->ij`.

    A dimension of both operands and the result is a batch dimension.
    """
    (a, b), result = formula.partition("->")[0].split(","), formula.partition("->")[2]
    sizes = dict(zip((*a, *b), (*left, *right), strict=True))
    batches, summed = [d for d in a if d in b and d in result], [d for d in a if d in b and d not in result]
    x, y = (f"tensor<{'x'.join(map(str, each))}x{kind}>" for each in (left, right))
    z = f"tensor<{'x'.join(str(sizes[d]) for d in result)}x{kind}>"
    places = [[[each.index(d) for d in of] for each in (a, b)] for of in (batches, summed)]
    (of_batches, others), (ours, theirs) = places
    return f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general %x, %y, batching_dims = {of_batches} x {others},
             contracting_dims = {ours} x {theirs} : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""


CASES = {
    "side by side": ("ik,kj->ij", [197, 96], [96, 128], "f32"),
    "the second by rows": ("ik,jk->ij", [197, 300], [130, 300], "f32"),
    "the first by columns": ("ki,kj->ij", [131, 300], [131, 70], "f32"),
    "the first by columns, the second large": ("ki,kj->ij", [131, 97], [131, 2105], "f32"),
    "both transposed": ("ki,jk->ij", [333, 131], [97, 333], "f32"),
    "few columns": ("ik,kj->ij", [500, 1030], [1030, 9], "f32"),
    "few rows": ("ik,jk->ij", [8, 1000], [400, 1000], "f32"),
    "many rows": ("ik,kj->ij", [1200, 129], [129, 33], "f32"),
    "f64": ("ki,kj->ij", [131, 100], [131, 120], "f64"),
    "f64, the second by rows": ("ik,jk->ij", [100, 260], [75, 260], "f64"),
    "a batch": ("bik,bjk->bij", [3, 97, 65], [3, 101, 65], "f32"),
    "batches in different orders": ("abik,bajk->abij", [2, 3, 61, 65], [3, 2, 67, 65], "f32"),
    "a batch between": ("ibk,kbj->bij", [131, 2, 77], [77, 2, 111], "f32"),
    "a batch at the end": ("ikb,kjb->bij", [131, 77, 2], [77, 111, 2], "f32"),
}
"""For each name: the formula, the shapes of both operands, and the element type of a product."""


@pytest.fixture(scope="module")
def layouts(request: pytest.FixtureRequest) -> dict[str, Joined]:
    """Fixture: for each target, the selected products, compiled as one module."""
    names = {target: selected(request, "test_layouts", target=target) for target in ("cpu", "cpu-threads")}
    return {
        target: compiled_as_one(
            {name: product(*CASES[name]) for name in CASES if name in some}, target=target
        )
        for target, some in names.items()
        if some
    }


@pytest.mark.more
@pytest.mark.sampled(len(CASES))
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str, target: str, layouts: dict[str, Joined]) -> None:
    """Products in all layouts equal NumPy's, with one and several threads.

    The pass rewrites each of them, except in the last attempt to compile, which uses IREE's own tiles.
    """
    formula, left, right, kind = CASES[name]
    program = tiduc.load(product(formula, left, right, kind))
    source = source_of(program, AVX512)
    assert "flow.executable" in str(source.stablehlo)
    *_, without = sources_of(program, AVX512)
    assert "flow.executable" not in str(without.stablehlo)
    draw, dtype = np.random.default_rng(0).standard_normal, np.dtype(f"f{int(kind[1:]) // 8}")
    x, y = (draw(n).astype(dtype) for n in (left, right))
    ours = np.asarray(layouts[target][name](x, y)[0])
    expected: Any = np.einsum(formula, x, y, optimize=True)
    tolerance = 2e-5 if kind == "f32" else 1e-13
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * abs(expected).max())


def test_infinities() -> None:
    """A product of matrices with an infinity and a NaN equals NumPy's.

    The zeros that pad a matrix to whole vectors are multiplied by infinity, but this NaN does not enter the result.
    """
    x, y = np.ones((131, 150), np.float32), np.ones((150, 70), np.float32)
    x[3, 7], y[5, 69] = np.inf, np.nan
    ours = np.asarray(tiduc.load(product("ik,kj->ij", [131, 150], [150, 70])).compile()(x, y)[0])
    np.testing.assert_array_equal(ours, x @ y)


@pytest.mark.parametrize(("vectors", "is_masked"), [("512x32", True), ("256x16", False), ("128x16", False)])
def test_masks_of_innermost_loops(vectors: str, is_masked: bool) -> None:
    """Where masks are slow, no load in an innermost loop that multiplies has one, although columns are uneven."""
    module = parse(product(*CASES["the first by columns"]))
    assert products_in_tiles(module, Settings(vectors=vectors, fused=True)) == 1
    loops = outer_first(module.operation, ("scf.for",))
    innermost = [op for op in loops if len(outer_first(op, ("scf.for",))) == 1]
    summing = [op for op in innermost if outer_first(op, ("vector.fma",))]
    reads = [op for loop in summing for op in outer_first(loop, ("vector.transfer_read",))]
    assert summing and any(list(op.attributes["operandSegmentSizes"])[-1] for op in reads) == is_masked


def test_equal_products_share_code() -> None:
    """Products with equal types and layouts share one executable: three products need two executables."""
    kind = "tensor<256x256xf32>"
    places = ("%x, %x", "[1] x [0]"), ("%0, %x", "[1] x [0]"), ("%1, %x", "[0] x [0]")
    products = (
        f"%{i} = stablehlo.dot_general {xs}, contracting_dims = {dims} : ({kind}, {kind}) -> {kind}"
        for i, (xs, dims) in enumerate(places)
    )
    lines = "\n".join(products)
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n{lines}\nreturn %2 : {kind}\n}}"
    module = parse(text)
    assert products_in_tiles(module, Settings(vectors="512x32")) == 3
    assert str(module).count("flow.executable.export") == 2
    module.operation.verify()
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32) / 16
    ours = np.asarray(tiduc.load(text).compile()(x)[0])
    np.testing.assert_allclose(ours, (x @ x @ x).T @ x, rtol=0, atol=1e-5)


SIZES = (131, 297, 141), (195, 270, 130), (77, 385, 137)
"""The sizes of products that share code: rows, terms of a sum, and columns."""


FORMULAS = "ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "ki,jk->ij"
SHARED = {
    f"{formula} {kind} {batches}": (formula, kind, batches)
    for formula in FORMULAS
    for kind in ("f32", "f64")
    for batches in (0, 3)
}
"""For each name: the formula, the element type, and the batch size (0 for none) of a program of `products`."""


def shapes(formula: str, kind: str, batches: int) -> list[list[list[int]]]:
    """For each entry of SIZES, the shapes of the two operands and the result of a product."""
    names = (*formula.partition("->")[0].split(","), "ij")
    head = [batches] if batches else []
    every = [
        {"i": rows, "j": columns if kind == "f32" else columns // 2, "k": summed}
        for rows, summed, columns in SIZES
    ]
    return [[head + [sizes[d] for d in name] for name in names] for sizes in every]


def products(formula: str, kind: str, batches: int) -> str:
    """The text of a program with one product for each entry of SIZES."""
    head = [0] * bool(batches)
    contracted = [[name.index("k") + len(head)] for name in formula.partition("->")[0].split(",")]
    dims = f"batching_dims = {head} x {head}, contracting_dims = {contracted[0]} x {contracted[1]}"
    arguments, lines, types = [], [], []
    for n, each in enumerate(shapes(formula, kind, batches)):
        x, y, z = (f"tensor<{'x'.join(map(str, shape))}x{kind}>" for shape in each)
        arguments += [f"%x{n}: {x}", f"%y{n}: {y}"]
        lines.append(f"%z{n} = stablehlo.dot_general %x{n}, %y{n}, {dims} : ({x}, {y}) -> {z}")
        types.append(z)
    results, body = ", ".join(types), "\n".join(lines)
    return f"func.func @main({', '.join(arguments)}) -> ({results}) {{\n{body}\nreturn %z0, %z1, %z2 : {results}\n}}"


@pytest.fixture(scope="module")
def of_sizes(request: pytest.FixtureRequest) -> Joined:
    names = selected(request, "test_products_of_other_sizes_share_code")
    return compiled_as_one({name: products(*SHARED[name]) for name in SHARED if name in names})


@pytest.mark.parametrize("name", SHARED)
def test_products_of_other_sizes_share_code(name: str, of_sizes: Joined) -> None:
    """One executable computes products of different sizes, because it reads the sizes at run time."""
    formula, kind, batches = SHARED[name]
    source = str(source_of(tiduc.load(products(formula, kind, batches)), AVX512).stablehlo)
    assert source.count("flow.executable.export") == 1
    draw, dtype = np.random.default_rng(0).standard_normal, np.dtype(f"f{int(kind[1:]) // 8}")
    arrays = [draw(shape).astype(dtype) for each in shapes(formula, kind, batches) for shape in each[:2]]
    left, right = formula.partition("->")[0].split(",")
    spelled = f"b{left},b{right}->bij" if batches else formula
    for ours, x, y in zip(of_sizes[name](*arrays), arrays[::2], arrays[1::2], strict=True):
        expected: Any = np.einsum(spelled, x, y, optimize=True)
        tolerance = (2e-5 if kind == "f32" else 1e-13) * abs(expected).max()
        np.testing.assert_allclose(np.asarray(ours), expected, rtol=0, atol=tolerance)


def test_transposed_result() -> None:
    """A product whose result is transposed becomes the product of the swapped matrices, without a transpose."""
    text = (
        product("ik,kj->ij", [256, 96], [96, 128])
        .replace(
            "return %0 : tensor<256x128xf32>",
            """
      %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<256x128xf32>) -> tensor<128x256xf32>
      return %1 : tensor<128x256xf32>""",
        )
        .replace("-> tensor<256x128xf32> {", "-> tensor<128x256xf32> {")
    )
    module = parse(text)
    assert flat_products(module) == products_in_tiles(module, Settings(vectors="512x32")) == 1
    (dispatch,) = (line for line in str(module).splitlines() if '"flow.dispatch"(' in line)
    assert "tensor<96x128xf32>, tensor<256x96xf32>" in dispatch


def test_other_products_stay() -> None:
    """The pass does not rewrite small products, or products for CPUs without 512-bit vectors."""
    large = product("ik,kj->ij", [197, 96], [96, 128])
    assert products_in_tiles(parse(large), Settings()) == 0
    assert products_in_tiles(parse(large), Settings(vectors="512x32")) == 1
    for columns, count in (31, 0), (32, 1):
        small = parse(product("ik,kj->ij", [64, 64], [64, columns]))
        assert products_in_tiles(small, Settings(vectors="512x32")) == count


def test_one_operand_is_copied() -> None:
    """In a product x^T y, either y is copied to panels, if y is large, or each tile copies its part of x."""
    products = [product("ki,kj->ij", [197, 768], [197, columns]) for columns in (3072, 768)]
    modules = [parse(text) for text in products]
    assert [products_in_tiles(module, Settings(vectors="512x32")) for module in modules] == [1, 1]
    large, small = ([line for line in str(m).splitlines() if "tensor.empty" in line] for m in modules)
    assert ["x48xf32" in line for line in large] == [False, True]
    assert ["tensor<256x16xf32>" in line for line in small] == [False, True]


@pytest.mark.parametrize("formula", ["ik,kj->ij", "ki,kj->ij"])
def test_errors_do_not_grow_with_the_number_of_parts(formula: str) -> None:
    """A sum of 30,000 products in f32 has an error of at most 16 epsilon, because partial sums are added.

    A sum in sequence would have a relative error of 1e-5.
    """
    rng, sizes = np.random.default_rng(0), {"i": 32, "j": 48, "k": 30_000}
    a, b = (
        rng.random([sizes[d] for d in each], np.float32) for each in formula.partition("->")[0].split(",")
    )
    (found,) = tiduc.load(product(formula, list(a.shape), list(b.shape))).compile()(a, b)
    wanted = np.einsum(formula, a.astype(np.float64), b.astype(np.float64))
    assert np.max(np.abs(found - wanted) / wanted) <= 16 * np.finfo(np.float32).eps
