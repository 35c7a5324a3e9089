"""Programs for tests of `tiduc view`, and a function that returns the command's output."""

from pathlib import Path
from typing import Any

from harness.processes import command
from tiduc.activity import find_activity
from tiduc.dialect.mlir.context import parse, stage
from tiduc.view.fold import fold
from tiduc.view.read import read_picture
from tiduc.view.scene import Picture

EXP = """func.func @main(%a: tensor<4xf64> {tidu.name = "a"}, %x: tensor<4xf64> {tidu.name = "x"}) -> tensor<4xf64> {
  %h = stablehlo.constant dense<0.5> : tensor<f64>
  %b = stablehlo.broadcast_in_dim %h, dims = [] : (tensor<f64>) -> tensor<4xf64>
  %0 = stablehlo.multiply %a, %x : tensor<4xf64>
  %1 = stablehlo.exponential %0 : tensor<4xf64>
  %2 = stablehlo.subtract %b, %1 : tensor<4xf64>
  %3 = stablehlo.divide %2, %1 : tensor<4xf64>
  return %3 : tensor<4xf64>
}
"""


TWICE = """func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.sine %x : tensor<f32>
  return %0, %0 : tensor<f32>, tensor<f32>
}
"""


@stage
def picture_of(source: str, positions: Any = (0,), folded: bool = False) -> Picture:
    module = parse(source, "f.mlir")
    picture = read_picture(module, find_activity(module, {"main": positions}), "f.mlir")
    if folded:
        fold(picture)
    return picture


def view(*arguments: str) -> str:
    """Runs `tiduc view` and returns the output. The test fails if the command fails."""
    out = Path(arguments[-1]) if arguments[-2:-1] == ("-o",) else None
    done = command(Path.cwd(), "view", *arguments)
    assert done.returncode == 0, done.stderr
    return out.read_text() if out else done.stdout


def layers(count: int, width: int = 8) -> str:
    """Returns the text of a residual network. Each layer has ten ops and separate weights."""
    t = f"tensor<{width}xf32>"
    weights = ", ".join(f"%w{i}: tensor<{width}x{width}xf32>" for i in range(count))
    lines = [f"func.func @main(%x0: {t}, {weights}) -> {t} {{", f"  %c = stablehlo.constant dense<0.5> : {t}"]
    for i in range(count):
        lines += [
            f"  %a{i} = stablehlo.dot_general %w{i}, %x{i}, contracting_dims = [1] x [0] : "
            f"(tensor<{width}x{width}xf32>, {t}) -> {t}",
            *(
                f"  %{y}{i} = stablehlo.{op} %{x}{i} : {t}"
                for x, op, y in [("a", "tanh", "b"), ("b", "exponential", "d"), ("d", "negate", "e")]
            ),
            f"  %g{i} = stablehlo.multiply %e{i}, %c : {t}",
            f"  %h{i} = stablehlo.divide %g{i}, %b{i} : {t}",
            f"  %x{i + 1} = stablehlo.add %h{i}, %x{i} : {t}",
        ]
    return "\n".join([*lines, f"  return %x{count} : {t}", "}"]) + "\n"


def blocks_of(count: int) -> str:
    """Returns the text of a program with `count` layers.

    A layer has two equal sequences of ops, with one op between the sequences and one op after them.
    """
    t, names, lines = "tensor<8xf32>", iter(range(10000)), []
    at = "x"

    def add(op: str, *operands: str) -> str:
        y = f"v{next(names)}"
        lines.append(f"  %{y} = stablehlo.{op} {', '.join(f'%{x}' for x in operands)} : {t}")
        return y

    def stretch(x: str) -> str:
        y = x
        for op in ("sine", "negate", "tanh", "cosine", "exponential", "abs"):
            y = add(op, y)
        return add("add", y, x)

    for _ in range(count):
        at = add("cbrt", stretch(at))
        at = add("logistic", stretch(at))
    return "\n".join([f"func.func @main(%x: {t}) -> {t} {{", *lines, f"  return %{at} : {t}", "}"]) + "\n"
