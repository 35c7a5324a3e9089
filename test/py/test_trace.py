"""`tiduc.trace` and `tiduc trace`: values, tangents and cotangents of each op in each iteration, and the op that first
computes a NaN.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.example_files import EXAMPLES

import tiduc
from tiduc import Program, RequestError, RunTrace, trace
from tiduc.backends.backend import Runnable
from tiduc.checking.comparisons import Call
from tiduc.cli import run
from tiduc.runtime.arrays import Array
from tiduc.tracing.runs import traced
from tiduc.tracing.survey import graph_in, survey

BRANCHES = """func.func @main(%x: tensor<3xf64>, %p: tensor<i1>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.exponential %x : tensor<3xf64>
  %1 = "stablehlo.if"(%p) ({
    %a = stablehlo.multiply %0, %x : tensor<3xf64>
    stablehlo.return %a : tensor<3xf64>
  }, {
    %b = stablehlo.negate %0 : tensor<3xf64>
    stablehlo.return %b : tensor<3xf64>
  }) : (tensor<i1>) -> tensor<3xf64>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  return %2 : tensor<f64>
}
"""

# In pseudocode: s = x; for i < n { for j < i { s = sin(s) }; s = OP(s) * x }
NESTED = """func.func @main(%x: tensor<2xf64>, %n: tensor<i32>) -> tensor<2xf64> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %a = %x) : tensor<i32>, tensor<2xf64>
    cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s:2 = stablehlo.while(%j = %c0, %b = %a) : tensor<i32>, tensor<2xf64>
      cond {
      %q = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %j, %c1 : tensor<i32>
      %t = stablehlo.sine %b : tensor<2xf64>
      stablehlo.return %k, %t : tensor<i32>, tensor<2xf64>
    }
    %l = stablehlo.add %i, %c1 : tensor<i32>
    %o = stablehlo.OP %s#1 : tensor<2xf64>
    %m = stablehlo.multiply %o, %x : tensor<2xf64>
    stablehlo.return %l, %m : tensor<i32>, tensor<2xf64>
  }
  return %r#1 : tensor<2xf64>
}
"""
SINE, OP, PRODUCT = "15.sine", "19", "20.multiply"


def interpreted(program: Program) -> Runnable:
    return program.compile(engine="reference")


def of(text: str, *arguments: Any, **options: Any) -> RunTrace:
    options.setdefault("run", interpreted)
    return trace(tiduc.load(text), arguments, **options)


def nested(x: np.ndarray[Any, Any], n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of the ops of NESTED, where OP is a cosine, and their cotangents if the cotangent of the result is
    one.
    """
    sines, outer, steps = np.zeros((n, n - 1, 2)), [], []
    s = x
    for i in range(n):
        for j in range(i):
            steps.append((i, j, s))
            s = sines[i, j] = np.sin(s)
        outer.append((s, np.cos(s)))
        s = np.cos(s) * x
    values = {SINE: sines, f"{OP}.cosine": np.array([o for _, o in outer]), PRODUCT: outer}
    ct = np.ones(2)
    of_sines, of_op, of_product = np.zeros((n, n - 1, 2)), np.zeros((n, 2)), np.zeros((n, 2))
    for i in reversed(range(n)):
        of_product[i], of_op[i] = ct, ct * x
        ct = -np.sin(outer[i][0]) * of_op[i]
        for k, j, before in reversed(steps):
            if k == i:
                of_sines[i, j] = ct
                ct = np.cos(before) * ct
    values[PRODUCT] = np.array([o * x for _, o in outer])
    return values, {SINE: of_sines, f"{OP}.cosine": of_op, PRODUCT: of_product}


# ---- values and derivatives ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [True, False])
def test_values_and_cotangents_of_branches(taken: bool) -> None:
    """The ops of the branch that ran have values and cotangents. Ops of the other branch are reported as not run."""
    x = np.array([0.5, -1.0, 2.0])
    got = of(BRANCHES, x, np.array(taken), derivative="vjp")
    rows = {row.name: row for row in got.rows}
    np.testing.assert_allclose(got.arrays["3.exponential"], np.exp(x))
    assert rows["5.multiply"].value.ran == taken and rows["8.negate"].value.ran != taken
    name, value = ("5.multiply", np.exp(x) * x) if taken else ("8.negate", -np.exp(x))
    np.testing.assert_allclose(got.arrays[name], value)
    np.testing.assert_allclose(rows[name].value.norm, np.linalg.norm(value))
    assert (rows[name].value.low, rows[name].value.high) == (value.min(), value.max())
    np.testing.assert_allclose(got.arrays["3.exponential.cotangent"], x if taken else -np.ones(3))
    np.testing.assert_allclose(got.arrays[f"{name}.cotangent"], np.ones(3))
    np.testing.assert_allclose(got.arrays["x.cotangent"], np.exp(x) * (1 + x) if taken else -np.exp(x))
    assert rows["p"].derivative is None and not got.origins


@pytest.mark.parametrize("limit", [2**28, 100])  # in bytes; 100 bytes split loops into several runs
def test_loops_by_iteration(limit: int) -> None:
    """The values and cotangents of ops in nested loops are right in each iteration.

    The trip count of the inner loop depends on the outer iteration.
    """
    x = np.array([0.4, 1.3])
    got = of(NESTED.replace("OP", "cosine"), x, np.int32(4), derivative="vjp", limit=limit)
    values, cotangents = nested(x, 4)
    ran = {row.name: row.value.ran for row in got.rows}
    np.testing.assert_array_equal(ran[SINE], np.tri(4, 3, -1, bool))
    for name, value in values.items():
        np.testing.assert_allclose(got.arrays[name], value, atol=1e-15)
        np.testing.assert_allclose(got.arrays[f"{name}.cotangent"], cotangents[name], rtol=1e-12, atol=1e-15)


def test_tangents_by_iteration() -> None:
    """The tangents of a product in a loop equal finite differences, for each iteration."""
    x, dx = np.array([0.4, 1.3]), np.array([1.0, -2.0])
    got = of(NESTED.replace("OP", "cosine"), x, np.int32(3), dx, derivative="jvp", only=["multiply"])
    step = 1e-6
    high, low = (nested(x + h * dx, 3)[0][PRODUCT] for h in (step, -step))
    np.testing.assert_allclose(got.arrays[f"{PRODUCT}.tangent"], (high - low) / (2 * step), rtol=1e-7)
    assert list(got.arrays) == [PRODUCT, "x.tangent", f"{PRODUCT}.tangent"]


def test_a_cotangent_is_that_of_one_value() -> None:
    """The cotangents of x and of x + 1 differ, because x is also read by another op. Their tangents are equal."""
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %one = stablehlo.constant dense<1.0> : tensor<f64>
      %0 = stablehlo.add %x, %one : tensor<f64>
      %1 = stablehlo.multiply %0, %x : tensor<f64>
      return %1 : tensor<f64>
    }"""
    got = of(text, np.array(3.0), derivative="vjp")
    assert (got.arrays["3.add.cotangent"], got.arrays["x.cotangent"]) == (3.0, 7.0)


def test_wrt() -> None:
    """Values that do not depend on the inputs in `wrt` have no cotangents."""
    text = """func.func @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
      %0 = stablehlo.sine %x : tensor<f64>
      %1 = stablehlo.cosine %y : tensor<f64>
      %2 = stablehlo.multiply %0, %1 : tensor<f64>
      return %2 : tensor<f64>
    }"""
    got = of(text, np.array(1.0), np.array(2.0), derivative="vjp", wrt="y")
    names = {name for name in got.arrays if name.endswith(".cotangent")}
    assert names == {"y.cotangent", "3.cosine.cotangent", "4.multiply.cotangent"}


def test_a_derivative_is_traced() -> None:
    """The trace of a derivative shows the ops of its lowered form.

    Each has the location of the op that it differentiates.
    """
    program = tiduc.load(NESTED.replace("OP", "cosine")).vjp()
    got = trace(program, [np.array([0.4, 1.3]), np.int32(3), np.ones(2)], run=interpreted)
    assert {row.op for row in got.rows} >= {"sine", "cosine", "while"}
    assert any(row.op == "cosine" and ":15:" in row.place for row in got.rows)  # the slope of the sine


def test_runs_keep_to_the_limit() -> None:
    """No run of the traced program returns more bytes of values than the limit allows."""
    returned: list[int] = []

    def spied(program: Program) -> Call:
        compiled = interpreted(program)

        def call(*arguments: Array) -> Sequence[Array]:
            results = compiled(*arguments)
            returned.append(sum(x.nbytes for x in results))
            return results

        return call

    text, x = NESTED.replace("OP", "cosine"), np.array([0.4, 1.3])
    whole = of(text, x, np.int32(8))
    some = of(text, x, np.int32(8), limit=1000, run=spied)
    assert max(returned) <= 1000 and len(returned) > 3
    assert all(np.array_equal(whole.arrays[name], x) for name, x in some.arrays.items())
    assert of(text, x, np.int32(8), place=None).arrays == {}


# ---- the first NaN -------------------------------------------------------------------------------------------------


def origin(text: str, *arguments: Any, **options: Any) -> list[tuple[str, str, str, tuple[int, ...]]]:
    got = of(text, *arguments, place=None, **options)
    return [(x.kind, x.op, x.place.removeprefix("-:"), x.iteration) for x in got.origins]


def test_the_first_nan_in_a_loop() -> None:
    """The first NaN, from the logarithm of a negative number, is reported with its iteration.

    Later ops, which only propagate the NaN, are not reported.
    """
    x = np.array([0.9, 2.0])
    log = NESTED.replace("OP", "log")
    assert origin(log, x, np.int32(4)) == [("NaN", "stablehlo.log", "19:10", (1,))]
    assert origin(log, x, np.int32(4), limit=64) == [("NaN", "stablehlo.log", "19:10", (1,))]
    assert origin(log, np.array([2.0, 2.0]), np.int32(1)) == []


def test_an_infinity_before_a_nan() -> None:
    """If log 0 gives an infinity, and its product with 0 a NaN, both ops are reported."""
    x = np.array([0.0, 2.0])
    assert origin(NESTED.replace("OP", "log"), x, np.int32(1)) == [
        ("NaN", "stablehlo.multiply", "20:10", (0,)),
        ("infinity", "stablehlo.log", "19:10", (0,)),
    ]


def test_a_nan_of_a_derivative() -> None:
    """A NaN in a derivative is reported with the op that is differentiated, here the square root at 0.

    All values are finite.
    """
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %0 = stablehlo.multiply %x, %x : tensor<f64>
      %1 = stablehlo.sqrt %0 : tensor<f64>
      return %1 : tensor<f64>
    }"""
    assert origin(text, np.array(0.0)) == []
    found = of(text, np.array(0.0), derivative="vjp").origins
    assert {(x.op, x.place, x.derivative) for x in found} <= {
        ("stablehlo.sqrt", "-:3:12", "vjp"),
        ("stablehlo.multiply", "-:2:12", "vjp"),
    }
    assert found[-1].op == "stablehlo.sqrt"


def test_masks_and_inputs() -> None:
    """A constant that is not finite, such as a mask, is not reported as an origin.

    An input with a NaN is, and so is an op that selects a constant NaN.
    """
    text = """func.func @main(%x: tensor<2xf64>, %p: tensor<2xi1>) -> tensor<2xf64> {
      %c = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
      %least = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %0 = stablehlo.select %p, %x, %least : tensor<2xi1>, tensor<2xf64>
      %1 = stablehlo.exponential %0 : tensor<2xf64>
      return %1 : tensor<2xf64>
    }"""
    p = np.array([True, False])
    assert origin(text, np.array([1.0, 2.0]), p) == []
    assert origin(text, np.array([np.nan, 2.0]), p) == [("NaN", "x", "", ())]
    text = text.replace("0xFFF0000000000000", "0x7FF8000000000000")
    assert origin(text, np.array([1.0, 2.0]), np.array([True, True])) == []
    assert origin(text, np.array([1.0, 2.0]), p) == [("NaN", "stablehlo.select", "4:12", ())]


# ---- requests ------------------------------------------------------------------------------------------------------


def test_names() -> None:
    """Ops can be selected by line, by line and column, and by op name with or without the dialect.

    Invalid requests are refused.
    """
    x = [np.array([0.5, -1.0, 2.0]), np.array(True)]
    for only in ("3", "3:8", "exponential", "stablehlo.exponential"):
        got = of(BRANCHES, *x, only=[only])
        assert [row.name for row in got.rows if row.site is not None] == ["3.exponential"]
    with pytest.raises(RequestError, match=r"no op is named 'tanh'.*exponential, if, multiply"):
        of(BRANCHES, *x, only=["tanh"])
    with pytest.raises(RequestError, match="jvp or vjp"):
        of(BRANCHES, *x, derivative="grad")
    with pytest.raises(tiduc.InputError, match="takes 2 arguments"):
        of(BRANCHES, x[0])


def test_every_op_of_a_program_has_a_row() -> None:
    """Each op of a program has a row in the trace: tracing neither merges nor reorders ops."""
    program = tiduc.load(EXAMPLES / "mlp_f32.mlir")
    lines = (EXAMPLES / "mlp_f32.mlir").read_text().splitlines()
    sites = survey(graph_in(program.graphs, "main")).sites
    written = [line.split("= ")[1].split()[0].partition("(")[0] for line in lines if "= stablehlo." in line]
    assert [site.name for site in sites] == written
    assert traced(program, [], interpreted).found.sites == sites


# ---- the command line ----------------------------------------------------------------------------------------------


def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "f.mlir", tmp_path / "f.npz"
    file.write_text(NESTED.replace("OP", "log"))
    line = ["trace", str(file), "--engine", "reference", "--input", "0.9,2.0", "--input"]
    assert run([*line, "4", "--first-bad"]) == 1
    printed = capfd.readouterr().out.splitlines()
    assert printed[0] == f"{file}:19:10: first NaN: made by log in iteration 1, in one element"
    assert printed[1:] == ["    %o = stablehlo.log %s#1 : tensor<2xf64>", "         ^"]
    assert run([*line, "1", "--first-bad"]) == 0
    assert run([*line, "4", "-o", str(out), "--iterations", "1"]) == 0
    table = capfd.readouterr().out
    with np.load(out) as arrays:
        assert arrays["19.log"].shape == (4, 2) and arrays["15.sine"].shape == (4, 3, 2)
    rows = [line.split() for line in table.splitlines() if line.lstrip().startswith("log")]
    assert [row[3] for row in rows] == ["1", "3"]  # the first NaN, and the last iteration
    assert run([*line, "4", "--derivative", "vjp", "--json"]) == 0
    data = json.loads(capfd.readouterr().out)
    row = next(row for row in data["rows"] if row["name"] == "19.log")
    assert row["value"]["nans"] == [0, 1, 2, 2] and row["value"]["norm"][1:] == [None] * 3
    assert len(row["cotangent"]["norm"]) == 4
    assert data["first"][0] | {"place": ""} == {
        "kind": "NaN",
        "op": "stablehlo.log",
        "place": "",
        "iteration": [1],
        "elements": 1,
        "derivative": None,
    }
    assert run([*line[:2], "--picture", "f.txt"]) == 1
    assert "must end in .svg or .png" in capfd.readouterr().err
