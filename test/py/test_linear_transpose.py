"""Tests `linear_transpose`, which transposes a linear graph, also if an output of the graph is an input."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import EXP_AX, body, graph, lowered, named, numbers, view_of

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.mlir.context import parse, stage
from tiduc.loading import load
from tiduc.passes.linear_transpose import linear_transpose, transpose_closed
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET
from tiduc.ports import InputPort, OutputPort

POINT = {"x": np.array([0.5, -1.2, 2.0]), "y": np.array([1.5, 0.7, -0.3])}
V = "tensor<3xf64>"


def function(*lines: str, outputs: str, type_: str = V) -> str:
    """The text of a graph @F with the inputs x and y. Each value, such as %0, gets a name, such as v0."""
    names = re.findall(r"^(%\d+) =", "\n".join(lines), re.MULTILINE)
    names_ = [named(name, f"v{name[1:]}", type_) for name in names]
    return graph("F", ["x", "y"], "\n".join([*lines, *names_]), outputs.split(), type_)


def op(line: str, type_: str = V) -> str:
    return f"{line} : {type_}"


PROGRAMS = {
    "a chain": function(
        op("%0 = stablehlo.exponential %x"),
        op("%1 = stablehlo.multiply %0, %y"),
        op("%2 = stablehlo.negate %1"),
        outputs="%2",
    ),
    "fan-out": function(
        op("%0 = stablehlo.multiply %x, %x"),
        op("%1 = stablehlo.multiply %0, %x"),
        op("%2 = stablehlo.add %1, %0"),
        outputs="%2",
    ),
    "two outputs, one of them an operand": function(
        op("%0 = stablehlo.multiply %x, %y"), op("%1 = stablehlo.sine %0"), outputs="%0 %1"
    ),
    "shapes": function(
        "%0 = stablehlo.reverse %x, dims = [0] : tensor<3xf64>",
        op("%1 = stablehlo.multiply %0, %y"),
        "%2 = stablehlo.reverse %1, dims = [0] : tensor<3xf64>",
        outputs="%2",
    ),
}
OUTPUTS = {"two outputs, one of them an operand": ["v0", "v1"]}


def linear_of(view: Any, name: str, wrt: tuple[str, ...] = ("x", "y")) -> Any:
    text = PROGRAMS[name]
    last = max(re.findall(r"sym_name = \"(v\d)\"", text))
    return linearize(view, [("F", output) for output in OUTPUTS.get(name, [last])], list(wrt), OPSET)


def applied(view: Any, linear: Any, values: list[Any]) -> list[Any]:
    """Applies the linear map at POINT to `values`. The results of inactive outputs are zeros."""
    wanted = [x for x in linear.outputs if x is not None]
    results = iter(numbers(view, wanted, POINT | dict(zip(linear.keys, values, strict=True))))
    return [np.zeros(3) if x is None else next(results) for x in linear.outputs]


# ---- twice


@pytest.mark.parametrize("name", PROGRAMS)
def test_twice_gives_the_map_back(name: str) -> None:
    rng = np.random.default_rng(0)
    view = view_of(PROGRAMS[name])
    linear = linear_of(view, name)
    once = linear_transpose(view, linear, OPSET)
    twice = linear_transpose(view, once, OPSET)
    assert once.input_of == linear.output_of
    assert once.output_of == linear.input_of
    assert twice.input_of == linear.input_of
    assert twice.output_of == linear.output_of
    assert not {*linear.keys} & {*twice.keys}
    dx = [rng.standard_normal(3) for _ in linear.keys]
    ct = [rng.standard_normal(3) for _ in once.keys]
    dy = applied(view, linear, dx)
    compare(applied(view, twice, dx), dy)
    cx = applied(view, once, ct)
    compare(
        [np.vdot(np.concatenate(ct), np.concatenate(dy))], [np.vdot(np.concatenate(cx), np.concatenate(dx))]
    )


@pytest.mark.parametrize("name", ["a chain", "shapes"])
@pytest.mark.parametrize("wrt", ["x", "y"])
def test_twice_gives_the_ops_back(name: str, wrt: str) -> None:
    """For programs without sums, transposing twice gives the original lowered text, except for names of inputs."""
    view = view_of(PROGRAMS[name])
    linear = linear_of(view, name, (wrt,))
    twice = linear_transpose(view, linear_transpose(view, linear, OPSET), OPSET)
    one, two = (lowered(view, list(g.outputs), ["x", "y", *g.keys]) for g in (linear, twice))
    assert body(one) == body(two) and body(one)
    assert re.sub(r"\{[^}]*\}", "", one) == re.sub(r"\{[^}]*\}", "", two)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("key", ["x", "y"])
def test_a_part_of_the_map(name: str, key: str) -> None:
    """The transpose with respect to one input equals the corresponding output of the whole transpose.

    It is also the sum of the transposes of the single outputs, and the adjoint of the linear map.
    """
    view = view_of(PROGRAMS[name])
    linear = linear_of(view, name)
    n, wrt = ["x", "y"].index(key), [("F", key)]
    ct = [np.array([0.5, -1.5, 2.0]) * (i + 1) for i in range(len(linear.outputs))]
    whole, part = linear_transpose(view, linear, OPSET), linear_transpose(view, linear, OPSET, wrt=wrt)
    compare(applied(view, part, ct), [applied(view, whole, ct)[n]])
    assert len(part.definitions) <= len(whole.definitions)
    by_output = [linear_transpose(view, linear, OPSET, wrt=wrt, outputs=[y]) for y in linear.output_of]
    terms = [applied(view, each, [c])[0] for each, c in zip(by_output, ct, strict=True)]
    compare([sum(terms)], applied(view, part, ct))
    dx = np.array([1.0, 0.25, -2.0])
    forward = applied(view, linear, [dx if i == n else np.zeros(3) for i in range(2)])
    sides = sum(map(np.dot, ct, forward)), np.dot(applied(view, part, ct)[0], dx)
    np.testing.assert_allclose(*sides, rtol=1e-12)
    again = linear_transpose(view, part, OPSET)
    compare(applied(view, again, [dx]), forward)


def test_a_part_of_a_call() -> None:
    """The transpose of calls with respect to y is right, and computes only the cotangent of y.

    Both arguments of the called function depend on y.
    """
    text = """
    func.func private @f(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> attributes {no_inline} {
      %0 = stablehlo.multiply %x, %y : tensor<3xf64>
      return %0 : tensor<3xf64>
    }
    func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
      %0 = func.call @f(%x, %y) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %1 = func.call @f(%0, %y) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      return %1 : tensor<3xf64>
    }"""
    program = load(text)
    view = program.view
    linear = linearize(view, [program.outputs[0].value], ["x", "y"], OPSET)
    part = linear_transpose(view, linear, OPSET, wrt=[("main", "y")])
    assert part.output_of == (view.input("y"),) and len(part.outputs) == 1
    results = [InputPort("ct", program.outputs[0].type, part.keys[0])]
    outputs = [OutputPort("cy", program.inputs[1].type, part.outputs[0])]
    back = replace(program, inputs=(*program.inputs, *results), outputs=tuple(outputs))
    x, y, ct = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.5, 0.25])
    compare(run(back, [x, y, ct]), [2 * x * y * ct])


def test_a_transposed_graph_can_be_differentiated() -> None:
    """A transposed graph can be linearized with respect to its cotangent; the result is the linear map itself."""
    view = view_of(PROGRAMS["fan-out"])
    back = linear_transpose(view, linear_of(view, "fan-out", ("x",)), OPSET)
    second = linearize(view, list(back.outputs), list(back.keys), OPSET)
    ct, dct = np.array([1.0, 2.0, 3.0]), np.array([0.3, -1.0, 0.7])
    x = POINT["x"]
    wanted = list(second.outputs)
    compare(
        numbers(view, wanted, POINT | {back.keys[0]: ct, second.keys[0]: dct}), [(3 * x * x + 2 * x) * dct]
    )


# ---- outputs and inputs that coincide


def test_seeds_add_up() -> None:
    """The transpose sums the cotangents of two outputs that have one tangent, -dx, and of the output x."""
    view = view_of(function(op("%0 = stablehlo.negate %x"), op("%1 = stablehlo.negate %x"), outputs="%0 %1"))
    linear = linearize(view, [("F", "v0"), ("F", "v1"), ("F", "x")], ["x"], OPSET)
    back = linear_transpose(view, linear, OPSET)
    assert len(set(back.keys)) == 3
    ones = np.ones(3)
    compare(applied(view, back, [ones, 10 * ones, 100 * ones]), [89 * ones])
    second = linear_transpose(view, back, OPSET)
    compare(applied(view, second, [ones]), [-ones, -ones, ones])


def test_one_tangent_returned_twice() -> None:
    """The transpose of a linear graph that returns its input twice sums both cotangents."""
    linear = """
    "tidu.graph"() ({
    ^bb0(%dx: tensor<3xf64>):
      "stablehlo.return"(%dx, %dx) : (tensor<3xf64>, tensor<3xf64>) -> ()
    }) {sym_name = "L", inputs = [@"L.x"], tidu.input_of = [@F::@x], tidu.output_of = [@F::@x, @F::@y],
        tidu.active_outputs = array<i1: true, true>} : () -> ()
    """
    view = view_of(function(outputs="%x %y") + linear)
    back = linear_transpose(view, view.graph("L"), OPSET)
    compare(applied(view, back, [np.full(3, 5.0), np.full(3, 7.0)]), [np.full(3, 12.0)])


def test_inactive_ends_keep_their_places() -> None:
    view = view_of(function(op("%0 = stablehlo.negate %x"), outputs="%0"))
    linear = linearize(view, [("F", "y"), ("F", "v0")], ["x"], OPSET)
    back = linear_transpose(view, linear, OPSET)
    assert list(back.input_of) == view.values([("F", "y"), ("F", "v0")])
    assert len(back.keys) == 2
    compare(applied(view, back, [np.ones(3), np.full(3, 4.0)]), [np.full(3, -4.0)])
    twice = linear_transpose(view, back, OPSET)
    assert [x is not None for x in twice.outputs] == [False, True]


def test_an_input_that_no_output_needs() -> None:
    view = view_of(function(op("%0 = stablehlo.negate %x"), outputs="%0"))
    linear = linearize(view, [("F", "v0")], ["y", "x"], OPSET)
    back = linear_transpose(view, linear, OPSET)
    assert [x is not None for x in back.outputs] == [False, True]


# ---- masks


def test_masks_are_not_needed() -> None:
    """The transpose is right if the masks `tidu.active` are missing, because MLIR's passes may drop them.

    Without masks, all values that depend on an input of the linear graph are active.
    """
    view = view_of(PROGRAMS["fan-out"])
    linear_of(view, "fan-out", ("x",))
    text = str(view.module)
    assert "tidu.active = " in text
    view = view_of(re.sub(r" \{tidu\.active = [^}]*\}", "", text))
    back = linear_transpose(view, view.graph("L0"), OPSET)
    x, ones = POINT["x"], np.ones(3)
    compare(applied(view, back, [ones]), [3 * x * x + 2 * x])


def test_masks_of_another_graph_are_plain_attributes() -> None:
    """The transpose of a second-order linear graph treats the first-order tangent as a coefficient.

    It ignores the masks of ops of the first-order graph, which say that this tangent is active.
    """
    view = view_of(EXP_AX)
    one = linearize(view, [("F0", "p3")], ["x"], OPSET)
    two = linearize(view, list(one.outputs), ["x"], OPSET)
    back = linear_transpose(view, two, OPSET)
    a, x = 0.7, 1.3
    point = {"a": a, "x": x, one.keys[0]: 2.0, back.keys[0]: 3.0}
    compare(numbers(view, list(back.outputs), point), [6 * a * a * np.exp(a * x)])


# ---- refusals


def test_a_primal_graph() -> None:
    view = view_of(EXP_AX)
    with pytest.raises(RequestError) as error:
        linear_transpose(view, view.graph("F0"), OPSET)
    assert str(error.value) == "-:1:1: error: graph @F0 is not linear"


def test_a_product_of_two_tangents() -> None:
    linear = """
    "tidu.graph"() ({
    ^bb0(%dx: tensor<3xf64>):
      %0 = stablehlo.multiply %dx, %dx {tidu.active = array<i1: true, true>} : tensor<3xf64>
      "stablehlo.return"(%0) : (tensor<3xf64>) -> ()
    }) {sym_name = "L", inputs = [@"L.x"], tidu.input_of = [@F::@x], tidu.output_of = [@F::@x],
        tidu.active_outputs = array<i1: true>} : () -> ()
    """
    view = view_of(function(outputs="%x %y") + linear)
    before = str(view.module)
    with pytest.raises(Unsupported) as error:
        linear_transpose(view, view.graph("L"), OPSET)
    assert "unsupported transpose AD rule for stablehlo.multiply" in str(error.value)
    assert "a product of two active values is not linear" in str(error.value)
    assert re.match(r"-:\d+:\d+: error", str(error.value))
    assert str(view.module) == before  # a refused transpose adds no graph to the view


def test_a_closed_graph_stays_as_it_is() -> None:
    """Transposing a closed graph with respect to different inputs does not change the graph.

    With respect to x, the product below has one active operand. With respect to both inputs, it is refused.
    """
    text = function(op("%0 = stablehlo.multiply %x, %y"), op("%1 = stablehlo.negate %0"), outputs="%1")
    view = view_of(text)
    closed = view.graph("F")
    x, y = closed.inputs.values()
    given = [(op.active, op.operands, op.results) for op in closed.definitions]
    transposed = stage(transpose_closed)(view, closed, [x], closed.outputs, opset=OPSET)
    assert [value is not None for value in transposed.outputs] == [True]
    with pytest.raises(Unsupported, match="a product of two active values is not linear"):
        stage(transpose_closed)(view, closed, [x, y], closed.outputs, opset=OPSET)
    assert [(op.active, op.operands, op.results) for op in closed.definitions] == given
    assert all(active is None for active, *_ in given)


@pytest.mark.parametrize("name", ["exponential", "sine"])
def test_an_op_that_is_not_linear(name: str) -> None:
    linear = f"""
    "tidu.graph"() ({{
    ^bb0(%dx: tensor<3xf64>):
      %0 = stablehlo.{name} %dx {{tidu.active = array<i1: true>}} : tensor<3xf64>
      "stablehlo.return"(%0) : (tensor<3xf64>) -> ()
    }}) {{sym_name = "L", inputs = [@"L.x"], tidu.input_of = [@F::@x], tidu.output_of = [@F::@x],
        tidu.active_outputs = array<i1: true>}} : () -> ()
    """
    view = view_of(function(outputs="%x %y") + linear)
    with pytest.raises(Unsupported, match=f"unsupported transpose AD rule for stablehlo.{name}"):
        linear_transpose(view, view.graph("L"), OPSET)


def test_an_op_set_without_the_rule() -> None:
    bare = replace(OPSET, transpose_rules={})
    view = view_of(PROGRAMS["a chain"])
    with pytest.raises(Unsupported, match="unsupported transpose AD rule for stablehlo.negate"):
        linear_transpose(view, linear_of(view, "a chain"), bare)
    assert linear_transpose(view, view.graph("L0"), OPSET).name.startswith("T")


def test_rules_are_called_only_for_ops_with_cotangents() -> None:
    """Ops that affect no output need no transpose rule: here, the exponential has none."""
    bare = replace(OPSET, transpose_rules={"stablehlo.negate": OPSET.transpose_rules["stablehlo.negate"]})
    linear = """
    "tidu.graph"() ({
    ^bb0(%dx: tensor<3xf64>):
      %0 = stablehlo.negate %dx {tidu.active = array<i1: true>} : tensor<3xf64>
      %1 = stablehlo.exponential %0 {tidu.active = array<i1: true>} : tensor<3xf64>
      "stablehlo.return"(%0) : (tensor<3xf64>) -> ()
    }) {sym_name = "L", inputs = [@"L.x"], tidu.input_of = [@F::@x], tidu.output_of = [@F::@x],
        tidu.active_outputs = array<i1: true>} : () -> ()
    """
    view = view_of(function(outputs="%x %y") + linear)
    compare(applied(view, linear_transpose(view, view.graph("L"), bare), [np.ones(3)]), [-np.ones(3)])


def test_locations_of_transposed_ops() -> None:
    view = view_of(EXP_AX)
    linear_transpose(view, linearize(view, [("F0", "p3")], ["x"], OPSET), OPSET)
    text = view.module.operation.get_asm(enable_debug_info=True)
    transposed = text.split('sym_name = "L0"')[1]
    lines = [line for line in transposed.splitlines() if "stablehlo.multiply" in line]
    assert lines and not [line for line in lines if "loc(unknown)" in line or "loc(" not in line]


EMPTY = {
    "reduce_window": (
        "tensor<3x0xf32>",
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
        %y = "stablehlo.reduce_window"(%x, %z) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) {padding = dense<[[1, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 1>}
          : (tensor<3x0xf32>, tensor<f32>) -> tensor<4x2xf32>""",
    ),
    "convolution": (
        "tensor<1x2x0xf32>",
        """%k = stablehlo.constant dense<1.0> : tensor<0x2x1xf32>
        %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[i, 0, o]->[b, 0, f], window = {}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x2x0xf32>, tensor<0x2x1xf32>) -> tensor<1x1x1xf32>""",
    ),
    "all_gather": (
        "tensor<2x0xf32>",
        """%y = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64,
          replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2x0xf32>) -> tensor<4x0xf32>""",
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_cotangents_of_empty_arrays_are_symbolic_zeros(name: str) -> None:
    """The graphs of a VJP are valid if the cotangent of an empty array is zero.

    Such a cotangent must be a symbolic zero, because a constant would not be a valid output of a linear graph.
    """
    operand, op_ = EMPTY[name]
    result = op_.rpartition("-> ")[2]
    text = f"func.func @main(%x: {operand}) -> {result} {{\n{op_}\nreturn %y : {result}\n}}"
    parse(str(load(text).vjp().graphs))
