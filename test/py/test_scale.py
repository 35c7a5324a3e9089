"""Every stage takes linear time and does not recurse: deep chains, diamonds with equal keys, and chains of graphs."""

from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import F64, external, graph, named, numbers, view_of

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.opt import run_pipeline
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.lower.lower import lower
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.resolve import check
from tiduc.passes.rules import OPSET

DEPTHS = [1_200, pytest.param(20_000, marks=pytest.mark.slow)]
"""1.2 and 20 times the limit of Python's recursion. At the larger depth, quadratic algorithms would take minutes."""

deep = pytest.mark.parametrize("depth", DEPTHS)


def lines(op: str, depth: int, prefix: str = "v") -> tuple[list[str], str]:
    """The text of `depth` ops, each of which applies the op to the previous value (twice, if it is binary), and the
    name of the last value.
    """
    ops, x = [], "%x"
    for i in range(depth):
        operands = x if op in ("sine", "negate") else f"{x}, {x}"
        ops.append(f"%{prefix}{i} = stablehlo.{op} {operands} : {F64}")
        x = f"%{prefix}{i}"
    return ops, x


def function(op: str, depth: int, copies: int = 1) -> str:
    """The text of a function with `copies` equal chains of ops. It returns the last value of each chain."""
    parts = [lines(op, depth, f"c{i}v") for i in range(copies)]
    inside = "\n".join(line for part, _ in parts for line in part)
    types = ", ".join([F64] * copies)
    values = ", ".join(x for _, x in parts)
    return f"func.func @main(%x: {F64}) -> ({types}) {{\n{inside}\nreturn {values} : {types}\n}}"


def count(text: str, op: str) -> int:
    return text.count(f" = stablehlo.{op} ")


# ---- chains


@pytest.mark.parametrize("depth", [1_200, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_chain(depth: int) -> None:
    """In the derivatives of a chain of sines, in both modes, each sine has one cosine and one product."""
    p = load(function("sine", depth))
    for text in (str(p.jvp()), str(p.vjp())):
        assert [count(text, op) for op in ("sine", "cosine", "multiply")] == [depth] * 3


def test_a_chain_in_numbers() -> None:
    p, x, dx = load(function("sine", 1000)), 0.7, 1.0
    for _ in range(1000):
        x, dx = np.sin(x), np.cos(x) * dx
    compare(run(p.jvp(), [0.7, 1.0]), [x, dx])
    compare(run(p.vjp(), [0.7, 1.0]), [x, dx])


@pytest.mark.parametrize("modes", ["FF", "FR", "RF", "RR"])
def test_second_order(modes: str) -> None:
    depth = 1_200
    p = load(function("sine", depth))
    for mode in modes:
        p = p.jvp("arg0") if mode == "F" else p.vjp("arg0")
    assert [count(str(p), op) for op in ("sine", "cosine")] == [depth, depth]


@deep
def test_a_chain_as_passes(depth: int) -> None:
    """The derivative of a long chain can be computed by MLIR passes, each of which reads, verifies and writes the whole
    module.
    """
    module = parse(function("sine", depth))
    run_pipeline(module, "tidu-import,tidu-linearize,tidu-linear-transpose,tidu-materialize-merge,tidu-lower")
    assert count(str(module), "multiply") == depth


def test_nested_selects() -> None:
    """The gradient of log(2x) behind 1,200 selects is right.

    The transpose accumulates the nested masks of the selects.
    """
    depth = 1_200
    body = [f"%z = stablehlo.constant dense<0.0> : {F64}", f"%two = stablehlo.add %x, %x : {F64}"]
    body += [f"%log = stablehlo.log %two : {F64}", f"%v0 = stablehlo.add %log, %log : {F64}"]
    for i in range(depth):
        body += [f"%c{i} = stablehlo.constant dense<{i}.0> : {F64}"]
        body += [f"%p{i} = stablehlo.compare GT, %a, %c{i} : ({F64}, {F64}) -> tensor<i1>"]
        body += [f"%v{i + 1} = stablehlo.select %p{i}, %v{i}, %z : tensor<i1>, {F64}"]
    lines = "\n".join(body)
    p = load(f"func.func @main(%x: {F64}, %a: {F64}) -> {F64} {{\n{lines}\nreturn %v{depth} : {F64}\n}}")
    for x, a, slope in ((0.5, 2e3, 4.0), (0.0, 2.0, 0.0)):
        compare(run(p.vjp("x"), [x, a, 1.0])[-1:], [slope])


# ---- diamonds


@deep
@pytest.mark.parametrize("op", ["multiply", "add"])
def test_a_diamond_built_twice(op: str, depth: int) -> None:
    """Two equal chains whose ops use the previous value twice are merged, although each has 2^depth paths."""
    p = load(function(op, depth, copies=2))
    text = str(p)
    assert count(text, op) == depth
    first, second = text.split("return ")[1].split(" : ")[0].split(", ")
    assert first == second


@deep
@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_derivative_of_a_diamond_of_sums(mode: str, depth: int) -> None:
    text = str(getattr(load(function("add", depth, copies=2)), mode)())
    # In forward mode, the tangents of both outputs are computed once. In reverse mode, each cotangent is propagated
    # separately.
    assert count(text, "add") == (depth * 2 if mode == "jvp" else depth * 3 + 1)


@deep
@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_derivative_of_a_diamond_of_products(mode: str, depth: int) -> None:
    text = str(getattr(load(function("multiply", depth, copies=2)), mode)())
    assert depth * 2 <= count(text, "multiply") <= depth * 3
    assert count(text, "add") == (depth if mode == "jvp" else depth * 2 + 1)


def test_a_diamond_in_numbers() -> None:
    p = load(function("multiply", 20, copies=2))
    x, power = 1.0 + 1e-6, 2**20
    y, dy = x**power, power * x ** (power - 1)
    compare(run(p.jvp(), [x, 1.0]), [y, y, dy, dy], 1e-9)
    compare(run(p.vjp(), [x, 1.0, 10.0]), [y, y, 11 * dy], 1e-9)


@deep
@pytest.mark.parametrize("op", ["multiply", "add"])
def test_a_diamond_in_two_graphs(op: str, depth: int) -> None:
    """Two equal graphs with one input are merged: each op occurs once, also in their linearization and transpose."""
    ops, last = lines(op, depth)
    inside = "\n".join(ops) + "\n" + named(last, "y")
    view = view_of(*(graph(name, ["x"], inside, [last]) for name in "AB"))
    wanted: list[Any] = [("A", "y"), ("B", "y")]
    flat = materialize_merge(view, wanted, ["x"], OPSET)
    assert count(str(lower(flat)), op) == depth
    linear = linearize(view, wanted, ["x"], OPSET)
    text = str(lower(materialize_merge(view, list(linear.outputs), ["x", *linear.keys], OPSET)))
    assert count(text, "add") == depth
    back = linear_transpose(view, linear, OPSET)
    text = str(lower(materialize_merge(view, [*wanted, *back.outputs], ["x", *back.keys], OPSET)))
    assert count(text, "add") == depth * (2 if op == "multiply" else 3) + 1


# ---- wide


@deep
def test_a_value_used_very_often(depth: int) -> None:
    """If a value has very many uses, its cotangent is a sum with one term for each use."""
    ops = [f"%v0 = stablehlo.sine %x : {F64}"]
    ops += [f"%v{i} = stablehlo.multiply %v{i - 1}, %x : {F64}" for i in range(1, depth)]
    inside = "\n".join(ops)
    p = load(f"func.func @main(%x: {F64}) -> {F64} {{\n{inside}\nreturn %v{depth - 1} : {F64}\n}}")
    assert count(str(p.vjp()), "add") == count(str(p.jvp()), "add") == depth - 1


def test_very_many_inputs_and_outputs() -> None:
    width = 1_000
    arguments = ", ".join(f"%x{i}: {F64}" for i in range(width))
    values, types = ", ".join(f"%y{i}" for i in range(width)), ", ".join([F64] * width)
    inside = "\n".join(f"%y{i} = stablehlo.sine %x{i} : {F64}" for i in range(width))
    p = load(f"func.func @main({arguments}) -> ({types}) {{\n{inside}\nreturn {values} : {types}\n}}")
    assert count(str(p.vjp().jvp()), "sine") == width
    assert len(p.jvp().inputs) == len(p.vjp().outputs) == 2 * width


def test_branches_of_very_many_ops() -> None:
    """The derivative of two branches with very many ops has one cosine and one product for each sine.

    Residuals of different types are returned separately.
    """
    depth, pair = 1_200, F64.replace("<", "<2x")
    first, x = lines("sine", depth)
    second = "\n".join(lines("sine", depth, "w")[0]).replace(F64, pair).replace("%x", "%y")
    p = load(f"""
    func.func @main(%p: tensor<i1>, %x: {F64}, %y: {pair}) -> {F64} {{
      %z = stablehlo.constant dense<0.0> : {F64}
      %r = "stablehlo.if"(%p) ({{
        {chr(10).join(first)}
        stablehlo.return {x} : {F64}
      }}, {{
        {second}
        %s = stablehlo.reduce(%w{depth - 1} init: %z) applies stablehlo.add across dimensions = [0]
          : ({pair}, {F64}) -> {F64}
        stablehlo.return %s : {F64}
      }}) : (tensor<i1>) -> {F64}
      return %r : {F64}
    }}""")
    text = str(p.vjp())
    assert [count(text, op) for op in ("sine", "cosine", "multiply")] == [2 * depth] * 3


@pytest.mark.parametrize("depth", [50, 400])
def test_deep_nesting(depth: int) -> None:
    """Branches can be differentiated up to a nesting depth that Python's recursion limit sets.

    Deeper ones are refused.
    """
    inside = f"%v0 = stablehlo.sine %x : {F64}"
    for i in range(depth):
        inside = f"""%v{i + 1} = "stablehlo.if"(%p) ({{
          {inside}
          stablehlo.return %v{i} : {F64} }}, {{ stablehlo.return %x : {F64} }}) : (tensor<i1>) -> {F64}"""
    p = load(f"func.func @main(%p: tensor<i1>, %x: {F64}) -> {F64} {{ {inside} return %v{depth} : {F64} }}")
    if depth < 100:
        compare(run(p.vjp(), [True, 0.5, 2.0]), [np.sin(0.5), 2 * np.cos(0.5)])
    else:
        with pytest.raises(Unsupported, match="nested too deeply"):
            p.vjp()


# ---- graphs


def step(i: int) -> str:
    body = external("%e", f"@G{i - 1}::@v") + f"%0 = stablehlo.sine %e : {F64}\n" + named("%0", "v")
    return graph(f"G{i}", [], body, ["%0"])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_graphs(backwards: bool) -> None:
    """The derivatives of a chain of 1,200 graphs, each of which refers to its predecessor, have one cosine and one
    product for each sine.
    """
    length = 1_200
    graphs = [graph("G0", ["x"], f"%0 = stablehlo.sine %x : {F64}\n" + named("%0", "v"), ["%0"])]
    graphs += [step(i) for i in range(1, length)]
    view = view_of("".join(graphs[::-1] if backwards else graphs))
    check(view)
    wanted: list[Any] = [(f"G{length - 1}", "v")]
    linear = linearize(view, wanted, ["x"], OPSET)
    back = linear_transpose(view, linear, OPSET)
    text = str(lower(materialize_merge(view, [*wanted, *back.outputs], ["x", *back.keys], OPSET)))
    assert [count(text, op) for op in ("sine", "cosine", "multiply")] == [length] * 3
    reloaded = view_of(str(view.module))  # contains all graphs, because the linear graphs refer to them
    check(reloaded)
    assert len(reloaded.graphs) == length + 2


def test_a_chain_of_references() -> None:
    """A chain of 2,500 references through graphs without ops is resolved to the value at its end."""
    length = 2_500
    graphs = [
        graph(f"G{i}", [], external("%e", f"@G{i - 1}::@v") + named("%e", "v"), ["%e"])
        for i in range(length, 0, -1)
    ]
    last = graph("G0", ["x"], f"%0 = stablehlo.sine %x : {F64}\n" + named("%0", "v"), ["%0"])
    view = view_of("".join(graphs) + last)
    assert view.value((f"G{length}", "v")) == view.value(("G0", "v"))
    check(view)
    compare(numbers(view, [(f"G{length}", "v")], {"x": 0.5}), [np.sin(0.5)])


def test_high_order() -> None:
    """The eighth forward derivative of exp(a x) is right if no graphs are merged. The view then holds nine graphs."""
    view: Any = view_of(
        graph(
            "F",
            ["a", "x"],
            f"%0 = stablehlo.multiply %a, %x : {F64}\n%1 = stablehlo.exponential %0 : {F64}",
            ["%1"],
        )
    )
    (value,), point = view.graph("F").outputs, {"a": 0.9, "x": 0.3}
    for _ in range(8):
        linear = linearize(view, [value], ["x"], OPSET)
        (value,) = linear.outputs
        point[linear.keys[0]] = 1.0
    compare(numbers(view, [value], point), [0.9**8 * np.exp(0.27)])


def test_modules_nested_deeply_are_read() -> None:
    identity = "func.func @main(%x: tensor<f64>) -> tensor<f64> { return %x : tensor<f64> }"
    program = load("module {" * 2000 + "}" * 2000 + identity)
    assert [argument.name for argument in program.signature.inputs] == ["x"]
