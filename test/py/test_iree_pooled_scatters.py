"""For targets other than CPUs, the gradient of a max-pool is a sum over the elements of a window, not a scatter."""

import numpy as np
import pytest
from harness.compare import compare
from harness.one_module import Given, compiled_as_one

from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.mlir.context import parse, stage
from tiduc.loading import load

RNG = np.random.default_rng(0)


def pool(sizes: tuple[int, int], window: int, stride: int, padding: int, dilation: int = 1) -> str:
    """The text of a max-pool with two-dimensional windows."""
    span = (window - 1) * dilation + 1
    places = [(n + 2 * padding - span) // stride + 1 for n in sizes]
    x, y = f"tensor<3x{sizes[0]}x{sizes[1]}xf32>", f"tensor<3x{places[0]}x{places[1]}xf32>"
    return f"""func.func @main(%x: {x}) -> {y} {{
      %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %y = "stablehlo.reduce_window"(%x, %i) <{{
        padding = dense<[[0, 0], [{padding}, {padding}], [{padding}, {padding}]]> : tensor<3x2xi64>,
        window_dilations = array<i64: 1, {dilation}, {dilation}>, window_dimensions = array<i64: 1, {window}, {window}>,
        window_strides = array<i64: 1, {stride}, {stride}>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %m = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %m : tensor<f32>
      }}) : ({x}, tensor<f32>) -> {y}
      return %y : {y}
    }}"""


def chosen(initial: int, low: int, high: int, body: str) -> str:
    """The text of a scatter like that of a max-pool's gradient, with indices that a `reduce_window` computes.

    Windows of 3 reduce the indices 0 to 5 by `body`, starting from `initial`. The result is clamped to [low, high].
    """
    return f"""func.func @main(%y: tensor<6xf32>, %dy: tensor<6xf32>) -> tensor<6xf32> {{
      %n = stablehlo.iota dim = 0 : tensor<6xi32>
      %i = stablehlo.constant dense<{initial}> : tensor<i32>
      %low = stablehlo.constant dense<{low}> : tensor<i32>
      %high = stablehlo.constant dense<{high}> : tensor<i32>
      %at = "stablehlo.reduce_window"(%n, %i) <{{padding = dense<[[1, 1]]> : tensor<1x2xi64>,
        window_dimensions = array<i64: 3>}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %m = stablehlo.{body} %a, %b : tensor<i32>
        stablehlo.return %m : tensor<i32>
      }}) : (tensor<6xi32>, tensor<i32>) -> tensor<6xi32>
      %clamped = stablehlo.clamp %low, %at, %high : (tensor<i32>, tensor<6xi32>, tensor<i32>) -> tensor<6xi32>
      %indices = stablehlo.reshape %clamped : (tensor<6xi32>) -> tensor<6x1xi32>
      %0 = "stablehlo.scatter"(%y, %indices, %dy) <{{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) : (tensor<6xf32>, tensor<6x1xi32>, tensor<6xf32>) -> tensor<6xf32>
      return %0 : tensor<6xf32>
    }}"""


def legalized(text: str) -> str:
    """The text of a program after legalization for a target that is not a CPU."""
    module = parse(text)
    legalize_for_iree(module, cpu=False)
    return stage(str)(module)


def scatters(text: str) -> int:
    """The number of scatters in a program after legalization for a target that is not a CPU."""
    return legalized(text).count('"stablehlo.scatter"')


POOLS = {
    "strided": ((9, 8), 3, 2, 1),
    "all_places": ((7, 7), 3, 1, 1),
    "window_wider_than_the_array": ((3, 2), 3, 1, 1),
    "windows_of_padding": ((5, 5), 3, 2, 2),
    "dilated": ((8, 9), 2, 3, 1, 2),
}


NUMBERS = {
    "as_in_a_gradient": (6, 0, 5, "minimum"),  # no window gives the initial value 6
    "all_clamped": (6, 0, 5, "maximum"),  # all windows give 6, which is clamped to 5
    "all_dropped": (6, 0, 6, "maximum"),  # the scatter drops all updates
    "least": (-1, 0, 5, "minimum"),
    "wide_clamp": (-1, -1, 9, "maximum"),
}
"""Arguments of `chosen`: the initial value of windows, both bounds of the clamp, and the op that reduces a window."""


def gradient_of_pool(name: str) -> Given:
    """The VJP of a max-pool, and its arguments. The argument of the pool has many equal elements."""
    gradient = load(pool(*POOLS[name])).vjp(["x"])
    x, dy = (port.type.shape for port in gradient.inputs)
    return gradient.text, [
        RNG.integers(0, 3, x).astype(np.float32),
        RNG.standard_normal(dy).astype(np.float32),
    ]


@pytest.mark.parametrize("name", POOLS)
def test_gradient_of_a_pool(name: str) -> None:
    text, arguments = gradient_of_pool(name)
    assert scatters(text) == 0
    compare(evaluate(legalized(text), arguments), evaluate(text, arguments), 1e-6)


@pytest.fixture(scope="module")
def programs() -> dict[str, Given]:
    """Fixture: the gradient of one pool, and a scatter for each entry of `NUMBERS`.

    Only one pool is included, because the target `vmvx` takes two seconds for it.
    """
    return {
        "pool": gradient_of_pool("dilated"),
        **{
            name: (chosen(*numbers), [*RNG.standard_normal((2, 6)).astype(np.float32)])
            for name, numbers in NUMBERS.items()
        },
    }


@pytest.mark.more
@pytest.mark.parametrize("target", ["vmvx", "cpu"])
def test_compiled(target: str, programs: dict[str, Given]) -> None:
    results = compiled_as_one(programs, target=target).results
    for name, (text, arguments) in programs.items():
        assert scatters(text) == 0
        compare(results[name], evaluate(text, arguments), 1e-6, name)


@pytest.mark.parametrize(
    ("initial", "low", "high"), [(3, 0, 5), (6, 1, 5), (6, 0, 4)], ids=["an_element", "low", "high"]
)
def test_other_numbers_stay(initial: int, low: int, high: int) -> None:
    """The scatter remains if the initial value is the index of an element, or if the clamp changes such an index."""
    assert scatters(chosen(initial, low, high, "minimum")) == 1


def test_numbers_beyond_their_type_stay() -> None:
    """A scatter of 300 elements with i8 indices remains, because these indices wrap around to -128."""
    text = chosen(-1, 0, 0, "maximum").replace("reshape %clamped", "reshape %at")
    text = text.replace("<6x", "<300x")
    assert scatters(text) == 0
    assert scatters(text.replace("i32", "i8")) == 1
