"""Tests `materialize_merge`, which builds one graph that computes each of the requested values once."""

from typing import Any

import numpy as np
import pytest
from harness.compare import compare
from harness.stages import EXP_AX, F64, body, external, graph, lowered, merged, named, numbers, view_of

from tiduc.dialect.mlir.context import parse, run_passes
from tiduc.loading import load
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero
from tiduc.passes.rules import OPSET

# ---- values that are kept


def test_worked_example() -> None:
    """The merged graph of exp(a x) and of its derivative with respect to x has one exponential and three products."""
    view = view_of(EXP_AX)
    back = linear_transpose(view, linearize(view, [("F0", "p3")], ["x"], OPSET), OPSET)
    text = merged(view, [("F0", "p3"), *back.outputs], ["a", "x", *back.keys])
    assert body(text) == ["multiply", "exponential", "multiply", "multiply"]
    assert "tidu.external" not in text and "tidu.name" not in text


def test_only_what_is_wanted() -> None:
    view = view_of(EXP_AX)
    assert body(merged(view, [("F0", "p2")], ["a", "x"])) == ["multiply"]
    assert body(merged(view, [("F0", "x")], ["a", "x"])) == []
    assert body(merged(view, [], ["a", "x"])) == []
    linearize(view, [("F0", "p3")], ["x"], OPSET)
    assert body(merged(view, [("F0", "p3")], ["a", "x"])) == ["multiply", "exponential"]


def test_values_wanted_twice() -> None:
    view = view_of(EXP_AX, graph("G", [], external("%e", "@F0::@p3") + named("%e", "v"), ["%e"]))
    wanted = [("F0", "p3"), ("G", "v"), ("F0", "x"), ("F0", "p3")]
    assert body(merged(view, wanted, ["a", "x"])) == ["multiply", "exponential"]
    compare(numbers(view, wanted, {"a": 0.0, "x": 4.0}), [1, 1, 4, 1])


def test_zeros() -> None:
    view = view_of(EXP_AX)
    type_ = view.value(("F0", "p3")).type
    compare(numbers(view, [Zero(type_), ("F0", "p2"), Zero(type_)], {"a": 2.0, "x": 4.0}), [0, 8, 0])
    assert body(merged(view, [Zero(type_), Zero(type_)], [])) == ["constant"]


# ---- every value once


def two(first: str, second: str, outputs: str = "%0 %1", type_: str = F64) -> Any:
    """A view of two graphs A and B with the input x. Each computes a value named v by the given ops."""
    graphs = (
        graph(name, ["x"], f"{line}\n" + named(output, "v", type_), [output], type_)
        for name, line, output in zip("AB", (first, second), outputs.split(), strict=True)
    )
    return view_of(*graphs)


WANTED: list[Any] = [("A", "v"), ("B", "v")]


def count(view: Any, op: str) -> int:
    return body(merged(view, WANTED, ["x"])).count(op)


def test_equal_ops_of_two_graphs() -> None:
    assert count(two(f"%0 = stablehlo.tanh %x : {F64}", f"%1 = stablehlo.tanh %x : {F64}"), "tanh") == 1


def test_equal_constants() -> None:
    one = f"%0 = stablehlo.constant dense<1.0> : {F64}"
    for value, expected in (("1.0", 1), ("2.0", 2)):
        view = two(one, f"%1 = stablehlo.constant dense<{value}> : {F64}")
        assert count(view, "constant") == expected


def test_zeros_of_either_sign() -> None:
    lines = [f"%{i} = stablehlo.constant dense<{value}> : {F64}" for i, value in enumerate(("0.0", "-0.0"))]
    view = two(*lines)
    assert count(view, "constant") == 2
    plus, minus = numbers(view, WANTED, {"x": 1.0})
    assert not np.signbit(plus) and np.signbit(minus)


def test_complex_constants() -> None:
    c = "tensor<complex<f64>>"
    for value, expected in (("(1.0, 2.0)", 1), ("(1.0, 3.0)", 2)):
        lines = [f"%{i} = stablehlo.constant dense<{v}> : {c}" for i, v in enumerate(("(1.0, 2.0)", value))]
        assert count(two(*lines, type_=c), "constant") == expected


def test_attributes_and_types_tell_ops_apart() -> None:
    def convert(type_: str, i: int) -> str:
        return (
            f"%a{i} = stablehlo.convert %x : (tensor<f64>) -> tensor<{type_}>\n"
            f"%{i} = stablehlo.convert %a{i} : (tensor<{type_}>) -> tensor<f64>"
        )

    assert count(two(convert("f32", 0), convert("f32", 1)), "convert") == 2
    assert count(two(convert("f32", 0), convert("f16", 1)), "convert") == 4
    v = "tensor<2xf64>"
    lines = ["%0 = stablehlo.reverse %x, dims = [0] : " + v, "%1 = stablehlo.reverse %x, dims = [] : " + v]
    assert count(two(*lines, type_=v), "reverse") == 2


def test_operands_tell_ops_apart() -> None:
    lines = f"%0 = stablehlo.subtract %x, %y : {F64}\n%1 = stablehlo.subtract %y, %x : {F64}\n"
    view = view_of(graph("A", ["x", "y"], lines + named("%0", "v") + named("%1", "w"), ["%0"]))
    compare(numbers(view, [("A", "v"), ("A", "w")], {"x": 5.0, "y": 3.0}), [2, -2])


def test_roles_tell_ops_apart_until_lowering() -> None:
    """A primal op and a linear op that compute one product k dx are merged only by lowering.

    Before lowering, their masks differ.
    """
    product = f"%0 = stablehlo.multiply %k, %x : {F64}\n" + named("%0", "v")
    view = view_of(graph("F", ["k", "x"], product, ["%0"]))
    linear = linearize(view, [("F", "v")], ["x"], OPSET, name="L")
    second = graph(
        "G",
        ["k"],
        external("%d", '@L::@"L.x"') + f"%0 = stablehlo.multiply %k, %d : {F64}\n" + named("%0", "v"),
        ["%0"],
    )
    view = view_of(str(view.module), second)
    wanted = [("G", "v"), view.graph("L").outputs[0]]
    assert body(merged(view, wanted, ["k"])) == ["multiply", "multiply"]
    assert body(lowered(view, wanted, ["k", linear.keys[0]])) == ["multiply"]


@pytest.mark.parametrize(("op", "expected"), [("add", 1), ("multiply", 1), ("subtract", 2), ("maximum", 2)])
def test_operands_without_an_order(op: str, expected: int) -> None:
    lines = f"%0 = stablehlo.{op} %x, %y : {F64}\n%1 = stablehlo.{op} %y, %x : {F64}\n"
    view = view_of(graph("A", ["x", "y"], lines + named("%0", "v") + named("%1", "w"), ["%0"]))
    assert body(merged(view, [("A", "v"), ("A", "w")], ["x", "y"])) == [op] * expected


def reduce(i: int, op: str, capture: str = "") -> str:
    inner = f"stablehlo.{op} %p, %q" if not capture else f"stablehlo.{op} %p, {capture}"
    return f"""%c{i} = stablehlo.constant dense<1.0> : tensor<f64>
      %r{i} = "stablehlo.reduce"(%x, %c{i}) ({{
      ^bb0(%p: tensor<f64>, %q: tensor<f64>):
        %s = {inner} : tensor<f64>
        "stablehlo.return"(%s) : (tensor<f64>) -> ()
      }}) {{dimensions = array<i64: 0>}} : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
      %{i} = stablehlo.broadcast_in_dim %r{i}, dims = [] : (tensor<f64>) -> tensor<2xf64>"""


@pytest.mark.parametrize(("op", "expected"), [("add", 1), ("maximum", 2)])
def test_regions(op: str, expected: int) -> None:
    view = two(reduce(0, "add"), reduce(1, op), type_="tensor<2xf64>")
    assert count(view, "reduce") == expected


def test_regions_that_read_from_outside() -> None:
    """Reductions whose regions capture equal constants are merged; if the constants differ, they are not merged."""
    outer = "%k = stablehlo.constant dense<{}> : tensor<f64>\n"
    for first, second, expected in ((2.0, 2.0, 1), (2.0, 3.0, 2)):
        lines = [outer.format(value) + reduce(i, "add", "%k") for i, value in enumerate((first, second))]
        view = two(*lines, type_="tensor<2xf64>")
        assert count(view, "reduce") == expected


def test_stateful_ops_are_never_merged() -> None:
    def call(i: int) -> str:
        return f'%{i} = "stablehlo.custom_call"(%x) {{call_target_name = "f"}} : ({F64}) -> {F64}'

    assert count(two(call(0), call(1)), "custom_call") == 2
    view = two(call(0), f"%1 = stablehlo.negate %x : {F64}")
    assert body(merged(view, [("A", "v"), ("A", "v")], ["x"])) == ["custom_call"]


def test_results_of_one_op_are_told_apart() -> None:
    text = """
    "tidu.graph"() ({
    ^bb0(%x: tensor<2xf64>, %y: tensor<2xf64>):
      %s:2 = "stablehlo.sort"(%x, %y) ({
      ^bb1(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):
        %0 = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
        "stablehlo.return"(%0) : (tensor<i1>) -> ()
      }) {dimension = 0 : i64} : (tensor<2xf64>, tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>)
      "tidu.name"(%s#0) {sym_name = "keys"} : (tensor<2xf64>) -> ()
      "tidu.name"(%s#1) {sym_name = "values"} : (tensor<2xf64>) -> ()
      "stablehlo.return"(%s#0) : (tensor<2xf64>) -> ()
    }) {sym_name = "NAME", inputs = [@x, @y]} : () -> ()
    """
    view = view_of(text.replace("NAME", "A") + text.replace("NAME", "B"))
    wanted = [("A", "values"), ("B", "keys"), ("B", "values"), ("A", "keys")]
    assert merged(view, wanted, ["x", "y"]).count('"stablehlo.sort"') == 1
    x, y = np.array([2.0, 1.0]), np.array([5.0, 6.0])
    compare(numbers(view, wanted, {"x": x, "y": y}), [y[::-1], x[::-1], y[::-1], x[::-1]])


def test_equal_trees_built_twice() -> None:
    """Equal expressions of several ops are merged, inside a graph and across graphs."""
    line = f"%{{0}}a = stablehlo.exponential %x : {F64}\n%{{0}}b = stablehlo.multiply %{{0}}a, %x : {F64}\n"
    text = "".join(line.replace("%{0}", f"%n{i}") for i in range(3))
    view = view_of(
        graph("A", ["x"], text + named("%n0b", "v"), ["%n0b"]),
        graph("B", ["x"], text + named("%n2b", "v"), ["%n2b"]),
    )
    assert body(merged(view, WANTED, ["x"])) == ["exponential", "multiply"]


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_native_cse_finds_nothing(mode: str) -> None:
    lines = f"""%0 = stablehlo.exponential %x : {F64}
      %1 = stablehlo.multiply %0, %a : {F64}
      %2 = stablehlo.multiply %0, %a : {F64}
      %3 = stablehlo.tanh %1 : {F64}
      %4 = stablehlo.tanh %2 : {F64}
      %5 = stablehlo.divide %3, %4 : {F64}
      {named("%5", "v")}"""
    view = view_of(graph("F", ["a", "x"], lines, ["%5"]))
    linear = linearize(view, [("F", "v")], ["x", "a"], OPSET)
    if mode == "vjp":
        linear = linear_transpose(view, linear, OPSET)
    text = merged(view, [("F", "v"), *linear.outputs], ["a", "x"])
    module = parse(text)
    before = str(module)
    run_passes(module.operation, "builtin.module(cse)")
    assert str(module) == before


# ---- identities

V = "tensor<3xf64>"


def identity(*lines: str, type_: str = V) -> list[str]:
    """The ops that remain after merging a graph that computes %y from %x and %w by the given lines."""
    inside = "\n".join(lines) + "\n" + named("%y", "v", type_)
    view = view_of(graph("A", ["x", "w"], inside, ["%x"], V))
    return body(merged(view, [("A", "v")], ["x", "w"]))


def constant(name: str, value: str, type_: str = V) -> str:
    return f"%{name} = stablehlo.constant dense<{value}> : {type_}"


def test_neutral_operands() -> None:
    one, zero = constant("one", "1.0"), constant("zero", "0.0")
    for line in ("multiply %x, %one", "multiply %one, %x", "divide %x, %one"):
        assert identity(one, f"%y = stablehlo.{line} : {V}") == []
    for line in ("add %x, %zero", "add %zero, %x", "subtract %x, %zero"):
        assert identity(zero, f"%y = stablehlo.{line} : {V}") == []
    assert identity(one, f"%y = stablehlo.divide %one, %x : {V}") == ["constant", "divide"]
    assert identity(zero, f"%y = stablehlo.subtract %zero, %x : {V}") == ["constant", "subtract"]
    assert identity(zero, f"%y = stablehlo.multiply %x, %zero : {V}") == ["constant", "multiply"]


def test_identities_follow_one_another() -> None:
    """Merging applies several identities in turn: x + -(-(x * 1)) becomes x + x, and x + -(x * 1) becomes x - x."""
    lines = [
        constant("c", "1.0", "tensor<f64>"),
        "%r = stablehlo.reshape %c : (tensor<f64>) -> tensor<1xf64>",
        f"%one = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> {V}",
        f"%a = stablehlo.multiply %x, %one : {V}",
        f"%b = stablehlo.negate %a : {V}",
        f"%d = stablehlo.negate %b : {V}",
        f"%y = stablehlo.add %x, %d : {V}",
    ]
    assert identity(*lines) == ["add"]
    lines[-1] = f"%y = stablehlo.add %x, %b : {V}"
    assert identity(*lines) == ["subtract"]


def test_identities_and_inverses() -> None:
    column, square, wide = "tensor<3x1xf64>", "tensor<3x3xf64>", "tensor<3x2x3xf64>"
    reshape = f"%a = stablehlo.reshape %x : ({V}) -> {column}"
    assert identity(reshape, f"%y = stablehlo.reshape %a : ({column}) -> {V}") == []
    assert identity(f"%y = stablehlo.convert %x : {V}") == []
    laid = f"%a = stablehlo.broadcast_in_dim %x, dims = [1] : ({V}) -> {square}"
    turned = f"%b = stablehlo.transpose %a, dims = [1, 0] : ({square}) -> {square}"
    back = f"%y = stablehlo.transpose %b, dims = [1, 0] : ({square}) -> {square}"
    assert identity(laid, turned, back, type_=square) == ["broadcast_in_dim"]
    twice = f"%y = stablehlo.broadcast_in_dim %a, dims = [2, 0] : ({square}) -> {wide}"
    view = view_of(graph("A", ["x"], "\n".join([laid, twice, named("%y", "v", wide)]), ["%x"], V))
    assert f"broadcast_in_dim %arg0, dims = [0] : ({V}) -> {wide}" in merged(view, [("A", "v")], ["x"])


def test_a_quantized_zero_is_not_neutral() -> None:
    """An addition of a quantized constant with the stored value 0 stays, because this is not the number zero.

    The number zero is stored as the zero point, here 5.
    """
    type_ = "tensor<3x!quant.uniform<i8:f32, 0.1:5>>"
    lines = f"""%c = "stablehlo.constant"() <{{value = dense<0> : tensor<3xi8>}}> : () -> {type_}
      %0 = stablehlo.add %x, %c : {type_}
      {named("%0", "v", type_)}"""
    view = view_of(graph("A", ["x"], lines, ["%0"], type_))
    assert body(merged(view, [("A", "v")], ["x"])) == ["constant", "add"]
    assert body(lowered(view, [("A", "v")], ["x"])) == ["constant", "add"]


def test_source_graphs_are_not_changed() -> None:
    """Merging does not change the source graphs: they can be linearized, printed and merged again."""
    view = view_of(EXP_AX)
    linear = linearize(view, [("F0", "p3")], ["x"], OPSET)
    before = merged(view, [("F0", "p3"), *linear.outputs], ["a", "x"])
    relinearized = linearize(view, list(linear.outputs), ["x"], OPSET)  # its graph refers to values of L0
    parse(str(view.module))
    assert merged(view, [("F0", "p3"), *linear.outputs], ["a", "x"]) == before
    assert len(relinearized.definitions) > 0


def test_ops_that_differ_in_their_types_only() -> None:
    shapes = "2x2", "4x1", "2x2", "4x1"
    lines = [
        f"%{i} = stablehlo.reshape %x : (tensor<4xf64>) -> tensor<{n}xf64>" for i, n in enumerate(shapes)
    ]
    types = ", ".join(f"tensor<{n}xf64>" for n in shapes)
    text = f"func.func @main(%x: tensor<4xf64>) -> ({types}) {{\n"
    flat = load("\n".join([text, *lines, f"return %0, %1, %2, %3 : {types}", "}"])).merged
    assert [list(op.result.type.shape) for op in flat.definitions] == [[2, 2], [4, 1]]
    assert flat.outputs[:2] == flat.outputs[2:]
