"""Static libraries of small programs, which are compiled to scalar ops without dispatches, memory or state."""

import shutil
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.scalars import evaluate
from harness.static_libraries import run_library, run_thread_sanitizer

from tiduc.backends.backend import Options
from tiduc.backends.iree.elf import read_elf
from tiduc.backends.iree.static.header import Interface
from tiduc.backends.iree.static.library import compile_library
from tiduc.backends.iree.static.scalars.compile import Scalars, compile_scalars, scalars_of
from tiduc.backends.iree.static.scalars.numbers import COMPARISONS, OPERATORS, ScalarOps
from tiduc.backends.iree.static.scalars.ranges import LIMITS
from tiduc.cli import run
from tiduc.dialect.mlir.context import parse
from tiduc.program import Program, from_module

STEP = """func.func @main(%x: tensor<3xf64>, %u: tensor<2xf64>) -> tensor<3xf64> {
  %m = stablehlo.constant dense<[[1.0, 2.0], [0.0, -1.0], [0.5, 0.25]]> : tensor<3x2xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %half = stablehlo.constant dense<0.5> : tensor<f64>
  %0 = stablehlo.dot_general %m, %u, contracting_dims = [1] x [0] : (tensor<3x2xf64>, tensor<2xf64>) -> tensor<3xf64>
  %1 = stablehlo.slice %x [0:2] : (tensor<3xf64>) -> tensor<2xf64>
  %2 = stablehlo.sine %1 : tensor<2xf64>
  %3 = stablehlo.pad %2, %zero, low = [1], high = [0], interior = [0]
    : (tensor<2xf64>, tensor<f64>) -> tensor<3xf64>
  %4 = stablehlo.reverse %3, dims = [0] : tensor<3xf64>
  %5 = stablehlo.broadcast_in_dim %half, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %6 = stablehlo.compare GT, %x, %5 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  %7 = stablehlo.select %6, %4, %0 : tensor<3xi1>, tensor<3xf64>
  %8 = stablehlo.maximum %7, %x : tensor<3xf64>
  %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %11 = stablehlo.divide %0, %10 : tensor<3xf64>
  %12 = stablehlo.add %11, %8 : tensor<3xf64>
  return %12 : tensor<3xf64>
}"""


def program(text: str) -> Program:
    return from_module(parse(text))


def scalars(of: Program) -> Scalars | None:
    return scalars_of(of.lower().module.operation, of.signature.inputs, of.signature.outputs)


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


@needs_gcc
@pytest.mark.parametrize(
    "batch, offset",
    [(0, 0), pytest.param(12, 8, marks=pytest.mark.more), pytest.param(5, 0, marks=pytest.mark.more)],
)
def test_a_jacobian_of_scalars_is_that_of_the_reference(tmp_path: Path, batch: int, offset: int) -> None:
    """A Jacobian in scalar ops has the values of the reference engine, with and without a batch.

    Vector instructions compute several examples of a batch at once, unless their number is odd.
    """
    jacobian, rng = program(STEP).jacobian(value=True), np.random.default_rng(0)
    arrays: Sequence[Any] = [rng.standard_normal(3), rng.standard_normal(2)]
    if batch:
        jacobian = jacobian.batch(0, batch)
        arrays = [rng.standard_normal((batch, 3)), rng.standard_normal((batch, 2))]
    found = scalars(jacobian)
    assert found is not None and found.places == (batch or 1)
    wanted = jacobian.compile(engine="reference")(*arrays)
    for x, y in zip(run_library(jacobian, arrays, tmp_path, offset=offset), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-13)


@needs_gcc
@pytest.mark.more
def test_each_operator(tmp_path: Path) -> None:
    """The compiled code of each scalar op computes the reference's values, also for infinities, NaN and zeros of both
    signs.
    """
    t, lines, results = "tensor<12xf64>", [], []
    for name, operator in OPERATORS.items():
        if not operator.llvm or name == "select":
            continue
        y = f"%{len(lines)}"
        if name in COMPARISONS:
            lines.append(f"%c{y[1:]} = stablehlo.compare {name}, %x, %y : ({t}, {t}) -> tensor<12xi1>")
            text = f"stablehlo.select %c{y[1:]}, %x, %y : tensor<12xi1>, {t}"
        else:
            is_binary = name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
            text = f"stablehlo.{name} {'%x, %y' if is_binary else '%x'} : {t}"
        lines.append(f"{y} = {text}")
        results.append(y)
    body, types = "\n".join(lines), ", ".join([t] * len(results))
    every = program(
        f"func.func @main(%x: {t}, %y: {t}) -> ({types}) {{\n{body}\nreturn {', '.join(results)} : {types}\n}}"
    )
    assert scalars(every) is not None and len(results) == 21
    x = np.array([0.3, -0.7, 2, 0, -0.0, np.inf, -np.inf, np.nan, 1, 5, -3, 1e300])
    y = np.array([1.5, 0.25, 2, -0.0, 0, 1, np.inf, 2, np.nan, -2, 3, 1e300])
    with np.errstate(all="ignore"):
        wanted = every.compile(engine="reference")(x, y)
    for found, each in zip(run_library(every, [x, y], tmp_path), wanted, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-13)


def test_only_zeros_of_basis_vectors_absorb_infinity() -> None:
    """A product with a zero is omitted only if the zero comes from a basis vector of a derivative.

    Products with other zeros are computed, because the other factor may be infinite.
    """
    eye = """func.func @main(%x: tensor<3xf64>) -> tensor<3x3xf64> {
      %i = stablehlo.iota dim = 0 : tensor<3x3xi32>
      %j = stablehlo.iota dim = 1 : tensor<3x3xi32>
      %0 = stablehlo.compare EQ, %i, %j : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
      %1 = stablehlo.convert %0 : (tensor<3x3xi1>) -> tensor<3x3xf64>
      %2 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
      %3 = stablehlo.multiply %1, %2 : tensor<3x3xf64>
      return %3 : tensor<3x3xf64>
    }"""
    found = scalars(program(eye))
    assert found is not None
    names = [found.numbers.all[i].name for i in found.outputs[0].array.ids.ravel()]
    assert names.count("multiply") == 6 and names.count("input") == 3
    square = program("""func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
      %0 = stablehlo.multiply %x, %x : tensor<3xf64>
      return %0 : tensor<3xf64>
    }""")
    found = scalars(square.jacobian())
    assert found is not None
    names = [found.numbers.all[i].name for i in found.outputs[0].array.ids.ravel()]
    assert names.count("zero") == 6


def test_padding_of_values_beside_tangents() -> None:
    """The padding of a loop's primal result does not count as zeros of a derivative, although the loop also carries a
    tangent.
    """
    text = """func.func @main(%x: tensor<2xf64>, %w: tensor<4xf64>) -> (tensor<4xf64>, tensor<2xf64>) {
      %k = stablehlo.iota dim = 0 : tensor<2xi32>
      %zeros = stablehlo.constant dense<0> : tensor<2xi32>
      %equal = stablehlo.compare EQ, %k, %zeros : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %fill = stablehlo.constant dense<0.0> : tensor<f64>
      %dx = stablehlo.convert %equal {tidu.seed} : (tensor<2xi1>) -> tensor<2xf64>
      %0:3 = stablehlo.while(%i = %zero, %y = %x, %dy = %dx) : tensor<i32>, tensor<2xf64>, tensor<2xf64>
      cond {
        %1 = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %1 = stablehlo.add %i, %one : tensor<i32>
        %2 = stablehlo.multiply %y, %y : tensor<2xf64>
        %3 = stablehlo.multiply %y, %dy : tensor<2xf64>
        stablehlo.return %1, %2, %3 : tensor<i32>, tensor<2xf64>, tensor<2xf64>
      }
      %4 = stablehlo.pad %0#1, %fill, low = [1], high = [1], interior = [0]
        : (tensor<2xf64>, tensor<f64>) -> tensor<4xf64>
      %5 = stablehlo.multiply %4, %w : tensor<4xf64>
      return %5, %0#2 : tensor<4xf64>, tensor<2xf64>
    }"""
    found = scalars(program(text))
    assert found is not None
    y, dy = evaluate(found, [np.full((1, 2), 2.0), np.full((1, 4), np.inf)])
    np.testing.assert_array_equal(y, [[np.nan, np.inf, np.inf, np.nan]])
    np.testing.assert_array_equal(dy, [[8, 0]])


@pytest.mark.parametrize("kind", ["f64", "f32", "i8", "i64"])
def test_extremes_of_constants(kind: str) -> None:
    """Folding the maximum and minimum of constants gives the values that the code would compute:

    0 is larger than -0, and the result is NaN exactly if an operand is.
    """
    numbers = ScalarOps(100)
    some = [0.0, -0.0, 1.5, np.nan, -np.inf] if kind[0] == "f" else [0, -3, 7, LIMITS[kind][0]]
    for x, y in product(some, repeat=2):
        i, j = numbers.constant(x, kind), numbers.constant(y, kind)
        large, small = (numbers.value(numbers.apply(f"{name}imum", kind, i, j)) for name in ("max", "min"))
        wanted = (
            (np.nan, np.nan) if x != x or y != y else sorted((x, y), key=lambda z: (z, not np.signbit(z)))
        )
        np.testing.assert_array_equal([small, large], wanted)
        np.testing.assert_array_equal(np.signbit([small, large]), np.signbit(wanted))


def test_a_choice_between_equal_truth_values() -> None:
    """A select between a structural zero and the constant `false` is folded, because both are equal."""
    numbers = ScalarOps(100)
    flag, no, yes = numbers.input(0, 0, "i1"), numbers.constant(False, "i1"), numbers.constant(True, "i1")
    for x, y in ((no, numbers.zero("i1")), (numbers.zero("i1"), no)):
        assert numbers.value(numbers.apply("select", "i1", flag, x, y)) == 0
    assert numbers.apply("select", "i1", flag, yes, numbers.zero("i1")) == flag


EYE = """func.func @main(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %eye = stablehlo.constant dense<[[1.0, 0.0, 0.0], [0.0, 1.0, -0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf64>
  %0 = stablehlo.dot_general %eye, %x, contracting_dims = [1] x [0]
    : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
  return %0 : tensor<3x3xf64>
}"""


def test_zero_constants_absorb_if_all_is_finite(tmp_path: Path) -> None:
    """With `--assume-finite`, products with constant zeros and ones are omitted, so that the product with the unit
    matrix needs none.

    The option is only for static libraries, not for modules.
    """
    lowered, signature = program(EYE).lower(), program(EYE).signature
    for finite, count in ((False, 12), (True, 0)):
        found = scalars_of(lowered.module.operation, signature.inputs, signature.outputs, finite)
        assert found is not None
        assert [number.name for number in found.numbers.all].count("multiply") == count
    (tmp_path / "f.mlir").write_text(EYE)
    file = str(tmp_path / "f.mlir")
    assert run(["compile", file, "--assume-finite", "-o", str(tmp_path / "f.vmfb")]) == 1
    library = ["--emit", "static-library", "-o", str(tmp_path / "f.o")]
    assert run(["compile", file, "--assume-finite", "--target", "x86_64", *library]) == 0
    small = (tmp_path / "f.o").read_bytes()
    assert run(["compile", file, "--target", "x86_64", *library]) == 0
    assert read_elf(small).code < read_elf((tmp_path / "f.o").read_bytes()).code


CALLS = """#include "net.h"
#include <pthread.h>
static double x[3] = {0.1, 0.7, -0.4}, u[2] = {1, -2};
typedef struct { int status; double y[3]; } call;
static void *run(void *given) {
  call *own = given;
  for (int i = 0; i < 2000; i++) own->status |= net(x, u, own->y);
  return 0;
}
int main(void) {
  pthread_t threads[2];
  static call calls[3];
  double own[3] = {x[0], x[1], x[2]};
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, &calls[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  run(&calls[2]);
  if (net(own, u, own)) return 1;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++)
      if (calls[i].status || calls[i].y[j] != own[j] || own[j] == x[j]) return 2;
  return 0;
}
"""


@needs_gcc
@pytest.mark.more
def test_calls_need_no_memory_and_may_run_at_once(tmp_path: Path) -> None:
    """Calls allocate no memory and may run concurrently, even the first ones.

    A result may overlap an argument. The C file is C99.
    """
    library = compile_library(program(STEP).lower(), "net", Options("x86_64"))
    files = {"net.o": library.kernels, "net.c": library.host.encode(), "net.h": library.header.encode()}
    for name, data in {**files, "main.c": CALLS.encode()}.items():
        (tmp_path / name).write_bytes(data)
    assert "malloc" not in library.host and "#define NET_HEAP_BYTES 0\n" in library.header
    strict = "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=thread,undefined"
    command = ["gcc", *strict, "main.c", "net.c", "net.o", "-lpthread", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    undefined = subprocess.run(
        ["nm", "-u", "net.o"], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True
    )
    assert {line.split()[-1] for line in undefined.stdout.splitlines()} <= {"sin"}
    run_thread_sanitizer(tmp_path / "main")


@pytest.mark.parametrize(
    "text",
    [
        "func.func @main(%x: tensor<3xi32>) -> tensor<3xi32> { return %x : tensor<3xi32> }",
        "func.func @main(%x: tensor<3xf64>) { return }",
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        "  %0 = stablehlo.sine %x : tensor<3xf32>\n  return %0 : tensor<3xf32>\n}",
        "func.func @main(%x: tensor<90x90xf64>) -> tensor<90x90xf64> {\n"
        "  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]\n"
        "    : (tensor<90x90xf64>, tensor<90x90xf64>) -> tensor<90x90xf64>\n  return %0 : tensor<90x90xf64>\n}",
        f"func.func @main({', '.join(f'%x{i}: tensor<f64>' for i in range(255))}) -> tensor<f64> {{\n"
        "  %0 = stablehlo.add %x0, %x254 : tensor<f64>\n  return %0 : tensor<f64>\n}",
        "func.func @main(%x: tensor<3xf64>, %y: tensor<f64>) -> tensor<f64> {\n"
        "  %0 = stablehlo.reduce(%x init: %y) across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>\n"
        "   reducer(%a: tensor<f64>, %b: tensor<f64>) {\n    %1 = stablehlo.add %a, %b : tensor<f64>\n"
        "    stablehlo.return %a : tensor<f64>\n  }\n  return %0 : tensor<f64>\n}",
    ],
    ids=[
        "integers",
        "no result",
        "functions of f32",
        "many ops",
        "many arrays",
        "reduction that returns an operand",
    ],
)
def test_other_programs_keep_their_dispatches(text: str) -> None:
    """Programs with integer results, functions of f32, many ops, many arrays, or a reduction that returns an operand
    are not compiled to scalar ops.

    For functions of f32, IREE has code that needs no C library.
    """
    lowered = program(text).lower()
    assert compile_scalars(lowered, Interface.each_of(lowered, "net"), Options("x86_64")) is None


def test_an_object_file_has_no_unused_functions() -> None:
    """The object file contains only the functions of the library, without the conversions of f16 and the `memcpy` that
    IREE adds.
    """
    library = compile_library(program(STEP).lower(), "net", Options("x86_64"))
    assert set(read_elf(library.kernels).functions) == {"net_kernel", "net_library_query"}
