"""Tests which cheap values are recomputed without a memory budget, and the memory model for transposed matrices."""

import numpy as np
import pytest
from harness.allocations import allocated
from harness.edits import without_hosting
from harness.xla import by_xla
from torch_mlir import ir

import tiduc
from tiduc.dialect.facts.matchers import compares_equal
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import context
from tiduc.passes.engine.recompute import cheapest_residuals
from tiduc.passes.rematerialize import cheap
from tiduc.passes.rematerialize.emit import emit
from tiduc.passes.rematerialize.liveness import liveness
from tiduc.passes.rematerialize.second_runs import evicting, unchanged

X, W, COUNT = "tensor<512x64xf32>", "tensor<64x64xf32>", 6
GELU = f"""  %m{{i}} = stablehlo.dot_general %x{{i}}, %w{{i}}, contracting_dims = [1] x [0] : ({X}, {W}) -> {X}
  %c{{i}} = stablehlo.convert %root : (tensor<1xf64>) -> tensor<1xf32>
  %s{{i}} = stablehlo.reshape %c{{i}} : (tensor<1xf32>) -> tensor<f32>
  %b{{i}} = stablehlo.broadcast_in_dim %s{{i}}, dims = [] : (tensor<f32>) -> {X}
  %u{{i}} = stablehlo.multiply %m{{i}}, %b{{i}} : {X}
  %e{{i}} = chlo.erf %u{{i}} : {X} -> {X}
  %g{{i}} = stablehlo.add %e{{i}}, %one : {X}
  %h{{i}} = stablehlo.multiply %m{{i}}, %half : {X}
  %x{{next}} = stablehlo.multiply %h{{i}}, %g{{i}} : {X}
"""
"""A matrix product, followed by a GELU in the form that PyTorch exports: a constant is converted to get sqrt(1/2)."""


def gradient(head: bool = False) -> tiduc.Program:
    """The gradient of `COUNT` layers with GELUs, with respect to all inputs.

    If `head` is set, a matrix product and a square follow the last GELU.
    """
    body, y = "".join(GELU.format(i=i, next=i + 1) for i in range(COUNT)), f"%x{COUNT}"
    if head:
        product = f"stablehlo.dot_general {y}, %w0, contracting_dims = [1] x [0] : ({X}, {W}) -> {X}"
        body += f"  %p = {product}\n  %q = stablehlo.multiply %p, %p : {X}\n"
        y = "%q"
    arguments = ", ".join([f"%x0: {X}", *(f"%w{i}: {W}" for i in range(COUNT))])
    return tiduc.load(f"""func.func @main({arguments}) -> tensor<f32> {{
  %one = stablehlo.constant dense<1.0> : {X}
  %half = stablehlo.constant dense<0.5> : {X}
  %root = stablehlo.constant dense<0.7071067811865476> : tensor<1xf64>
{body}  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce({y} init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : ({X}, tensor<f32>) -> tensor<f32>
  return %sum : tensor<f32>
}}
""").grad()


WITHOUT = 3264
"""The peak memory, in KiB, of the gradient if nothing is recomputed."""


@pytest.mark.parametrize("gain", [cheap._GAIN, pytest.param(0.0, marks=pytest.mark.slow)])
def test_a_gelu_keeps_its_argument(gain: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares values and peak memory of a gradient of GELUs, with and without recomputation.

    A GELU is h g, where u = c m, e = erf u, g = e + 1 and h = m / 2. If `gain` is positive, only m is stored.
    """
    monkeypatch.setattr(cheap, "_SHARE", 1.0)
    random = np.random.default_rng(0)
    shapes = [(512, 64), *[(64, 64)] * COUNT]
    arguments = [(random.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]
    monkeypatch.setattr(cheap, "_GAIN", gain)
    without_hosting(monkeypatch)  # otherwise, temporary arrays would use the memory of results
    program = gradient()
    assert (program.text.count("chlo.erf") > COUNT) is (gain > 0)
    compiled = program.compile()
    for x, y in zip(compiled(*arguments), by_xla(program.text, arguments), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    peak = allocated(compiled.vmfb, arguments)
    assert peak < 0.75 * WITHOUT if gain else peak >= WITHOUT


def test_recomputation_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """`erf` is not recomputed if that takes too large a share of the time, as beside these small matrix products."""
    assert gradient().text.count("chlo.erf") == COUNT
    monkeypatch.setattr(cheap, "_SHARE", 1.0)
    assert gradient().text.count("chlo.erf") > COUNT


def test_backends_know_every_barrier_of_a_plan() -> None:
    """Every optimization barrier of a rematerialized program has the attribute `tidu.recomputed`."""
    text = gradient().rematerialize("min").text
    assert text.count("stablehlo.optimization_barrier") == text.count("{tidu.recomputed}") > COUNT


def transposed(numbers: str, result: str, reader: str) -> list[int]:
    """The bytes that the memory model counts for the result of each op. `reader` is the body of the function."""
    text = f"""func.func @main(%x: tensor<8x16xf32>, %w: tensor<{numbers}xf32>) -> {result} {{
{reader}
}}
"""
    return liveness(tiduc.load(text).merged).size


def test_transposed_matrices_take_no_memory_where_products_read_them() -> None:
    product = """  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<4x16xf32>) -> tensor<16x4xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
"""
    y, t = "tensor<8x4xf32>", "tensor<16x4xf32>"
    assert transposed("4x16", y, product + f"  return %y : {y}") == [0, 128]
    assert transposed("4x16", f"({y}, {t})", product + f"  return %y, %t : {y}, {t}") == [256, 128]
    also = f"  %s = stablehlo.sine %t : {t}\n  return %y, %s : {y}, {t}"
    assert transposed("4x16", f"({y}, {t})", product + also) == [256, 128, 256]


def test_transposed_batches_take_memory() -> None:
    text = """  %t = stablehlo.transpose %w, dims = [0, 2, 1] : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [1]
      : (tensor<8x16xf32>, tensor<2x16x4xf32>) -> tensor<8x2x4xf32>
  return %y : tensor<8x2x4xf32>"""
    assert transposed("2x4x16", "tensor<8x2x4xf32>", text) == [512, 256]


def test_reversed_kernels_take_no_memory() -> None:
    """In the memory model, a convolution kernel takes no memory if its spatial dimensions are reversed.

    It does take memory if its features are reversed. A reversed image takes memory too.
    """
    x, w, y = "tensor<1x8x5x5xf32>", "tensor<4x8x3x3xf32>", "tensor<1x4x5x5xf32>"

    def sizes(of: str, dims: str) -> list[int]:
        operands, kind = ("%x, %r", w) if of == "%w" else ("%r, %w", x)
        return liveness(
            tiduc.load(f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
              %r = stablehlo.reverse {of}, dims = [{dims}] : {kind}
              %y = stablehlo.convolution({operands}) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
                window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
                : ({x}, {w}) -> {y}
              return %y : {y}
            }}""").merged
        ).size

    assert sizes("%w", "2, 3") == [0, 400]
    assert sizes("%w", "0, 2") == [1152, 400]
    assert sizes("%x", "2, 3") == [800, 400]


@pytest.mark.parametrize(
    ("b", "c", "results", "sizes"),
    [
        ("multiply %a, %m", "add %a, %b", "%d", [64, 64]),
        ("multiply %a, %a", "subtract %b, %a", "%d", [64, 64]),
        ("multiply %a, %m", "add %a, %b", "%d, %a", [64, 64, 64]),
        ("multiply %a, %m", "add %a, %b", "%d, %b", [64, 64, 64, 64]),
        ("dot_general %a, %x, contracting_dims = [1] x [0]", "add %a, %b", "%d", [64, 64, 64, 64]),
        ("transpose %a, dims = [1, 0]", "add %a, %b", "%d", [64, 64, 64, 64]),
    ],
)
def test_an_op_that_a_kernel_reads_twice_takes_no_memory(
    b: str, c: str, results: str, sizes: list[int]
) -> None:
    """If two elementwise ops %b and %c read the sine %a, each of their kernels computes %a, and %a takes no memory.

    The sine does take memory if %b is not fused or if %a is a result.
    """
    x = "tensor<4x4xf32>"
    types = ", ".join([x] * len(results.split()))
    kinds = {"dot_general": f"({x}, {x}) -> {x}", "transpose": f"({x}) -> {x}"}
    model = liveness(
        tiduc.load(f"""func.func @main(%x: {x}) -> ({types}) {{
          %m = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          %a = stablehlo.sine %m : {x}
          %b = stablehlo.{b} : {kinds.get(b.split()[0], x)}
          %c = stablehlo.{c} : {x}
          %d = stablehlo.dot_general %c, %c, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          return {results} : {types}
        }}""").merged
    )
    assert [size for size in model.size if size] == [64, *sizes]


@pytest.mark.parametrize("stored", [False, True])
def test_a_second_run_takes_no_memory_in_the_kernel_of_its_reader(stored: bool) -> None:
    """A recomputed quotient of a softmax takes no memory if only an elementwise op reads it, unless `stored` is set.

    Two matrix products read the quotient that was computed first.
    """
    x, s = "tensor<4x4xf32>", "tensor<4xf32>"
    model = liveness(
        tiduc.load(f"""func.func @main(%x: {x}, %s: {s}) -> {x} {{
          %e = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          %r = stablehlo.broadcast_in_dim %s, dims = [0] : ({s}) -> {x}
          %p = stablehlo.divide %e, %r : {x}
          %a = stablehlo.dot_general %p, %x, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          %b = stablehlo.dot_general %p, %a, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          %c = stablehlo.multiply %p, %b : {x}
          %d = stablehlo.dot_general %c, %e, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          return %d : {x}
        }}""").merged
    )
    names = [op.name for op in model.ops]
    quotient = names.index("stablehlo.divide")
    peak = names.index("stablehlo.multiply") - 1
    after = evicting(unchanged(model), peak, {quotient: (0, peak)}, stored).model
    first, second = (i for i, op in enumerate(after.ops) if op == model.ops[quotient])
    assert (after.size[first], after.size[second]) == (64, 64 if stored else 0)
    assert after.roots[second] == ((second,) if stored else (names.index("stablehlo.dot_general"),))


def test_elementwise_ops_at_the_peak_recompute_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`erf` is recomputed in every layer if a matrix product follows the last GELU.

    Then the peak of memory is at the derivative of the last GELU.
    """
    monkeypatch.setattr(cheap, "_SHARE", 1.0)
    assert gradient(head=True).text.count("chlo.erf") == 2 * COUNT


@pytest.mark.parametrize(
    ("reader", "result", "sizes"),
    [
        ("stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0]", "5x6", [120]),
        (
            "stablehlo.reduce(%p init: %z) applies stablehlo.maximum across dimensions = [0]",
            "5x6",
            [360, 120],
        ),
        ("stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [1]", "3x6", [360, 72]),
        ("stablehlo.transpose %p, dims = [0, 2, 1]", "3x6x5", [360]),
        ("stablehlo.transpose %p, dims = [1, 0, 2]", "5x3x6", [360, 360]),
    ],
)
def test_a_product_and_what_changes_its_dimensions_are_one_op(
    reader: str, result: str, sizes: list[int]
) -> None:
    """A matrix product takes no memory if its only reader sums its batch dimension or transposes it."""
    p, y = "tensor<3x5x6xf32>", f"tensor<{result}xf32>"
    types = f"({p}, tensor<f32>)" if "reduce" in reader else f"({p})"
    model = liveness(
        tiduc.load(f"""func.func @main(%a: tensor<3x4x5xf32>, %b: tensor<3x4x6xf32>) -> {y} {{
          %z = stablehlo.constant dense<0.0> : tensor<f32>
          %p = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [1]
            : (tensor<3x4x5xf32>, tensor<3x4x6xf32>) -> {p}
          %y = {reader} : {types} -> {y}
          return %y : {y}
        }}""").merged
    )
    assert [size for size in model.size if size] == sizes


def test_values_that_are_compared_run_once() -> None:
    """Values that are compared for equality, as in the gradient of a maximum, are never recomputed.

    A recomputed value may be rounded differently.
    """
    x = "tensor<4096x64xf32>"
    layer = """  %m{i} = stablehlo.dot_general %x{i}, %w{i}, contracting_dims = [1] x [0] : (X, W) -> X
  %s{i} = stablehlo.logistic %m{i} : X
  %p{i} = stablehlo.multiply %m{i}, %s{i} : X
  %r{i} = stablehlo.reduce(%p{i} init: %least) applies stablehlo.maximum across dimensions = [1]
      : (X, tensor<f32>) -> tensor<4096xf32>
  %b{i} = stablehlo.broadcast_in_dim %r{i}, dims = [0] : (tensor<4096xf32>) -> X
  %x{next} = stablehlo.add %b{i}, %m{i} : X
"""
    body = "".join(layer.format(i=i, next=i + 1) for i in range(COUNT)).replace("X", x).replace("W", W)
    arguments = ", ".join([f"%x0: {x}", *(f"%w{i}: {W}" for i in range(COUNT))])
    program = tiduc.load(f"""func.func @main({arguments}) -> {x} {{
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
{body}  return %x{COUNT} : {x}
}}
""").vjp()
    for memory in ("0.6x", "min"):
        graph = tiduc.load(program.rematerialize(memory).text).merged
        assert any(op.name == "stablehlo.optimization_barrier" for op in graph.definitions)
        definitions = {y: op for op in graph.definitions for y in op.results}
        tests = [op for op in graph.definitions if compares_equal(op)]
        assert len(tests) == COUNT
        waiting, names = [x for op in tests for x in op.operands], set[str]()
        while waiting:
            op = definitions.get(waiting.pop())
            if op is not None:
                names.add(op.name)
                waiting += op.operands if op.name != "stablehlo.dot_general" else ()
        assert "stablehlo.multiply" in names
        assert "stablehlo.optimization_barrier" not in names, memory


def test_loops_keep_masks_of_equal_numbers() -> None:
    """A mask `p == max(p)` stays a residual, and is not recomputed from residuals that have fewer bytes."""
    vector, matrix = "tensor<8xf32>", "tensor<8x8xf32>"
    graph = tiduc.load(f"""func.func @main(%x: {matrix}) -> (tensor<8x8xi1>, {matrix}) {{
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {matrix}
  %p = stablehlo.logistic %y : {matrix}
  %r = stablehlo.reduce(%p init: %least) applies stablehlo.maximum across dimensions = [1]
      : ({matrix}, tensor<f32>) -> {vector}
  %b = stablehlo.broadcast_in_dim %r, dims = [0] : ({vector}) -> {matrix}
  %mask = stablehlo.compare EQ, %p, %b, FLOAT : ({matrix}, {matrix}) -> tensor<8x8xi1>
  return %mask, %y : tensor<8x8xi1>, {matrix}
}}
""").merged
    mask, y = (x for x in graph.outputs if x is not None)
    cheap_ops = {"stablehlo.logistic", "stablehlo.broadcast_in_dim", "stablehlo.compare"}
    assert set(cheapest_residuals([mask, y], graph.inputs.values(), cheap_ops)) == {mask, y}


def test_reversed_kernels_are_not_stored_for_a_second_run() -> None:
    """If a convolution is recomputed, the reversal of its kernel is recomputed too, after the optimization barrier."""
    x, w = "tensor<1x4x5x5xf32>", "tensor<4x4x3x3xf32>"

    def convolved(y: str, image: str, kernel: str) -> str:
        return f"""{y} = stablehlo.convolution({image}, {kernel}) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
          window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
          : ({x}, {w}) -> {x}"""

    program = tiduc.load(f"""func.func @main(%x: {x}, %v: {w}, %w: {w}) -> {x} {{
      %r = stablehlo.reverse %w, dims = [2, 3] : {w}
      {convolved("%a", "%x", "%v")}
      {convolved("%b", "%a", "%r")}
      {convolved("%c", "%b", "%v")}
      {convolved("%d", "%c", "%v")}
      %e = stablehlo.add %d, %b : {x}
      return %e : {x}
    }}""")
    model = liveness(program.merged)
    names = [op.name for op in model.ops]
    convolutions = [i for i, name in enumerate(names) if name == "stablehlo.convolution"]
    peak = convolutions[-1]
    choice = evicting(unchanged(model), peak, dict.fromkeys(convolutions[:2], (0, peak)))
    with context(), ir.Location.unknown():
        emitted = emit(program.opset.builder(View(ir.Module.create()), "main"), program.merged, choice.model)
    barriers = [op for op in emitted.definitions if op.name == "stablehlo.optimization_barrier"]
    assert len(barriers) == 2 and [op.name for op in emitted.definitions].count("stablehlo.reverse") == 2
    assert not any(
        y in op.operands
        for op in barriers
        for each in emitted.definitions
        for y in each.results
        if each.name == "stablehlo.reverse"
    )
