"""Programs with a composite and with an op of a foreign dialect. Only users can define rules for them."""

from typing import Any

SCALAR = "(tensor<f64>) -> tensor<f64>"


def function(body: str, arguments: str = "%x: tensor<f64>", result: str = "tensor<f64>") -> str:
    """Returns the text of a program with this body. The program returns %y."""
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n return %y : {result}\n}}\n"


def unary(op: str) -> str:
    """Returns the text of a program that applies one op to %x."""
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
    """Emits the derivative 3 x y of the cube. The builder is `b`."""
    return b.multiply(b.constant(3, x.type), b.multiply(x, x))
