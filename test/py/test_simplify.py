"""`simplify`: each pattern rewrites its ops, and similar ops are not changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import F64, V, body, function

from tiduc.dialect.facts.identities import IDENTITIES
from tiduc.dialect.facts.matchers import log_add_exp, logistic
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import defined_by, definition, traced
from tiduc.dialect.mlir.context import context, parse
from tiduc.loading import load
from tiduc.passes.lower.simplify import simplify

C = "tensor<3xcomplex<f64>>"


def simplified(*lines: str, **more: str) -> str:
    module = parse(function(*lines, **more))
    simplify(module.operation)
    return str(module)


def constant(name: str, value: str, type_: str = V) -> str:
    return f"%{name} = stablehlo.constant dense<{value}> : {type_}"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([constant("c", "1.0"), f"%y = stablehlo.multiply %x, %c : {V}"], []),
        ([constant("c", "1.0"), f"%y = stablehlo.multiply %c, %x : {V}"], []),
        ([constant("c", "1.0"), f"%y = stablehlo.divide %x, %c : {V}"], []),
        ([constant("c", "0.0"), f"%y = stablehlo.add %x, %c : {V}"], []),
        ([constant("c", "0.0"), f"%y = stablehlo.add %c, %x : {V}"], []),
        ([constant("c", "0.0"), f"%y = stablehlo.subtract %x, %c : {V}"], []),
        ([f"%0 = stablehlo.negate %x : {V}", f"%y = stablehlo.negate %0 : {V}"], []),
        ([f"%0 = stablehlo.negate %x : {V}", f"%y = stablehlo.add %x, %0 : {V}"], ["subtract"]),
        # operands that are not neutral elements remain
        ([constant("c", "1.0"), f"%y = stablehlo.divide %c, %x : {V}"], ["constant", "divide"]),
        ([constant("c", "1.0"), f"%y = stablehlo.add %c, %x : {V}"], ["constant", "add"]),
        (
            [constant("c", "[1.0, 1.0, 2.0]"), f"%y = stablehlo.multiply %c, %x : {V}"],
            ["constant", "multiply"],
        ),
        # products with 0 remain, because x * 0 is NaN if x is not finite
        ([constant("c", "0.0"), f"%y = stablehlo.multiply %c, %x : {V}"], ["constant", "multiply"]),
        ([constant("c", "0x7FF8000000000000"), f"%y = stablehlo.add %c, %x : {V}"], ["constant", "add"]),
    ],
)
def test_simplify(lines: list[str], expected: list[str]) -> None:
    assert body(simplified(*lines)) == expected


def test_simplify_complex_and_small_types() -> None:
    for type_, one in (
        (C, "(1.0, 0.0)"),
        ("tensor<3xbf16>", "1.0"),
        ("tensor<f32>", "1.0"),
        ("tensor<3xi32>", "1"),
    ):
        lines = [constant("c", one, type_), f"%y = stablehlo.multiply %x, %c : {type_}"]
        assert body(simplified(*lines, inputs=f"x: {type_}", output=f"%y: {type_}")) == []
    lines = [constant("c", "(1.0, 1.0)", C), f"%y = stablehlo.multiply %x, %c : {C}"]
    assert body(simplified(*lines, inputs=f"x: {C}", output=f"%y: {C}")) == ["constant", "multiply"]


def test_simplify_in_regions() -> None:
    """Ops in the bodies of reducers are simplified, and the bodies remain valid."""
    text = simplified(
        constant("zero", "0.0", F64),
        f"""%y = "stablehlo.reduce"(%x, %zero) ({{
        ^bb0(%p: {F64}, %q: {F64}):
          %one = stablehlo.constant dense<1.0> : {F64}
          %m = stablehlo.multiply %p, %one : {F64}
          %s = stablehlo.add %m, %q : {F64}
          "stablehlo.return"(%s) : ({F64}) -> ()
        }}) {{dimensions = array<i64: 0>}} : ({V}, {F64}) -> {F64}""",
        output="%y: tensor<f64>",
    )
    assert "multiply" not in text
    compare(run(load(text), [np.arange(3.0)]), [3.0])


# ---- one matcher for graphs and modules ----------------------------------------------------------------------

TWO = f"x: {V}; y: {V}"


def last_in_graph(lines: list[str]) -> tuple[Any, list[Any], Any]:
    """The op of the graph that computes the program's result, the inputs of the graph, and the program."""
    program = load(function(*lines, inputs=TWO, output=f"%r: {V}"))
    graph = program.view.graphs[program.name]
    return graph.outputs[0].definition, list(graph.inputs.values()), program


def last_in_module(lines: list[str]) -> tuple[Any, list[Any], Any]:
    """The MLIR operation that computes the result of a function, the function's arguments, and the module."""
    module = parse(function(*lines, inputs=TWO, output=f"%r: {V}"))
    block = next(iter(module.body.operations)).regions[0].blocks[0]
    return terminator(block).operands[0].owner.operation, list(block.arguments), module


def identity(op: Any) -> Any:
    return IDENTITIES[op.name](op, op.operands)


ONE = constant("c", "1.0")
P0, P = "tensor<i1>", "tensor<3xi1>"
MIXED = constant("p", "[true, false, true]", P)
POWER = f"%0 = stablehlo.exponential %x : {V}"
GAP = [
    f"%0 = stablehlo.subtract %x, %y : {V}",
    f"%1 = stablehlo.abs %0 : {V}",
    f"%2 = stablehlo.negate %1 : {V}",
]
LARGER = [
    *GAP,
    f"%3 = stablehlo.exponential %2 : {V}",
    f"%4 = stablehlo.log_plus_one %3 : {V}",
    f"%5 = stablehlo.maximum %x, %y : {V}",
    f"%r = stablehlo.add %5, %4 : {V}",
]


def conj(x: str, y: str) -> list[str]:
    """The ops that compute the conjugate y of x from its real and imaginary parts, as exporters write it."""
    return [
        f"%{y}re = stablehlo.real %{x} : ({C}) -> {V}",
        f"%{y}im = stablehlo.imag %{x} : ({C}) -> {V}",
        f"%{y}n = stablehlo.negate %{y}im : {V}",
        f"%{y} = stablehlo.complex %{y}re, %{y}n : {C}",
    ]


SIDES = f"x: {C}; c: {C}"


def test_a_conjugate_and_its_transpose_are_one_op_each() -> None:
    once = load(function(*conj("x", "y"), inputs=f"x: {C}", output=f"%y: {C}"))
    assert body(once.jvp().text) == body(once.vjp().text) == ["conj", "conj"]
    twice = load(function(*conj("x", "u"), *conj("u", "y"), inputs=f"x: {C}", output=f"%y: {C}"))
    assert body(twice.jvp().text) == body(twice.vjp().text) == []
    product = load(function(f"%y = stablehlo.multiply %c, %x : {C}", inputs=SIDES, output=f"%y: {C}"))
    back = product.vjp(["x"])
    assert body(back.text) == ["multiply", "conj", "multiply"]
    assert body(back.vjp(["result0.cotangent"]).text) == ["multiply", "conj", "multiply", "multiply"]


def test_other_parts_are_no_conjugate() -> None:
    """Complex numbers from parts of two numbers, swapped parts, or negated real parts are not recognized as
    conjugates.
    """
    re, im = f"%0 = stablehlo.real %x : ({C}) -> {V}", f"%1 = stablehlo.imag %c : ({C}) -> {V}"
    negated = f"%2 = stablehlo.negate %1 : {V}"
    for lines in (
        [re, im, negated, f"%y = stablehlo.complex %0, %2 : {C}"],
        [re, im, f"%y = stablehlo.complex %0, %1 : {C}"],
        [re, im.replace("%c", "%x"), f"%y = stablehlo.complex %1, %0 : {C}"],
        [
            re,
            im.replace("%c", "%x"),
            f"%2 = stablehlo.negate %0 : {V}",
            f"%y = stablehlo.complex %2, %1 : {C}",
        ],
    ):
        assert "complex" in body(load(function(*lines, inputs=SIDES, output=f"%y: {C}")).text)


@pytest.mark.parametrize("last", [last_in_graph, last_in_module])
@pytest.mark.parametrize(
    ("lines", "pattern", "expected"),
    [
        ([ONE, f"%r = stablehlo.multiply %c, %x : {V}"], identity, 0),
        ([ONE, f"%r = stablehlo.add %c, %x : {V}"], identity, None),
        ([constant("p", "true", P0), f"%r = stablehlo.select %p, %x, %y : {P0}, {V}"], identity, 0),
        ([constant("p", "false", P), f"%r = stablehlo.select %p, %x, %y : {P}, {V}"], identity, 1),
        ([MIXED, f"%r = stablehlo.select %p, %y, %y : {P}, {V}"], identity, 1),
        ([MIXED, f"%r = stablehlo.select %p, %x, %y : {P}, {V}"], identity, None),
        ([f"%0 = stablehlo.negate %y : {V}", f"%r = stablehlo.negate %0 : {V}"], identity, 1),
        (
            [f"%0 = stablehlo.negate %y : {V}", f"%r = stablehlo.add %x, %0 : {V}"],
            identity,
            "stablehlo.subtract",
        ),
        (
            [ONE, POWER, f"%1 = stablehlo.add %c, %0 : {V}", f"%r = stablehlo.divide %c, %1 : {V}"],
            logistic,
            0,
        ),
        ([POWER, f"%1 = stablehlo.add %y, %0 : {V}", f"%r = stablehlo.divide %y, %1 : {V}"], logistic, None),
        (LARGER, lambda op: (log_add_exp(op) or (None,) * 3)[1], 1),
    ],
)
def test_a_pattern_matches_records_and_operations(
    last: Callable[[list[str]], tuple[Any, list[Any], Any]],
    lines: list[str],
    pattern: Callable[[Any], Any],
    expected: int | str | None,
) -> None:
    op, inputs, _held = last(lines)
    with context():
        result = pattern(op)
    if isinstance(expected, int):
        assert result == inputs[expected]
    else:
        assert (result and result.name) == expected


@pytest.mark.parametrize("last", [last_in_graph, last_in_module])
def test_the_defining_op_of_a_value(last: Callable[[list[str]], tuple[Any, list[Any], Any]]) -> None:
    op, inputs, _held = last(
        [f"%0 = stablehlo.reshape %x : ({V}) -> {V}", f"%r = stablehlo.reshape %0 : ({V}) -> {V}"]
    )
    assert definition(inputs[0]) is None
    assert definition(op.result) == op
    assert defined_by(op.result, "stablehlo.negate", "stablehlo.reshape") == op
    assert defined_by(op.result, "stablehlo.negate") is None
    assert list(traced(op.result, ("stablehlo.reshape",))) == [op.result, op.operands[0], inputs[0]]
