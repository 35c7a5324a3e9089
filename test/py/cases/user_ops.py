"""Programs with ops for which only users have rules: a composite, and an op of a foreign dialect."""

from typing import Any

SCALAR = "(tensor<f64>) -> tensor<f64>"


def function(body: str, arguments: str = "%x: tensor<f64>", result: str = "tensor<f64>") -> str:
    """The text of a program that returns %y."""
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n return %y : {result}\n}}\n"


def unary(op: str) -> str:
    """A program with one op on %x."""
    return function(f" %y = {op} : {SCALAR}")


CUBE = """
func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.sine %x : tensor<3xf64>
  %y = stablehlo.composite "my.cube" %0 {decomposition = @cube} : (tensor<3xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
func.func private @cube(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf64>
  %1 = call @times(%0, %x) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %1 : tensor<3xf64>
}
func.func private @times(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
"""


FOREIGN = unary('"foreign.erfcx"(%x)')


def three_squares(b: Any, x: Any, y: Any) -> Any:
    """The derivative of the cube."""
    return b.multiply(b.constant(3, x.type), b.multiply(x, x))
