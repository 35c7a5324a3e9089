"""Tests `linearize`: linear graphs refer to values of other graphs, have symbolic zeros, and exist for any order."""

import itertools
from typing import Any

import numpy as np
import pytest
from harness.compare import compare
from harness.stages import EXP_AX, F64, external, graph, named, numbers, reference, view_of

from tiduc.dialect.errors import RequestError, ResolveError, TiducError, Unsupported
from tiduc.loading import load
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET


def text_of(view: Any, name: str) -> str:
    """The text of the graph with this name in the view's module."""
    blocks = str(view.module).split('"tidu.graph"()')
    return next(block.strip(" }\n") for block in blocks if f'sym_name = "{name}"' in block)


def linear_ops(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "tidu.active = " in line]


# ---- its result


def test_worked_example() -> None:
    view = view_of(EXP_AX)
    primal = text_of(view, "F0")
    linear = linearize(view, [("F0", "p3")], ["x"], OPSET)
    assert (linear.name, linear.linear, list(linear.keys)) == ("L0", True, ["L0.x"])
    text = text_of(view, "L0")
    assert [line.split(" = ")[1].split()[0] for line in linear_ops(text)] == ["stablehlo.multiply"] * 2
    assert text.count("tidu.external") == 2 and "@F0::@a" in text and "@F0::@p3" in text
    assert "tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p3]" in text
    assert text_of(view, "F0") == primal  # the value that L0 reads already has a name, so F0 does not change


def test_residuals_are_primal() -> None:
    """In the linear graph of sin x, the cosine is a primal op, and only the product with the tangent is linear."""
    view = view_of(graph("F", ["x"], f"%0 = stablehlo.sine %x : {F64}\n" + named("%0", "y"), ["%0"]))
    linearize(view, [("F", "y")], ["x"], OPSET)
    (cosine,) = (line for line in text_of(view, "L0").splitlines() if "cosine" in line)
    assert "tidu.active" not in cosine
    assert len(linear_ops(text_of(view, "L0"))) == 1


def test_names_and_fresh_ones() -> None:
    view = view_of(EXP_AX)
    assert linearize(view, [("F0", "p3")], ["x"], OPSET, name="mine").keys == ("mine.x",)
    names = [linearize(view, [("F0", "p3")], ["x"], OPSET).name for _ in range(3)]
    assert names == ["L0", "L1", "L2"]
    with pytest.raises(TiducError):
        linearize(view, [("F0", "p3")], ["x"], OPSET, name="mine")


def test_only_ops_that_outputs_need_are_visited() -> None:
    """An op without a JVP rule causes an error only if a tangent reaches it and a requested output depends on it."""
    body = (
        f"%0 = stablehlo.exponential %x : {F64}\n"
        + named("%0", "e")
        + f'%1 = "stablehlo.custom_call"(%x) {{call_target_name = "f"}} : ({F64}) -> {F64}\n'
        + named("%1", "c")
        + f"%2 = stablehlo.multiply %1, %y : {F64}\n"
        + named("%2", "p")
    )
    view = view_of(graph("F", ["x", "y"], body, ["%0", "%1", "%2"]))
    assert len(linear_ops(text_of(view, linearize(view, [("F", "e")], ["x"], OPSET).name))) == 1
    assert len(linear_ops(text_of(view, linearize(view, [("F", "p")], ["y"], OPSET).name))) == 1
    before = str(view.module)
    with pytest.raises(Unsupported) as error:
        linearize(view, [("F", "p")], ["x"], OPSET)
    assert "unsupported jvp AD rule for stablehlo.custom_call: unknown call target" in str(error.value)
    assert str(error.value).startswith("-:") and str(view.module) == before


def test_outputs_keep_their_places() -> None:
    body = f"%0 = stablehlo.negate %x : {F64}\n" + named("%0", "n")
    body += f"%1 = stablehlo.negate %y : {F64}\n" + named("%1", "m")
    view = view_of(graph("F", ["x", "y"], body, ["%0", "%1"]))
    linear = linearize(view, [("F", "m"), ("F", "n"), ("F", "y"), ("F", "x")], ["x"], OPSET)
    assert [x is not None for x in linear.outputs] == [False, True, False, True]
    text = text_of(view, "L0")
    assert "tidu.active_outputs = array<i1: false, true, false, true>" in text
    assert "tidu.output_of = [@F::@m, @F::@n, @F::@y, @F::@x]" in text


@pytest.mark.parametrize(("outputs", "wrt"), [([], ["x"]), ([("F0", "p3")], []), ([], [])])
def test_nothing_asked_for(outputs: list[Any], wrt: list[str]) -> None:
    view = view_of(EXP_AX)
    linear = linearize(view, outputs, wrt, OPSET)
    assert linear.linear and len(linear.keys) == len(wrt)
    assert list(linear.outputs) == [None] * len(outputs)
    back = linear_transpose(view, linear, OPSET)
    assert len(back.keys) == len(outputs) and list(back.outputs) == [None] * len(wrt)
    assert view_of(str(view.module)).graph("L0").linear


def test_an_unused_input_has_a_tangent() -> None:
    view = view_of(EXP_AX, graph("G", ["u"], "", ["%u"]))
    linear = linearize(view, [("F0", "p3")], ["u", "x"], OPSET)
    assert list(linear.keys) == ["L0.u", "L0.x"]
    back = linear_transpose(view, linear, OPSET)
    assert [x is not None for x in back.outputs] == [False, True]


# ---- values without tangents

MIXED = """
"tidu.graph"() ({
^bb0(%x: tensor<3xf64>, %i: tensor<3xi32>, %b: tensor<3xi1>):
  %0 = stablehlo.convert %x : (tensor<3xf64>) -> tensor<3xi32>
  %1 = stablehlo.add %0, %i : tensor<3xi32>
  %2 = stablehlo.convert %1 : (tensor<3xi32>) -> tensor<3xf64>
  %3 = stablehlo.select %b, %x, %2 : tensor<3xi1>, tensor<3xf64>
  %4 = stablehlo.compare LT, %x, %2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  "tidu.name"(%1) {sym_name = "count"} : (tensor<3xi32>) -> ()
  "tidu.name"(%2) {sym_name = "floored"} : (tensor<3xf64>) -> ()
  "tidu.name"(%3) {sym_name = "chosen"} : (tensor<3xf64>) -> ()
  "tidu.name"(%4) {sym_name = "less"} : (tensor<3xi1>) -> ()
  "stablehlo.return"(%3) : (tensor<3xf64>) -> ()
}) {sym_name = "F", inputs = [@x, @i, @b]} : () -> ()
"""


@pytest.mark.parametrize(
    ("outputs", "wrt", "message"),
    [
        (["chosen"], ["i"], "@i has no tangent: its type is tensor<3xi32>"),
        (["chosen"], ["b"], "@b has no tangent: its type is tensor<3xi1>"),
        (["count"], ["x"], "@F::@count has no tangent: its type is tensor<3xi32>"),
        (["chosen", "less"], ["x"], "@F::@less has no tangent: its type is tensor<3xi1>"),
    ],
)
def test_integers_have_no_tangent(outputs: list[str], wrt: list[str], message: str) -> None:
    view = view_of(MIXED)
    with pytest.raises(RequestError) as error:
        linearize(view, [("F", name) for name in outputs], wrt, OPSET)
    assert message in str(error.value)


def test_no_tangent_passes_through_integers() -> None:
    view = view_of(MIXED)
    linear = linearize(view, [("F", "floored"), ("F", "chosen")], ["x"], OPSET)
    floored, chosen = linear.outputs
    assert floored is None
    point = {
        "x": np.array([0.5, 1.5, 2.5]),
        "i": np.array([1, 2, 3], np.int32),
        "b": np.array([True, False, True]),
        linear.keys[0]: np.array([1.0, 10.0, 100.0]),
    }
    compare(numbers(view, [chosen], point), [[1.0, 0.0, 100.0]])


# ---- zeros


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "power", "maximum", "atan2"])
@pytest.mark.parametrize("wrt", ["x", "y"])
def test_no_zeros_in_a_linear_graph(op: str, wrt: str) -> None:
    """The linear graph of a binary op with one inactive operand has no zeros and no additions."""
    body = f"%0 = stablehlo.{op} %x, %y : {F64}\n" + named("%0", "v")
    view = view_of(graph("F", ["x", "y"], body, ["%0"]))
    linearize(view, [("F", "v")], [wrt], OPSET)
    text = text_of(view, "L0")
    assert not [line for line in linear_ops(text) if ".add " in line]
    if op in ("add", "subtract", "multiply"):
        assert "constant" not in text


# ---- any number of graphs, any order


def test_references_through_graphs_and_modules() -> None:
    """The derivative of log(exp(a x)) with respect to x is a, even if both ops are in different graphs and modules."""
    body = external("%e", "@F0::@p3") + f"%0 = stablehlo.log %e : {F64}\n" + named("%0", "l")
    second = graph("F2", ["x"], external("%l", "@F1::@l") + named("%l", "m"), ["%l"])
    view = view_of(EXP_AX, graph("F1", [], body, ["%0"]), second)
    linear = linearize(view, [("F2", "m")], ["x"], OPSET)
    assert "tidu.output_of = [@F1::@l]" in text_of(view, "L0")
    point = {"a": 0.7, "x": 1.3, linear.keys[0]: 1.0}
    compare(numbers(view, list(linear.outputs), point), [0.7])


@pytest.mark.parametrize("mode", ["".join(m) for n in (1, 2, 3) for m in itertools.product("FR", repeat=n)])
@pytest.mark.parametrize("reload", [False, True])
def test_third_order_without_a_merge(mode: str, reload: bool) -> None:
    """The third derivative of exp(a x) in each mode is right if graphs are not merged between the orders.

    The graph of each order refers to values of earlier graphs. If `reload` is set, the module is printed and parsed
    between the orders.
    """
    view, value, key, seeds = view_of(EXP_AX), ("F0", "p3"), "x", {}
    for letter in mode:
        linear = linearize(view, [value], [key], OPSET)
        if letter == "R":
            linear = linear_transpose(view, linear, OPSET)
        seeds[linear.keys[0]] = 1.0
        (result,) = linear.outputs
        if reload:
            value = (linear.name, reference(view, result).split("@")[-1].strip('"'))
            view = view_of(str(view.module))
        else:
            value = result
    a, x = 0.7, 1.3
    compare(numbers(view, [value], {"a": a, "x": x, **seeds}), [a ** len(mode) * np.exp(a * x)])


def test_mixed_derivatives_in_either_order() -> None:
    """The mixed second derivative of exp(a x) is (1 + a x) exp(a x), whichever input comes first."""
    a, x = 0.7, 1.3
    for first, second in ("ax", "xa"):
        view = view_of(EXP_AX)
        one = linearize(view, [("F0", "p3")], [first], OPSET)
        two = linearize(view, list(one.outputs), [second], OPSET)
        point = {"a": a, "x": x, one.keys[0]: 1.0, two.keys[0]: 1.0}
        compare(numbers(view, list(two.outputs), point), [(1 + a * x) * np.exp(a * x)])


def test_derivative_toward_a_tangent() -> None:
    """A linear graph can be linearized with respect to its tangent. The second derivative is a symbolic zero."""
    view = view_of(EXP_AX)
    one = linearize(view, [("F0", "p3")], ["x"], OPSET)
    two = linearize(view, list(one.outputs), [*one.keys], OPSET)
    three = linearize(view, list(two.outputs), [*one.keys], OPSET)
    assert three.outputs == [None]
    point = {"a": 0.7, "x": 1.3, one.keys[0]: 5.0, two.keys[0]: 1.0}
    compare(numbers(view, list(two.outputs), point), [0.7 * np.exp(0.7 * 1.3)])


def test_unknown_references() -> None:
    view = view_of(EXP_AX)
    with pytest.raises(ResolveError, match="unknown graph @F9"):
        linearize(view, [("F9", "p3")], ["x"], OPSET)
    with pytest.raises(ResolveError, match="unknown input @p3"):
        linearize(view, [("F0", "p3")], ["p3"], OPSET)


def test_regions_that_read_active_values() -> None:
    """The JVP of a loop is a loop, whether or not the body captures the active value %x."""
    text = f"""
    func.func @main(%x: {F64}, %n: tensor<i32>) -> {F64} {{
      %one = stablehlo.constant dense<1.0> : {F64}
      %r:2 = stablehlo.while(%i = %n, %a = %one) : tensor<i32>, {F64}
        cond {{
          %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %z = stablehlo.VALUE : {F64}
          stablehlo.return %i, %z : tensor<i32>, {F64}
        }}
      return %r#1 : {F64}
    }}
    """
    for value in ("multiply %a, %x", "multiply %a, %a"):
        program = load(text.replace("VALUE", value)).jvp()
        assert "while" in str(program)
        assert len(program.outputs) == 2


# ---- closed under differentiation

ELEMENTWISE = sorted(name for name, form in OPSET.forms.items() if form == "elementwise")


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_emitted_ops_have_rules(name: str) -> None:
    """Ops that rules emit have rules: three derivatives in forward mode and one in reverse mode succeed."""
    derived = 0
    for count, element in itertools.product((1, 2, 3), ("f64", "complex<f64>")):
        t = f"tensor<2x{element}>"
        arguments = ", ".join(f"%{i}: {t}" for i in range(count))
        operands = ", ".join(f"%{i}" for i in range(count))
        text = f"""func.func @main({arguments}) -> {t} {{
          %y = "{name}"({operands}) : ({", ".join([t] * count)}) -> {t}
          return %y : {t}
        }}"""
        try:
            p = load(text)
        except TiducError:
            continue
        try:
            first = p.jvp()
        except Unsupported:
            continue  # the op itself has no rule for these operands
        first.jvp(0).jvp(0).vjp(0)
        derived += 1
    assert derived
