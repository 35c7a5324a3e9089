"""Tests `tiduc check`: which wrong derivatives it detects, its report, finite differences, and conversion to f64."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seeded_errors import ERROR, Seed, is_caught, outcomes, seeded

import tiduc
from tiduc.checking.check import check, in_double
from tiduc.checking.comparisons import Comparison
from tiduc.checking.differences import derivatives
from tiduc.cli import run
from tiduc.program import Program

TANH = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
PRODUCT = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %z = stablehlo.multiply %x, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}"""
DYNAMIC = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.multiply %x, %y : tensor<?xf32>
  %1 = stablehlo.sine %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}"""


def engine(program: Program) -> Any:
    """A function that runs the program with the reference interpreter."""
    return program.compile(engine="reference")


def wrong(program: Program, *arguments: Any, **options: Any) -> list[Comparison]:
    """The comparisons of `tiduc check` that disagree, at a point."""
    return [c for c in check(program, arguments, engine, **options) if not c.agrees]


def randoms(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


# ---- what is caught


def test_errors_in_the_rules_most_used() -> None:
    """The check detects the error in each sampled rule of frequent ops; test/sweep/seeded_errors.py tests all rules."""
    counts = Counter(caught for _, caught in outcomes(60, every=8))
    assert counts[False] == 0 and counts[True] > 10, counts


@pytest.mark.parametrize(("text", "kind", "op"), [(TANH, "jvp", "tanh"), (PRODUCT, "transpose", "multiply")])
def test_an_error_in_single_precision(text: str, kind: str, op: str) -> None:
    """The check detects an error between the rounding errors of f64 and f32, because it converts the program to f64.

    It does not detect the error with `dtype="as-is"`.
    """
    arguments = randoms(*[(4,)] * text.count("%x: "), *[(4,)] * text.count("%y: "))
    opset = seeded(Seed(kind, f"stablehlo.{op}", 1, ()))
    assert wrong(tiduc.load(text), *arguments) == []
    actual = wrong(tiduc.load(text, opset=opset), *arguments)
    assert actual and all(0.1 * ERROR < c.error < 10 * ERROR and c.tolerance < 2e-6 for c in actual)
    assert wrong(tiduc.load(text, opset=opset), *arguments, dtype="as-is") == []


def test_a_small_derivative_beside_a_large_one() -> None:
    """The check detects a wrong small derivative, here of tanh, beside a derivative of 1e6."""
    text = """func.func @main(%x: tensor<f64>, %y: tensor<2xf64>) -> (tensor<2xf64>, tensor<f64>) {
      %k = stablehlo.constant dense<1.0e6> : tensor<2xf64>
      %0 = stablehlo.multiply %y, %k : tensor<2xf64>
      %1 = stablehlo.tanh %x : tensor<f64>
      %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %3 = stablehlo.add %0, %2 : tensor<2xf64>
      return %3, %1 : tensor<2xf64>, tensor<f64>
    }"""
    point = np.array(0.3), np.array([0.7, -0.4])
    program = tiduc.load(text, opset=seeded(Seed("jvp", "stablehlo.tanh", 1, ())))
    names = {c.name.partition(",")[0] for c in wrong(program, *point)}
    assert {"tangent of result1", "cotangent of x"} <= names
    assert wrong(tiduc.load(text), *point) == []


def test_order_two() -> None:
    """An error in the rule of cosine is found in the second derivative of sine, and not in the first."""
    text = TANH.replace("tanh", "sine")
    opset = seeded(Seed("jvp", "stablehlo.cosine", 1, ()))
    program, (x,) = tiduc.load(text, opset=opset), randoms((4,))
    assert wrong(program, x) == []
    names = {c.name.partition(":")[0] for c in wrong(program, x, order=2)}
    assert names == {"JVP", "VJP"}
    assert wrong(tiduc.load(text), x, order=2) == []


def test_dynamic_shapes() -> None:
    x, y = randoms((5,), (5,))
    assert wrong(tiduc.load(DYNAMIC), x, y) == []
    program = tiduc.load(DYNAMIC, opset=seeded(Seed("transpose", "stablehlo.multiply", 1, ())))
    assert {c.name.partition(",")[0] for c in wrong(program, x, y)} == {
        "cotangent of x",
        "cotangent of y",
    }


def test_reverse_alone() -> None:
    """The check of a function with a custom VJP needs `modes=["rev"]`, because such a function has no JVP."""
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {tidu.vjp = @pull} {
      %y = stablehlo.sine %x : tensor<3xf32>
      return %y : tensor<3xf32>
    }
    func.func private @pull(%x: tensor<3xf32>, %ct: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.cosine %x : tensor<3xf32>
      %1 = stablehlo.multiply %0, %ct : tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    (x,) = randoms((3,))
    with pytest.raises(tiduc.Unsupported, match="defines its derivative as the VJP"):
        wrong(tiduc.load(text), x)
    assert wrong(tiduc.load(text), x, modes=["rev"]) == []
    assert wrong(tiduc.load(text.replace("cosine", "tanh")), x, modes=["rev"])


def test_a_point_where_nothing_is_finite() -> None:
    program = tiduc.load(TANH.replace("tanh", "log"))
    with pytest.raises(tiduc.InputError, match="result0 is not finite at these arguments"):
        wrong(program, -np.ones(4, np.float32))
    masked = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %c = stablehlo.constant dense<[0xFF800000, 0.0]> : tensor<2xf32>
      %y = stablehlo.add %x, %c : tensor<2xf32>
      return %y : tensor<2xf32>
    }"""
    assert wrong(tiduc.load(masked), *randoms((2,))) == []  # skips the element that is not finite


def test_invalid_options() -> None:
    for options in ({"modes": []}, {"modes": ["both"]}, {"dtype": "f16"}, {"order": 3}):
        with pytest.raises(tiduc.RequestError, match="invalid modes, dtype or order"):
            wrong(tiduc.load(TANH), *randoms((4,)), **options)


# ---- the command


def told(capsysbinary: Any, *words: str) -> tuple[int, str]:
    status = run(["check", *words, "--engine", "reference"])
    return status, capsysbinary.readouterr().out.decode()


def test_the_report(capsysbinary: Any, tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(
        "import tiduc\nOPSET = tiduc.OPSET.extended()\n"
        "OPSET.elementwise('stablehlo.tanh', lambda b, x, y: b.constant(1, y))\n"
    )
    (tmp_path / "f.mlir").write_text(TANH)
    file, rules = str(tmp_path / "f.mlir"), str(tmp_path / "rules.py")
    status, out = told(capsysbinary, file)
    assert status == 0 and "(tolerance 1.0e-06)" in out and "(tolerance 1.0e-08)" in out
    status, out = told(
        capsysbinary, file, "--rules", rules, "--input", "0.1", "--modes", "fwd", "--rtol", "1e-3"
    )
    assert status == 1
    assert "central differences: relative error 1.0e-02 along x (tolerance 1.0e-03)\n" in out
    assert "cotangent" not in out
    status, out = told(capsysbinary, file, "--rules", rules, "--input", "0.1", "--rtol", "2e-2")
    assert status == 0
    status, out = told(capsysbinary, file, "--dtype", "as-is", "--json")
    assert status == 0 and json.loads(out)["comparisons"][0]["tolerance"] > 1e-3
    assert told(capsysbinary, file, "--modes", "fwd,both")[0] == 2
    assert told(capsysbinary, file, "--input", "4xf64=0.1")[0] == 0  # the type after conversion to f64
    assert told(capsysbinary, file, "--input", "3xf32=0.1")[0] == 1


WRONG = """func.func @main(%x: tensor<3xf64>, %n: tensor<i32>) -> tensor<3xf64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.exponential %x : tensor<3xf64>
  %r:2 = stablehlo.while(%i = %zero, %a = %0) : tensor<i32>, tensor<3xf64>
    cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.tanh %a : tensor<3xf64>
    %c = func.call @square(%s) : (tensor<3xf64>) -> tensor<3xf64>
    stablehlo.return %j, %c : tensor<i32>, tensor<3xf64>
  }
  %1 = stablehlo.multiply %r#1, %0 : tensor<3xf64>
  return %1 : tensor<3xf64>
}
func.func private @square(%x: tensor<3xf64>) -> tensor<3xf64> attributes {tidu.jvp = @jvp} {
  %0 = stablehlo.multiply %x, %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func private @jvp(%x: tensor<3xf64>, %dx: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %0 = stablehlo.multiply %x, %x : tensor<3xf64>
  %1 = stablehlo.multiply %x, %dx : tensor<3xf64>
  %2 = stablehlo.SUM %1, %1 : tensor<3xf64>
  return %0, %2 : tensor<3xf64>, tensor<3xf64>
}
"""


@pytest.mark.parametrize(
    ("total", "rule", "op"),
    [
        ("add", None, None),
        ("subtract", None, "12:10: the JVP of call @square"),
        ("add", "tanh", "11:10: the JVP of tanh"),
    ],
)
def test_the_op_at_fault(
    capsysbinary: Any, tmp_path: Path, total: str, rule: str | None, op: str | None
) -> None:
    """If the rule or the custom JVP of an op in a loop is wrong, the report names the line of that op and no other."""
    file, rules = tmp_path / "f.mlir", tmp_path / "rules.py"
    file.write_text(WRONG.replace("SUM", total))
    rules.write_text(
        "import tiduc\nOPSET = tiduc.OPSET.extended()\n"
        + (f"OPSET.elementwise('stablehlo.{rule}', lambda b, x, y: b.constant(1, y))\n" if rule else "")
    )
    status, out = told(capsysbinary, str(file), "--rules", str(rules), "--input", "random", "--input", "n=2")
    assert status == (op is not None)
    faults = [line for line in out.splitlines() if "is at fault" in line]
    assert len(faults) == (op is not None)
    if op is not None:
        assert faults[0].startswith(f"{file}:{op} is at fault: relative error ")
        assert out.splitlines()[-1].strip() == "^"


def test_no_op_at_fault(capsysbinary: Any, tmp_path: Path) -> None:
    """If only the values given by --expect are wrong, the report names no op, in text and in JSON."""
    file = tmp_path / "f.mlir"
    np.savez(tmp_path / "e.npz", **{"grad.0": np.zeros(4, np.float32), "input.0": np.ones(4, np.float32)})
    file.write_text(
        TANH.replace("-> tensor<4xf32>", "-> tensor<f32>").replace(
            "return %y : tensor<4xf32>",
            """%c = stablehlo.constant dense<0.0> : tensor<f32>
  %z = stablehlo.reduce(%y init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %z : tensor<f32>""",
        )
    )
    status, out = told(capsysbinary, str(file), "--expect", str(tmp_path / "e.npz"))
    assert status == 1 and "the derivative of each op agrees by itself" in out
    status, out = told(capsysbinary, str(file), "--expect", str(tmp_path / "e.npz"), "--json")
    assert status == 1 and json.loads(out)["ops_at_fault"] == []


# ---- its parts


def test_differences_of_smooth_functions() -> None:
    def values(h: float) -> list[Any]:
        x = np.array([0.1, 1.0, 7.0]) + h
        return [np.exp(x), np.sin(40 * x), 1e6 + x**3]

    x = np.array([0.1, 1.0, 7.0])
    for known, exact in zip(
        derivatives(values, 2e-16, 1e-9), [np.exp(x), 40 * np.cos(40 * x), 3 * x**2], strict=True
    ):
        largest = np.max(np.abs(exact))
        assert np.all(np.abs(known.value - exact) < 2e-9 * largest)
        assert np.all(known.uncertainty < 1e-6 * largest)


def test_differences_beside_a_kink() -> None:
    """Finite differences of |x| are right for an element near 0 and for an element at 1.

    Steps that cross the kink at 0 are ignored, but only for the element near 0.
    """
    (known,) = derivatives(lambda h: [np.abs(np.array([1e-5, 1.0]) + h)], 2e-16, 1e-9)
    np.testing.assert_allclose(known.value, [1, 1], rtol=1e-9)


def test_differences_of_noise() -> None:
    generator = np.random.default_rng(0)
    (known,) = derivatives(lambda h: [np.ones(3) + h + 1e-9 * generator.standard_normal(3)], 2e-16, 1e-9)
    assert np.all(np.abs(known.value - 1) < 1e-3) and np.all(known.uncertainty > 1e-8)


CONSTANTS = (
    "stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf16>",
    "stablehlo.constant dense<0x7F800000> : tensor<2xf32>",
    "stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>",
)


@pytest.mark.parametrize("constant", CONSTANTS)
def test_widened_constants(constant: str) -> None:
    """The conversion to f64 keeps the values of constants, and adds no `convert` op."""
    type_ = constant.rpartition(" : ")[2]
    program = tiduc.load(f"func.func @main() -> {type_} {{\n%y = {constant}\nreturn %y : {type_} }}")
    wide = in_double(program)
    assert "stablehlo.convert" not in str(wide.graphs) and "f64" in str(wide.outputs[0].type)
    narrow = engine(program)()[0]
    np.testing.assert_array_equal(engine(wide)()[0], narrow.astype(complex if "complex" in type_ else float))


def test_a_widened_resource() -> None:
    """The program in f64 converts the resource at run time, because the bindings do not expose its elements."""
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %c = stablehlo.constant dense_resource<w> : tensor<2xf32>
      %y = stablehlo.add %x, %c : tensor<2xf32>
      return %y : tensor<2xf32>
    }
    {-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}"""
    np.testing.assert_array_equal(engine(in_double(tiduc.load(text)))(np.zeros(2))[0], [1, 2])


def test_a_seed_that_no_program_shows() -> None:
    assert is_caught(Seed("jvp", "stablehlo.tanh", 0, ())) is None
