"""Static libraries of Jacobians whose basis vectors are computed side by side, as vectors of scalar ops."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from harness.scalars import evaluate, scalars
from harness.static_libraries import run_library

from tiduc.backends.iree.static.scalars.compile import scalars_of
from tiduc.dialect.mlir.context import parse
from tiduc.program import Program, from_module

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def layers(n: int, m: int, count: int = 4, element: str = "f64") -> Program:
    """A program of n results and m arguments in `count` layers, each with a matrix that the second argument scales.

    Each layer also chooses numbers by truth values, and divides.
    """
    x, y, s, square = (f"tensor<{d}x{element}>" for d in (m, n, 1, f"{n}x{n}"))
    rng = np.random.default_rng(0)
    first, inner = rng.standard_normal((n, m)).tolist(), (np.eye(n) + 0.1 * np.ones((n, n))).tolist()
    lines = [
        f"%first = stablehlo.constant dense<{first}> : tensor<{n}x{m}x{element}>",
        f"%inner = stablehlo.constant dense<{inner}> : {square}",
        f"%zero = stablehlo.constant dense<0.0> : {y}",
        f"%a = stablehlo.broadcast_in_dim %s, dims = [0] : ({s}) -> {square}",
        f"%b = stablehlo.multiply %inner, %a : {square}",
        f"%xx = stablehlo.multiply %x, %x : {x}",
        "%0 = stablehlo.dot_general %first, %xx, contracting_dims = [1] x [0] : "
        f"(tensor<{n}x{m}x{element}>, {x}) -> {y}",
    ]
    for i in range(count):
        v = [f"%v{i}_{k}" for k in range(5)]
        lines += [
            f"{v[0]} = stablehlo.dot_general %b, %{i}, contracting_dims = [1] x [0] : ({square}, {y}) -> {y}",
            f"{v[1]} = stablehlo.multiply {v[0]}, {v[0]} : {y}",
            f"{v[2]} = stablehlo.compare GT, {v[0]}, %zero : ({y}, {y}) -> tensor<{n}xi1>",
            f"{v[3]} = stablehlo.select {v[2]}, {v[1]}, {v[0]} : tensor<{n}xi1>, {y}",
            f"{v[4]} = stablehlo.divide {v[3]}, {v[1]} : {y}",
            f"%{i + 1} = stablehlo.add {v[4]}, {v[0]} : {y}",
        ]
    body = "\n".join(lines)
    return from_module(
        parse(f"func.func @main(%x: {x}, %s: {s}) -> {y} {{\n{body}\nreturn %{count} : {y}\n}}")
    )


def given(m: int, element: type = np.float64) -> list[np.ndarray[tuple[int, ...], np.dtype[np.floating]]]:
    return [np.random.default_rng(1).standard_normal(m).astype(element), np.array([0.7], element)]


@pytest.mark.parametrize("n, m", [(6, 9), (9, 6)])
def test_a_jacobian_by_vectors_is_that_of_the_reference(n: int, m: int) -> None:
    """The scalar ops for all basis vectors compute the reference's Jacobian, in reverse and in forward mode."""
    jacobian = layers(n, m).jacobian("x", value=True)
    found = scalars(jacobian)
    assert found is not None and found.places == min(n, m)
    wanted = jacobian.compile(engine="reference")(*given(m))
    for x, y in zip(evaluate(found, [a[None] for a in given(m)]), wanted, strict=True):
        np.testing.assert_allclose(x[0], y, rtol=1e-11, atol=1e-11)


@needs_gcc
@pytest.mark.more
@pytest.mark.parametrize("n, m, element", [(6, 9, "f64"), (5, 7, "f32"), (9, 6, "f64")])
def test_a_library_by_vectors(n: int, m: int, element: str, tmp_path: Path) -> None:
    """The compiled code computes the reference's Jacobian. The last vector repeats places of the vector before it."""
    jacobian = layers(n, m, element=element).jacobian("x", value=True)
    found, arrays = scalars(jacobian), given(m, np.float64 if element == "f64" else np.float32)
    assert found is not None and found.places == min(n, m)
    wanted, tolerance = jacobian.compile(engine="reference")(*arrays), 1e-11 if element == "f64" else 2e-3
    for x, y in zip(run_library(jacobian, arrays, tmp_path), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@needs_gcc
@pytest.mark.more
def test_a_hundred_examples_share_a_matrix(tmp_path: Path) -> None:
    """Code for a batch computes once what all examples share, and keeps it in memory for the vectors."""
    batched = layers(3, 3).jacobian("x", value=True).batch([0, None], 10)
    found, arrays = scalars(batched), [np.random.default_rng(1).standard_normal((10, 3)), np.array([0.7])]
    assert found is not None and found.places == 10
    wanted = batched.compile(engine="reference")(*arrays)
    for x, y in zip(run_library(batched, arrays, tmp_path), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


def test_jacobians_with_many_constants_or_zeros_are_unrolled() -> None:
    """Vectors are not used where they would store many constants, or compute many zeros of a Jacobian."""
    for program in (
        layers(6, 90, 1),
        from_module(
            parse("""func.func @main(%x: tensor<40xf64>) -> tensor<40xf64> {
          %0 = stablehlo.multiply %x, %x : tensor<40xf64>
          return %0 : tensor<40xf64>
        }""")
        ),
    ):
        found = scalars(program.jacobian("x"))
        assert found is not None and found.places == 1


def names(program: Program, finite: bool) -> Counter[str]:
    signature = program.signature
    found = scalars_of(program.lower().module.operation, signature.inputs, signature.outputs, finite)
    assert found is not None
    left, needed = [i for y in found.outputs for i in y.array.ids.ravel().tolist()], set[int]()
    while left:
        if (i := left.pop()) not in needed:
            needed.add(i)
            left += found.numbers.operands(i)
    return Counter(found.numbers.all[i].name for i in needed)


def test_tangents_are_multiplied_by_shared_reciprocals() -> None:
    """If all is finite, the basis vectors share the reciprocal of each denominator."""
    quotients = from_module(
        parse("""func.func @main(%x: tensor<3xf64>, %y: tensor<f64>) -> tensor<3xf64> {
      %0 = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f64>) -> tensor<3xf64>
      %1 = stablehlo.multiply %x, %x : tensor<3xf64>
      %2 = stablehlo.divide %1, %0 : tensor<3xf64>
      return %2 : tensor<3xf64>
    }""")
    )
    jacobian = quotients.jacobian("x")
    assert names(jacobian, False)["divide"] == 3 and names(jacobian, True)["divide"] == 1


def test_sines_of_opposite_differences_are_computed_once() -> None:
    """cos(y - x) is cos(x - y), and if all is finite, sin(y - x) is -sin(x - y)."""
    d = "stablehlo.subtract"
    mirrored = from_module(
        parse(f"""func.func @main(%x: tensor<f64>, %y: tensor<f64>)
        -> (tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {{
      %0 = {d} %x, %y : tensor<f64>
      %1 = {d} %y, %x : tensor<f64>
      %2 = {d} %x, %x : tensor<f64>
      %3 = stablehlo.sine %0 : tensor<f64>
      %4 = stablehlo.sine %1 : tensor<f64>
      %5 = stablehlo.cosine %0 : tensor<f64>
      %6 = stablehlo.cosine %1 : tensor<f64>
      return %3, %4, %5, %6, %2 : tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
    }}""")
    )
    for finite, sines, differences in ((False, 2, 3), (True, 1, 1)):
        found = names(mirrored, finite)
        assert (found["sine"], found["cosine"], found["subtract"]) == (sines, 1, differences)
    signature = mirrored.signature
    found = scalars_of(mirrored.lower().module.operation, signature.inputs, signature.outputs, True)
    assert found is not None
    results = evaluate(found, [np.array([0.3]), np.array([1.1])])
    wanted = [np.sin(-0.8), np.sin(0.8), np.cos(0.8), np.cos(0.8), 0]
    np.testing.assert_allclose([float(y[0]) for y in results], wanted, rtol=1e-15)
