"""Gathers at constant indices are correct on IREE if other ops read the whole array too.

IREE would compute the array only at the gathered indices.
"""

import numpy as np
import pytest
from cases.witnesses import Witness, fails_alone
from harness.one_module import compiled_together

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.run import Executable

X, R = "tensor<3x1xf64>", "tensor<3xf64>"
ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<f64>"
PADDED = f"{ZERO}\n%y = stablehlo.pad %x, %zero, low = [1, 0], high = [0, 0], interior = [0, 0] :"
PAD = f"{PADDED} ({X}, tensor<f64>) -> tensor<4x1xf64>", "tensor<4x1xf64>"
SUM = (
    f"{ZERO}\n%y = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] :"
    f" ({X}, tensor<f64>) -> tensor<f64>",
    "tensor<f64>",
)


def program(dimension: int, starts: str, reader: tuple[str, str], argument: bool = False) -> str:
    """A program with a gather and another op that reads the gathered array.

    The start indices are for one dimension. They are constants, or an argument if `argument` is set.
    """
    op, type_ = reader
    return f"""func.func @main(%p: {X}, %j: tensor<3x1xi32>) -> ({type_}, {R}) {{
%x = stablehlo.multiply %p, %p : {X}
%c = stablehlo.constant dense<{starts}> : tensor<3x1xi32>
%r = "stablehlo.gather"(%x, {"%j" if argument else "%c"}) <{{dimension_numbers = #stablehlo.gather<
  collapsed_slice_dims = [0, 1], start_index_map = [{dimension}], index_vector_dim = 1>,
  slice_sizes = array<i64: 1, 1>}}> : ({X}, tensor<3x1xi32>) -> {R}
%q = stablehlo.add %r, %r : {R}
{op}
return %y, %q : {type_}, {R}
}}"""


MASKED = f"""func.func @main(%p: {X}, %a: tensor<3x3xf64>) -> ({X}, {X}) {{
%x = stablehlo.multiply %p, %p : {X}
%at = stablehlo.constant dense<[[1, 0, 1]]> : tensor<1x3xi64>
%c = stablehlo.constant dense<0> : tensor<1x3xi64>
%z = stablehlo.constant dense<0.0> : tensor<1x3xf64>
%r = "stablehlo.gather"(%x, %c) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
  start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}}>
  : ({X}, tensor<1x3xi64>) -> tensor<1x3xf64>
%b = stablehlo.compare EQ, %c, %at : (tensor<1x3xi64>, tensor<1x3xi64>) -> tensor<1x3xi1>
%s = stablehlo.select %b, %r, %z : tensor<1x3xi1>, tensor<1x3xf64>
%q = stablehlo.reshape %s : (tensor<1x3xf64>) -> {X}
%y = "stablehlo.scatter"(%x, %at, %z) <{{scatter_dimension_numbers = #stablehlo.scatter<
  inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}}> ({{
^bb0(%e: tensor<f64>, %f: tensor<f64>):
  stablehlo.return %f : tensor<f64>
}}) : ({X}, tensor<1x3xi64>, tensor<1x3xf64>) -> {X}
{ZERO}
%d = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
  : (tensor<3x3xf64>, tensor<f64>) -> {R}
%e = stablehlo.reshape %d : ({R}) -> {X}
%h = stablehlo.add %e, %y : {X}
%o = stablehlo.add %h, %q : {X}
return %o, %q : {X}, {X}
}}"""
P, J = np.array([[1.0], [2.0], [3.0]]), np.zeros((3, 1), np.int32)
PADDING = np.array([[0.0], [1.0], [4.0], [9.0]])
CASES = {
    "collapsed": (program(1, "0", PAD), (PADDING, [2, 2, 2])),
    "sum": (program(1, "0", SUM), (14, [2, 2, 2])),
    "argument": (program(1, "0", PAD, argument=True), (PADDING, [2, 2, 2])),
    "constant": (program(0, "0", PAD), (PADDING, [2, 2, 2])),
}


def compare(ys: object, expected: tuple[object, ...]) -> bool:
    pairs = zip(ys, expected, strict=True)  # type: ignore[call-overload]
    return all(np.allclose(np.asarray(y), correct) for y, correct in pairs)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Executable]:
    return compiled_together({name: text for name, (text, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_values(compiled: dict[str, Executable], name: str) -> None:
    _, expected = CASES[name]
    assert compare(compiled[name](P, J), expected)


def test_values_of_an_update_that_overwrites() -> None:
    """The program `MASKED`, which has a scatter that overwrites elements, gives the values of a NumPy formula."""
    a = np.arange(9.0).reshape(3, 3)
    q = np.array([[0.0], [1.0], [0.0]])
    updated = np.array([[0.0], [4.0], [9.0]])
    assert compare(tiduc.load(MASKED).compile("cpu")(P, a), (a.sum(1, keepdims=True) + updated + q, q))


# In the case "sum", IREE reads uninitialized memory, so its result may be right by chance.
@pytest.mark.parametrize("name", ["collapsed", "argument", "constant"])
def test_iree_alone_is_wrong(name: str) -> None:
    text, expected = CASES[name]
    assert fails_alone(Witness(text, (P, J), tuple(map(np.asarray, expected)), rtol=1e-12))


@stage
def barriers(text: str) -> int:
    module = parse(text)
    legalize_for_iree(module)
    return str(module).count("optimization_barrier")


def test_barriers() -> None:
    for text, _ in CASES.values():
        assert barriers(text) == 1
    assert barriers(program(0, "0", PAD, argument=True)) == 0
