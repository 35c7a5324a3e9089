"""Two concatenations with equal first operands are correct on IREE.

IREE allocates one array for the start of both, and may omit a copy that is needed.
"""

import numpy as np
import pytest
from cases import iree_resizing
from harness.vulkan import skip_without_device

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.emit.emitter import NUMBERS
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse

S, O = "tensor<9x9xf32>", "tensor<18x9xf32>"  # noqa: E741
F, OF = "tensor<81xf32>", "tensor<162xf32>"
C = "tensor<9x9xcomplex<f32>>"


def program(given: str, body: str, start: str, other: str) -> str:
    """A program with two concatenations: of %p and %b, and of the values that `start` and `other` name."""
    return f"""
func.func @main({given}) -> ({O}, {O}) {{
  {body}
  %x = stablehlo.concatenate %p, %b, dim = 0 : ({S}, {S}) -> {O}
  %y = stablehlo.concatenate {start}, {other}, dim = 0 : ({S}, {S}) -> {O}
  return %x, %y : {O}, {O}
}}
"""


TWO = f"%a: {S}, %b: {S}"
PRODUCT = f"%q = stablehlo.negate %b : {S}\n  %p = stablehlo.multiply %q, %a : {S}"
AGAIN = f"{PRODUCT}\n  %n = stablehlo.negate %b : {S}\n  %s = stablehlo.multiply %n, %a : {S}"
OF_PRODUCT = program(TWO, PRODUCT, "%p", "%q")
MADE_AGAIN = program(TWO, AGAIN, "%s", "%q")

OF_PARTS = f"""
func.func @main(%a: {C}) -> ({OF}, {OF}, {OF}) {{
  %re = stablehlo.real %a : ({C}) -> {S}
  %im = stablehlo.imag %a : ({C}) -> {S}
  %n = stablehlo.negate %im : {S}
  %z = stablehlo.complex %re, %n : {C}
  %t = stablehlo.transpose %z, dims = [1, 0] : ({C}) -> {C}
  %again = stablehlo.real %z : ({C}) -> {S}
  %ret = stablehlo.real %t : ({C}) -> {S}
  %imt = stablehlo.imag %t : ({C}) -> {S}
  %0 = stablehlo.reshape %re : ({S}) -> {F}
  %1 = stablehlo.reshape %im : ({S}) -> {F}
  %2 = stablehlo.reshape %again : ({S}) -> {F}
  %3 = stablehlo.reshape %n : ({S}) -> {F}
  %4 = stablehlo.reshape %ret : ({S}) -> {F}
  %5 = stablehlo.reshape %imt : ({S}) -> {F}
  %x = stablehlo.concatenate %2, %3, dim = 0 : ({F}, {F}) -> {OF}
  %y = stablehlo.concatenate %0, %1, dim = 0 : ({F}, {F}) -> {OF}
  %w = stablehlo.concatenate %4, %5, dim = 0 : ({F}, {F}) -> {OF}
  return %x, %y, %w : {OF}, {OF}, {OF}
}}
"""
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 9, 9)).astype(np.float32)


def marks(text: str) -> int:
    """The number of "hidden numbers", which are constants behind optimization barriers, after the passes for IREE.

    A hidden number makes IREE treat two equal concatenations as different. A call of a function that uses hidden
    numbers has an additional hidden number.
    """
    module = parse(text)
    legalize_for_iree(module)
    barriers = outer_first(module.operation, ("stablehlo.optimization_barrier",))
    return sum(len(op.results) for op in barriers if NUMBERS in op.attributes)


@pytest.mark.parametrize("target", ["cpu", "cpu-threads", "vulkan:llvmpipe"])
@pytest.mark.parametrize("text", [OF_PRODUCT, MADE_AGAIN], ids=["one value", "made alike"])
def test_second_begins_with_what_the_first_does(text: str, target: str) -> None:
    skip_without_device(target)
    x, y = tiduc.load(text).compile(target)(A, B)
    np.testing.assert_array_equal(x, np.concatenate([-B * A, B]))
    np.testing.assert_array_equal(y, np.concatenate([-B * A, -B]))


def test_parts_of_one_complex_array() -> None:
    """Real and imaginary parts of a complex array, its conjugate and its adjoint are concatenated correctly."""
    z = A + 1j * B
    actual = tiduc.load(OF_PARTS).compile()(z)
    expected = (z.conj(), z, z.conj().T)
    for line, y in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(line, np.concatenate([y.real.ravel(), y.imag.ravel()]))


def test_marks_where_sizes_are_equal() -> None:
    """If two concatenations have equal first operands and sizes, the passes add one hidden number (see `marks`).

    A concatenation of another size gets none. In a called function, each concatenation gets a hidden number, because
    the function may be called twice.
    """
    assert marks(OF_PRODUCT) == marks(MADE_AGAIN) == marks(program(TWO, PRODUCT, "%q", "%p")) == 1
    longer = f"%w = stablehlo.concatenate %p, %p, %b, dim = 0 : ({S}, {S}, {S}) -> tensor<27x9xf32>"
    assert marks(program(TWO, f"{PRODUCT}\n  {longer}", "%q", "%p")) == 1
    called = program(TWO, PRODUCT, "%q", "%p").replace("@main", "private @f")
    call = f"%0:2 = func.call @f(%a, %b) : ({S}, {S}) -> ({O}, {O})"
    main = f"func.func @main({TWO}) -> {O} {{\n  {call}\n  return %0#1 : {O}\n}}"
    assert marks(main + called) == 3


def test_vectors_that_hold_sizes() -> None:
    """If two of three concatenated vectors have equal first operands, the passes add one hidden number (see `marks`).

    The vectors contain sizes. More hidden numbers would hide these sizes from IREE.
    """
    given, two = (
        "%x: tensor<?x2x3xf32>, %y: tensor<?x2x3xf32>",
        "(tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>",
    )
    lines = ["%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>"]
    for i, x in enumerate("xyx"):
        start = f"%v{'xy'.index(x)}"
        lines += [
            f"%n{i} = stablehlo.get_dimension_size %{x}, dim = 0 : (tensor<?x2x3xf32>) -> tensor<i32>",
            f"%v{i} = stablehlo.reshape %n{i} : (tensor<i32>) -> tensor<1xi32>",
            f"%c{i} = stablehlo.concatenate {start}, %s, dim = 0 : {two}",
        ]
    results = "tensor<3xi32>, tensor<3xi32>, tensor<3xi32>"
    body = "\n".join(lines)
    text = f"func.func @main({given}) -> ({results}) {{\n{body}\nreturn %c0, %c1, %c2 : {results}\n}}"
    assert marks(text) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("start", "target", "fast"),
    [(0, "cpu", True), (0, "cpu-threads", True), (0, "cpu", False), (1, "cpu", False)],
)
def test_large_arrays_that_begin_with_one_constant(start: int, target: str, fast: bool) -> None:
    given = iree_resizing.arguments(RNG)
    (y,) = tiduc.load(iree_resizing.resized(start)).compile(target, fast=fast)(*given)
    np.testing.assert_array_equal(y, iree_resizing.expected(*given))
