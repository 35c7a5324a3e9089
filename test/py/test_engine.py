"""The engine contains no names of ops, so that it can differentiate the dialect `toy`, which is defined in this file.

`toy` has four ops on scalars: plus, times, exp, zero. This file does not import `annotations` from `__future__`,
because `ext` reads annotations as objects.
"""

import ast
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from harness.compare import compare
from torch_mlir import ir
from torch_mlir.dialects import ext

from tiduc.dialect.emitters.builder import Builder
from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.ops.verify import TERMINATOR
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero, materialize_merge
from tiduc.passes.resolve import check, resolve
from tiduc.passes.rules.registry import OpSet

ROOT = Path(__file__).parents[2]

# ---- a dialect, its builder, its rules


class Toy(ext.Dialect, name="toy"):
    """A dialect with scalar arithmetic."""


class Plus(Toy.Operation, name="plus", traits=[ext.Pure]):
    x: ext.Operand[Any]
    y: ext.Operand[Any]
    result: ext.Result[Any]


class Times(Toy.Operation, name="times", traits=[ext.Pure]):
    x: ext.Operand[Any]
    y: ext.Operand[Any]
    result: ext.Result[Any]


class Exp(Toy.Operation, name="exp", traits=[ext.Pure]):
    x: ext.Operand[Any]
    result: ext.Result[Any]


class Nought(Toy.Operation, name="zero", traits=[ext.Pure]):
    result: ext.Result[Any]


class ToyBuilder(Builder):
    """Emits ops of `toy`. Tangents have the type tensor<f64>."""

    @staticmethod
    def tangent_type(type_: Any) -> Any | None:
        return type_ if str(type_) == "tensor<f64>" else None

    def add(self, x: Any, y: Any) -> Any:
        return self.emit("toy.plus", (x, y), x.type)

    def multiply(self, x: Any, y: Any) -> Any:
        return self.emit("toy.times", (x, y), x.type)

    def zero(self, type_: Any) -> Any:
        return self.emit("toy.zero", (), type_)


TOYS = OpSet(ToyBuilder)
TOYS.inactive("toy.zero")
TOYS.elementwise("toy.exp", lambda b, x, y: y)


@TOYS.linearize("toy.plus")
def plus(b: Any, op: Any, dx: Sequence[Any]) -> list[Any]:
    return [b.sum(x for x in dx if x is not None)]


@TOYS.transpose("toy.plus")
def plus_transpose(b: Any, op: Any, ct: Sequence[Any], active: Sequence[bool]) -> list[Any]:
    return [ct[0], ct[0]]


@TOYS.bilinear("toy.times")
def times(b: Any, op: Any, ct: Any, side: int) -> Any:
    return b.multiply(op.operands[1 - side], ct)


MEANING = {
    "toy.plus": lambda x, y: x + y,
    "toy.times": lambda x, y: x * y,
    "toy.exp": math.exp,
    "toy.zero": lambda: 0.0,
}


@pytest.fixture(scope="module", autouse=True)
def dialect() -> None:
    stage(Toy.load)()


# ---- f(a, x) = exp(a x) + x


TEXT = """
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>, %n: tensor<i64>):
  %0 = "toy.times"(%a, %x) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %1 = "toy.exp"(%0) : (tensor<f64>) -> tensor<f64>
  %2 = "toy.plus"(%1, %x) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  "tidu.name"(%2) {sym_name = "y"} : (tensor<f64>) -> ()
  "stablehlo.return"(%2) : (tensor<f64>) -> ()
}) {sym_name = "F", inputs = [@a, @x, @n]} : () -> ()
"""


@stage
def flat(view: Any, wanted: Sequence[Any], inputs: Sequence[str]) -> Any:
    """Merges the graphs that compute the wanted values, and returns a module with the merged graph."""
    module = ir.Module.create()
    write_graph(materialize_merge(view, wanted, inputs, TOYS), module)
    return module


@stage
def evaluate(module: Any, arguments: Sequence[float]) -> list[float]:
    """Evaluates the only graph of a module, and returns its outputs."""
    block = module.body.operations[0].operation.regions[0].blocks[0]
    values = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        operands = [values[x] for x in op.operation.operands]
        if op.operation.name == TERMINATOR:
            return operands
        values[op.operation.results[0]] = MEANING[op.operation.name](*operands)
    raise AssertionError("no return")


@pytest.mark.parametrize("mode", ["".join(m) for n in (1, 2, 3) for m in itertools.product("FR", repeat=n)])
def test_any_order(mode: str) -> None:
    view, wanted = resolve(parse(TEXT)), [("F", "y")]
    a, x = 0.7, 1.3
    point = {"a": a, "x": x}
    for letter in mode:
        linear = linearize(view, wanted, ["x"], TOYS)
        if letter == "R":
            linear = linear_transpose(view, linear, TOYS)
        point[linear.keys[0]] = 1.0
        wanted = list(linear.outputs)
    check(resolve(parse(str(view.module))))  # the module is valid after printing and parsing
    expected = a ** len(mode) * math.exp(a * x) + (len(mode) == 1)
    compare(evaluate(flat(view, wanted, list(point)), list(point.values())), [expected])


def test_merge() -> None:
    """Merging two equal graphs and their linearizations merges equal ops, and removes ops that no output needs."""
    view = resolve(parse(TEXT), parse(TEXT.replace('"F"', '"G"')))
    linear = linearize(view, [("F", "y"), ("G", "y")], ["a"], TOYS)
    module = flat(view, [("F", "y"), ("G", "y"), *linear.outputs], ["a", "x", *linear.keys])
    text = str(module)
    assert [text.count(f'"toy.{op}"') for op in ("exp", "plus", "zero")] == [1, 1, 0]
    assert text.count('"toy.times"') == 3
    e = math.exp(0.5 * 2.0)
    compare(evaluate(module, [0.5, 2.0, 1.0]), [e + 2, e + 2, 2 * e, 2 * e])


def test_zero() -> None:
    view = resolve(parse(TEXT))
    type_ = view.value(("F", "y")).type
    assert evaluate(flat(view, [Zero(type_), Zero(type_)], []), []) == [0.0, 0.0]


def test_types_without_tangents() -> None:
    with pytest.raises(RequestError, match="@n has no tangent: its type is tensor<i64>"):
        linearize(resolve(parse(TEXT)), [("F", "y")], ["n"], TOYS)


def test_refusals() -> None:
    bare = OpSet(ToyBuilder)
    bare.refuse("it is a toy", "toy.plus")
    with pytest.raises(Unsupported, match="unsupported jvp AD rule for toy.times"):
        linearize(resolve(parse(TEXT)), [("F", "y")], ["x"], bare)
    bare.elementwise("toy.exp", lambda b, x, y: y)
    bare.bilinear("toy.times")(times)
    with pytest.raises(Unsupported, match="unsupported jvp AD rule for toy.plus: it is a toy"):
        linearize(resolve(parse(TEXT)), [("F", "y")], ["x"], bare)
    view = resolve(parse(TEXT))
    with pytest.raises(Unsupported, match="unsupported transpose AD rule for toy.plus"):
        linear_transpose(view, linearize(view, [("F", "y")], ["x"], TOYS), bare)


def test_an_op_is_declared_once() -> None:
    for declare in (
        TOYS.inactive,
        lambda name: TOYS.elementwise(name, lambda b, x, y: y),
        TOYS.linearize,
        TOYS.bilinear,
    ):
        with pytest.raises(ValueError, match="toy.exp is declared twice: elementwise, "):
            declare("toy.exp")
    with pytest.raises(ValueError, match="toy.plus already has a transpose rule"):
        TOYS.transpose("toy.plus")


def test_stateful_ops() -> None:
    """Equal ops are not merged if the op set declares them stateful; other equal ops are merged."""
    dice = OpSet(ToyBuilder, stateful=frozenset({"toy.exp"}))
    view = resolve(parse(TEXT), parse(TEXT.replace('"F"', '"G"')))
    graph = materialize_merge(view, [("F", "y"), ("G", "y")], ["a", "x"], dice)
    names = [definition.name for definition in graph.definitions]
    assert [names.count(name) for name in ("toy.times", "toy.exp", "toy.plus")] == [1, 2, 2]


# ---- what the engine's files name

ENGINE = (
    "passes/linearize.py",
    "passes/linear_transpose.py",
    "passes/rules/registry.py",
    "dialect/emitters/builder.py",
)
DIALECTS = ("stablehlo", "chlo", "vhlo", "mhlo", "func.", "arith.", "math.", "tensor.", "linalg.", "scf.")
MNEMONICS = {
    line.split(".")[1]
    for line in (ROOT / "test" / "py" / "cases" / "opset.txt").read_text().splitlines()
    if line and not line.startswith("#")
}
VECTOR_SPACE = {"add", "multiply"}


def said(source: str) -> Iterator[str]:
    """Yields the words of a file's code: strings except docstrings, modules of `from` imports, attributes `x.y`."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def named_ops(source: str) -> list[str]:
    """The dialects and ops that a file names, except those of tidu."""
    names = []
    for text in said(source):
        owner, _, name = text.partition(".")
        if any(dialect in text for dialect in DIALECTS):
            names.append(text)
        elif owner == "b" and name in MNEMONICS - VECTOR_SPACE:
            names.append(text)
    return names


@pytest.mark.parametrize("file", ENGINE)
def test_the_engine_names_no_op(file: str) -> None:
    assert named_ops((ROOT / file).read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        'name = "stablehlo.add"',
        'if op.name == f"chlo.{x}": pass',
        "from tiduc.dialect.emitters.stablehlo import StablehloBuilder",
        "y = b.exponential(x)",
        "y = b.transpose(x, [1, 0])",
        'rules = {"func.call": None}',
    ],
)
def test_a_name_is_seen(line: str) -> None:
    assert named_ops(f'"""Of stablehlo.add."""\n{line}\n')
    assert not named_ops('"""Of stablehlo.add."""\ny = b.add(x, b.multiply(x, x))\nz = b.zero("tidu.bind")\n')
