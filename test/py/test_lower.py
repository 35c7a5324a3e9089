"""Tests `lower`, which emits StableHLO without graphs and masks, and without ops that could be simplified."""

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import EXP_AX, F64, V, body, function, lowered, view_of

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse, run_passes
from tiduc.loading import load
from tiduc.passes.linearize import linearize
from tiduc.passes.lower.lower import lower
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.resolve import resolve
from tiduc.passes.rules import OPSET
from tiduc.passes.structure.structure import structure

M, C = "tensor<3x3xf64>", "tensor<3xcomplex<f64>>"
CONJUGATE = "chlo.conj"
"""The only CHLO op in lowered derivatives. StableHLO has no conjugate, and a single op is easier to simplify."""
ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<f64>"


def reduced(result: str, x: str, op: str = "add", type_: str = V, dims: str = "0") -> str:
    return (
        f"{result} = stablehlo.reduce({x} init: %zero) applies stablehlo.{op} across dimensions = [{dims}] : "
        f"({type_}, tensor<f64>) -> tensor<f64>"
    )


PROGRAMS = {
    "identity": function(output=f"%x: {V}"),
    "x - 1": function(
        f"%one = stablehlo.constant dense<1.0> : {V}", f"%y = stablehlo.subtract %x, %one : {V}"
    ),
    "double negation": function(f"%0 = stablehlo.negate %x : {V}", f"%y = stablehlo.negate %0 : {V}"),
    "logistic": function(f"%y = stablehlo.logistic %x : {V}"),
    "tanh of a product": function(
        f"%0 = stablehlo.multiply %x, %w : {V}", f"%y = stablehlo.tanh %0 : {V}", inputs=f"x: {V}; w: {V}"
    ),
    "quotient": function(f"%y = stablehlo.divide %x, %w : {V}", inputs=f"x: {V}; w: {V}"),
    "power": function(f"%two = stablehlo.constant dense<2.0> : {V}", f"%y = stablehlo.power %x, %two : {V}"),
    "relu": function(
        f"%none = stablehlo.constant dense<0.0> : {V}", f"%y = stablehlo.maximum %x, %none : {V}"
    ),
    "sum": function(ZERO, reduced("%y", "%x"), output="%y: tensor<f64>"),
    "maximum of all": function(
        "%zero = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>",
        reduced("%y", "%x", "maximum"),
        output="%y: tensor<f64>",
    ),
    "softmax": function(
        ZERO,
        f"%e = stablehlo.exponential %x : {V}",
        reduced("%s", "%e"),
        f"%b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f64>) -> {V}",
        f"%y = stablehlo.divide %e, %b : {V}",
    ),
    "matrix product": function(
        f"%y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({M}, {M}) -> {M}",
        inputs=f"a: {M}; b: {M}",
        output=f"%y: {M}",
    ),
    "transposed product": function(
        f"%t = stablehlo.transpose %a, dims = [1, 0] : ({M}) -> {M}",
        f"%y = stablehlo.dot_general %t, %b, contracting_dims = [1] x [0] : ({M}, {M}) -> {M}",
        inputs=f"a: {M}; b: {M}",
        output=f"%y: {M}",
    ),
    "a layer": function(
        ZERO,
        f"%d = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : ({V}, {M}) -> {V}",
        f"%s = stablehlo.add %d, %b : {V}",
        f"%t = stablehlo.tanh %s : {V}",
        f"%q = stablehlo.multiply %t, %t : {V}",
        reduced("%y", "%q"),
        inputs=f"x: {V}; w: {M}; b: {V}",
        output="%y: tensor<f64>",
    ),
    "shapes": function(
        "%r = stablehlo.reshape %x : (tensor<3xf64>) -> tensor<3x1xf64>",
        f"%b = stablehlo.broadcast_in_dim %r, dims = [0, 1] : (tensor<3x1xf64>) -> {M}",
        f"%y = stablehlo.transpose %b, dims = [1, 0] : ({M}) -> {M}",
        output=f"%y: {M}",
    ),
    "slices": function(
        "%a = stablehlo.slice %x [0:2] : (tensor<3xf64>) -> tensor<2xf64>",
        "%b = stablehlo.slice %x [1:3] : (tensor<3xf64>) -> tensor<2xf64>",
        "%y = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf64>, tensor<2xf64>) -> tensor<4xf64>",
        output="%y: tensor<4xf64>",
    ),
    "select": function(
        f"%p = stablehlo.compare GT, %x, %w : ({V}, {V}) -> tensor<3xi1>",
        f"%y = stablehlo.select %p, %x, %w : tensor<3xi1>, {V}",
        inputs=f"x: {V}; w: {V}",
    ),
    "complex product": function(
        f"%y = stablehlo.multiply %a, %b : {C}", inputs=f"a: {C}; b: {C}", output=f"%y: {C}"
    ),
    "real part": function(f"%y = stablehlo.real %a : ({C}) -> {V}", inputs=f"a: {C}", output=f"%y: {V}"),
}


def derivatives(text: str) -> dict[str, Any]:
    p = load(text)
    first = {"jvp": p.jvp(), "vjp": p.vjp()}
    second = {f"{name}.{more}": getattr(q, more)() for name, q in first.items() for more in ("jvp", "vjp")}
    return first | second


def constants(text: str) -> dict[str, str]:
    return dict(re.findall(r"(%\w+) = stablehlo.constant dense<(.*?)> :", text))


def leftovers(text: str) -> list[str]:
    """The lines of a program that could be simplified: neutral operands, double negations, and ops without effect."""
    number = constants(text)
    one = {x for x, v in number.items() if v in ("1.000000e+00", "(1.000000e+00,0.000000e+00)")}
    zero = {x for x, v in number.items() if v in ("0.000000e+00", "(0.000000e+00,0.000000e+00)")}
    negated = set(re.findall(r"(%\w+) = stablehlo.negate ", text))
    lines = []
    for line in text.splitlines():
        match = re.match(r"\s*%\w+ = stablehlo\.(\w+) (.*?)( :.*)?$", line)
        if not match:
            continue
        op, operands, types = match[1], re.findall(r"%\w+", match[2]), match[3] or ""
        source, _, result = types.removeprefix(" : (").partition(") -> ")
        bad = (
            (op == "multiply" and one & {*operands})
            or (op in ("add", "subtract") and zero & {*operands[op == "subtract" :]})
            or (op == "divide" and operands[1] in one)
            or (op == "negate" and operands[0] in negated)
            or (op == "broadcast_in_dim" and operands[0] in number)
            or (op in ("transpose", "reshape", "convert") and source == result)
            and (op != "transpose" or re.search(r"dims = \[0(, 1)*\]", line))
            or op in ("external", "name")
        )
        if bad:
            lines.append(line.strip())
    return lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_left_to_simplify(name: str) -> None:
    for mode, p in derivatives(PROGRAMS[name]).items():
        text = str(p)
        assert not leftovers(text), mode
        assert "tidu.active" not in text and "tidu.graph" not in text
        has_conjugates = name == "complex product" and "vjp" in mode
        assert set(re.findall(r"chlo\.\w+", text)) == ({CONJUGATE} if has_conjugates else set())


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_passes_find_nothing(name: str) -> None:
    """MLIR's passes `cse` (which also removes dead ops) and `canonicalize` do not change a lowered derivative."""
    for mode, p in derivatives(PROGRAMS[name]).items():
        before = str(p)
        module = parse(before)
        run_passes(module.operation, "builtin.module(func.func(cse,canonicalize,cse))")
        assert str(module) == before, mode


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowering_again_changes_nothing(name: str) -> None:
    for mode, p in derivatives(PROGRAMS[name]).items():
        assert str(load(str(p))) == str(p), mode


def test_the_detector_sees() -> None:
    """`leftovers` finds each kind of line that could be simplified, and no other line."""
    text = """
    %one = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %a = stablehlo.multiply %x, %one : tensor<f64>
    %b = stablehlo.add %zero, %x : tensor<f64>
    %c = stablehlo.subtract %x, %zero : tensor<f64>
    %d = stablehlo.negate %x : tensor<f64>
    %e = stablehlo.negate %d : tensor<f64>
    %f = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %g = stablehlo.reshape %x : (tensor<2xf64>) -> tensor<2xf64>
    %h = stablehlo.transpose %x, dims = [0, 1] : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %i = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %j = stablehlo.subtract %zero, %x : tensor<f64>
    %k = stablehlo.reshape %x : (tensor<2xf64>) -> tensor<2x1xf64>
    %l = stablehlo.divide %x, %one : tensor<f64>
    """
    assert [line[1] for line in leftovers(text)] == list("abcefghl")


# ---- dead ops


def test_no_dead_tangent_sweep() -> None:
    """Both the VJP and the JVP of two nested sines have exactly two sines, two cosines and two products."""
    text = function(f"%0 = stablehlo.sine %x : {V}", f"%y = stablehlo.sine %0 : {V}")
    ops = body(str(load(text).vjp()))
    assert sorted(ops) == sorted(["sine", "sine", "cosine", "cosine", "multiply", "multiply"])
    assert sorted(body(str(load(text).jvp()))) == sorted(ops)


def test_a_linear_program_costs_nothing() -> None:
    """The gradient of w . x with respect to w needs no ops, because it is x itself."""
    text = function(
        ZERO,
        f"%p = stablehlo.multiply %x, %w : {V}",
        reduced("%y", "%p"),
        inputs=f"x: {V}; w: {V}",
        output="%y: tensor<f64>",
    )
    assert body(str(load(text).grad(1))) == []
    compare(run(load(text).grad(1), [np.arange(3.0), np.ones(3)]), [np.arange(3.0)])


def test_masks_are_dropped_and_equal_ops_merge() -> None:
    """Lowering drops the masks of tangents, so that equal ops of the first and second derivative merge.

    One exponential remains.
    """
    view = view_of(EXP_AX)
    one = linearize(view, [("F0", "p3")], ["x"], OPSET)
    two = linearize(view, list(one.outputs), list(one.keys), OPSET)
    point = ["a", "x", *one.keys, *two.keys]
    assert body(lowered(view, [*one.outputs, *two.outputs], point)).count("exponential") == 1


# ---- the output


def test_attributes_and_name() -> None:
    flat = materialize_merge(view_of(EXP_AX), [("F0", "p3")], ["x", "a"], OPSET, name="f")
    text = str(lower(flat))
    assert "func.func @f(%arg0: tensor<f64>, %arg1: tensor<f64>) -> tensor<f64>" in text
    assert str(lower(flat)) == text  # lowering did not change the graph
    parse(text)


def test_a_graph_that_is_not_flat() -> None:
    view = view_of(EXP_AX)
    linear = linearize(view, [("F0", "p3")], ["x"], OPSET)
    with pytest.raises(RequestError, match="graph @L0 refers to .*: run tidu-materialize-merge first"):
        lower(linear)
    view = resolve(parse(str(view.module)))
    with pytest.raises(RequestError, match="run tidu-materialize-merge first"):
        lower(view.graph("L0"))


NATIVE = "builtin.module(func.func(stablehlo-aggressive-simplification))"
NOTHING_REDUCED = function(
    "%two = stablehlo.constant dense<2.0> : tensor<f64>",
    f"%y = stablehlo.reduce(%x init: %two) applies stablehlo.add across dimensions = [] : ({V}, {F64}) -> {V}",
)
QUANTIZED = function(
    '%c = "stablehlo.constant"() <{value = dense<0> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 0.1:5>>',
    "%y = stablehlo.add %x, %c : tensor<!quant.uniform<i8:f32, 0.1:5>>",
    inputs="x: tensor<!quant.uniform<i8:f32, 0.1:5>>",
    output="%y: tensor<!quant.uniform<i8:f32, 0.1:5>>",
)


@pytest.mark.parametrize("text", [NOTHING_REDUCED, QUANTIZED])
def test_constants_that_stablehlo_misreads(text: str) -> None:
    """tiduc keeps the constants of these sums. StableHLO's simplification wrongly replaces the sums by x."""
    module = parse(text)
    run_passes(module.operation, NATIVE)
    assert body(str(module)) == []
    assert body(str(load(text)))[:1] == ["constant"]


def test_stablehlo_dies_of_slices_from_the_end_of_concatenations() -> None:
    none = "tensor<0xf64>"
    joined = f"%0 = stablehlo.concatenate %x, %e, dim = 0 : ({V}, {none}) -> {V}"
    part = f"%y = stablehlo.slice %0 [3:3] : ({V}) -> {none}"
    text = function(joined, part, inputs=f"x: {V}; e: {none}", output=f"%y: {none}")
    script = f"from tiduc.dialect.mlir.context import *; run_passes(parse({text!r}).operation, {NATIVE!r})"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode < 0
    assert body(str(load(text).jvp()))  # tiduc does not crash


def test_numbers_survive() -> None:
    """The values of each lowered JVP equal the primal values, and its tangents equal central differences."""
    rng = np.random.default_rng(0)
    for text in PROGRAMS.values():
        p = load(text)
        shapes = [(port.type.shape, "complex" in str(port.type)) for port in p.inputs]
        point = [
            rng.uniform(0.5, 1.5, shape) + (1j * rng.standard_normal(shape) if is_complex else 0)
            for shape, is_complex in shapes
        ]
        y = run(p, point)
        dx = [rng.standard_normal(x.shape) + 0 * x for x in point]
        step = 1e-6
        near = [run(p, [x + s * step * v for x, v in zip(point, dx, strict=True)])[0] for s in (1, -1)]
        compare(run(p.jvp(), [*point, *dx])[: len(y)], y)
        compare(run(p.jvp(), [*point, *dx])[len(y) :], [(near[0] - near[1]) / (2 * step)], 1e-6)


def test_sums_of_one_kind_have_locations_of_their_own() -> None:
    """Two reductions with equal regions keep different locations in the VJP, and their values are right."""
    spread = 'stablehlo.broadcast_in_dim {}, dims = [] : (tensor<f64>) -> {} loc("{}")'
    lines = [f"%{i} = {spread.format(f'%{x}', V, x)}" for i, x in enumerate("xw")]
    text = function(*lines, f"%y = stablehlo.multiply %0, %1 : {V}", inputs="x: tensor<f64>; w: tensor<f64>")
    p = load(text).vjp()
    block = p.module.body.operations[0].regions[0].blocks[0]
    sums = [op for op in block.operations if op.operation.name == "stablehlo.reduce"]
    assert sorted(str(op.operation.location) for op in sums) == ['loc("w")', 'loc("x")']
    compare(run(p, [2.0, 3.0, np.array([1.0, 2.0, 4.0])])[1:], [21.0, 14.0])


def test_ops_beside_calls_stay_as_they_are() -> None:
    """`structure` replaces calls in a merged graph, and reuses the op objects that depend on no call."""
    half = (
        "func.func private @half(%x: tensor<f64>) -> tensor<f64> attributes {no_inline} {\n"
        "%0 = stablehlo.tanh %x : tensor<f64>\n"
        "%1 = stablehlo.cosine %0 : tensor<f64>\n return %1 : tensor<f64> }"
    )
    lines = (
        "%0 = call @half(%x) : (tensor<f64>) -> tensor<f64>",
        "%1 = call @half(%0) : (tensor<f64>) -> tensor<f64>",
        "%2 = stablehlo.sine %x : tensor<f64>",
        "%y = stablehlo.multiply %1, %2 : tensor<f64>",
    )
    p = load(half + function(*lines, inputs="x: tensor<f64>", output="%y: tensor<f64>"))
    flat, structured = p.merged, structure(p.view, p.merged, OPSET)
    assert [op.name for op in flat.definitions].count("tidu.call") == 2
    kept = [op for op in structured.definitions if any(op is other for other in flat.definitions)]
    assert [op.name for op in kept] == ["stablehlo.sine"]
    assert (
        list(structured.inputs.values()) == list(flat.inputs.values()) and structured.outputs == flat.outputs
    )
