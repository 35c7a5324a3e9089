"""Tests `explain`: FLOPs, compared with formulas and XLA's analysis; residuals; kinks; and the command."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from harness.example_files import EXAMPLES
from harness.exports import exported
from jax import lax
from jax import numpy as jnp

from tiduc.cli import run
from tiduc.dialect.mlir.context import parse
from tiduc.explain import Explanation, as_json, explain, lowered
from tiduc.explain.costs import Cost, find_cost
from tiduc.explain.kinks import CHOICES, KINKS
from tiduc.explain.orders import predict
from tiduc.loading import load
from tiduc.passes.rematerialize import cheap
from tiduc.program import from_module
from tiduc.splitting import split

ROOT = Path(__file__).parents[2]


def explained(text: str, wrt: Any = None) -> Explanation:
    module = parse(text)
    return explain(module, from_module(module), wrt)


def cost(text: str) -> Cost:
    return find_cost(load(text))


def of(body: str, result: str, *types: str) -> str:
    """A program with the ops `body`, which returns %y. Its arguments %arg0, %arg1, ... have these types."""
    arguments = ", ".join(f"%arg{i}: tensor<{t}>" for i, t in enumerate(types))
    return (
        f"func.func @main({arguments}) -> tensor<{result}> {{\n{body}\n  return %y : tensor<{result}>\n}}\n"
    )


# ---- FLOPs -------------------------------------------------------------------------------------------------

X, Y = jnp.ones((6, 5), jnp.float32), jnp.ones((5, 7), jnp.float32)
IMAGE, KERNEL = jnp.ones((2, 9, 9, 3), jnp.float32), jnp.ones((3, 3, 3, 4), jnp.float32)
CONVOLUTION = {"window_strides": (1, 1), "padding": "VALID", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (lambda x, y: x @ y, (X, Y)),
        (lambda x: jnp.einsum("bij,bjk->bik", x, x), (jnp.ones((3, 4, 4), jnp.float32),)),
        (lambda x, k: lax.conv_general_dilated(x, k, **CONVOLUTION), (IMAGE, KERNEL)),
        (lambda x: jnp.sum(x, 1), (X,)),
        (lambda x: x * x + x - jnp.abs(x), (X,)),
        (lambda x: jnp.exp(x) * jnp.tanh(x), (X,)),
    ],
    ids=["matmul", "batched", "convolution", "sum", "elementwise", "functions"],
)
def test_as_xla_counts(f: Any, arguments: Any) -> None:
    """The counts of FLOPs and of transcendental functions equal XLA's, for ops that XLA counts by equal formulas."""
    analysis = jax.jit(f).lower(*arguments).cost_analysis()
    ours = cost(exported(f, *arguments))
    assert ours.flops == analysis["flops"] + analysis.get("transcendentals", 0)
    assert ours.transcendentals == analysis.get("transcendentals", 0)


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        (of("%y = stablehlo.multiply %arg0, %arg0 : tensor<4xcomplex<f32>>", "4xcomplex<f32>", "4xcomplex<f32>"), 24),
        (of("%y = stablehlo.add %arg0, %arg0 : tensor<4xi32>", "4xi32", "4xi32"), 0),
        (of("%y = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>", "3x2xf32",
            "2x3xf32"), 0),
        (of("%y = stablehlo.cholesky %arg0 : tensor<6x6xf64>", "6x6xf64", "6x6xf64"), 72),
        (of("%y = stablehlo.fft %arg0, type = FFT, length = [8] : (tensor<3x8xcomplex<f32>>) -> "
            "tensor<3x8xcomplex<f32>>", "3x8xcomplex<f32>", "3x8xcomplex<f32>"), 3 * 5 * 8 * 3),
        (of("%y = stablehlo.fft %arg0, type = RFFT, length = [8] : (tensor<3x8xf32>) -> tensor<3x5xcomplex<f32>>",
            "3x5xcomplex<f32>", "3x8xf32"), 3 * 5 * 8 * 3 // 2),
    ],
    ids=["complex", "integers", "transpose", "cholesky", "fft", "rfft"],
)  # fmt: skip
def test_formulas(text: str, flops: int) -> None:
    assert cost(text).flops == flops


def test_loops_are_counted_by_their_trip_counts() -> None:
    def loops(x: Any) -> Any:
        return lax.fori_loop(0, 7, lambda i, y: lax.fori_loop(0, 3, lambda j, z: z * z, y), x)

    costs = cost(exported(loops, jnp.ones(4, jnp.float32)))
    assert costs.flops == 7 * 3 * 4 and not costs.unknown_loops
    assert [op.times for op in costs.ops if op.op == "multiply"] == [21]


def test_a_loop_of_unknown_length_counts_once() -> None:
    costs = find_cost(load(EXAMPLES / "newton.mlir"))
    assert [place.rsplit("/", 1)[1] for place in costs.unknown_loops] == ["newton.mlir:6:11"]
    assert costs.flops == 3 + 2 * 4  # the loop's body is counted once, and its condition twice


def test_the_most_expensive_branch_counts() -> None:
    def branches(i: Any, x: Any) -> Any:
        return lax.switch(i, [lambda x: x, lambda x: x * x + x, lambda x: x * x], x)

    assert cost(exported(branches, 0, jnp.ones(8, jnp.float32))).flops == 16


def test_calls_count_each_time() -> None:
    text = """
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.multiply %x, %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    """
    assert cost(text).flops == 16


def test_a_program_in_a_nested_module_is_explained(tmp_path: Path) -> None:
    (tmp_path / "nested.mlir").write_text(
        "module {\n  module @inner {\n    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        "      %0 = stablehlo.sine %x : tensor<3xf32>\n      return %0 : tensor<3xf32>\n    }\n  }\n}\n"
    )
    output = tmp_path / "explained"
    assert run(["explain", f"{tmp_path / 'nested.mlir'}", "-o", f"{output}"]) == 0
    assert "@main" in output.read_text()


def test_uncounted_ops_are_reported() -> None:
    text = of("%y = stablehlo.custom_call @mine(%arg0) : (tensor<4xf32>) -> tensor<4xf32>", "4xf32", "4xf32")
    assert cost(text).uncounted == ("@mine",)
    assert cost(of("%y = stablehlo.negate %arg0 : tensor<?xf32>", "?xf32", "?xf32")).open_sizes


def test_bytes() -> None:
    add = of("%y = stablehlo.add %arg0, %arg1 : tensor<8xf32>", "8xf32", "8xf32", "8xf32")
    assert cost(add).bytes == 3 * 32
    sliced = of("%y = stablehlo.slice %arg0 [0:2] : (tensor<1000xf64>) -> tensor<2xf64>", "2xf64", "1000xf64")
    assert cost(sliced).bytes == 2 * 16
    compared = of(
        "%y = stablehlo.compare LT, %arg0, %arg0 : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xi1>",
        "8xi1",
        "8xf16",
    )
    assert cost(compared).bytes == 2 * 16 + 8


def test_a_gradient_costs_about_three_times_the_program() -> None:
    for name in ("mlp_f32", "transformer_f32", "convnet_f32"):
        program = load(EXAMPLES / f"{name}.mlir")
        ratio = find_cost(lowered(program.vjp())).flops / find_cost(lowered(program)).flops
        assert 2.5 < ratio < 3.5


# ---- residuals ---------------------------------------------------------------------------------------------


def kept(text: str, wrt: Any = None) -> list[tuple[str, int | None]]:
    return [(x.name, x.bytes) for x in explained(text, wrt).residuals if not x.is_argument]


def test_residuals() -> None:
    exp = """  %0 = stablehlo.multiply %arg0, %arg1 : tensor<8xf64>
  %1 = stablehlo.exponential %0 : tensor<8xf64>
  %y = stablehlo.negate %1 : tensor<8xf64>"""
    assert kept(of(exp, "8xf64", "8xf64", "8xf64")) == [("exponential", 64)]
    square = "  %0 = stablehlo.tanh %arg0 : tensor<8xf64>\n  %y = stablehlo.multiply %0, %0 : tensor<8xf64>"
    assert kept(of(square, "8xf64", "8xf64")) == [("tanh", 64)]
    linear = "  %0 = stablehlo.negate %arg0 : tensor<8xf64>\n  %y = stablehlo.add %0, %arg0 : tensor<8xf64>"
    assert kept(of(linear, "8xf64", "8xf64")) == []


def test_residuals_are_what_split_passes() -> None:
    program = load(EXAMPLES / "convnet_f32.mlir")
    explanation = explain(parse((EXAMPLES / "convnet_f32.mlir").read_text()), program)
    passed = split(program).residuals
    assert len(explanation.residuals) == len(passed)
    assert sum(x.bytes or 0 for x in explanation.residuals) == sum(x.bytes or 0 for x in passed)
    assert [x.is_argument for x in explanation.residuals] == sorted(
        x.is_argument for x in explanation.residuals
    )


def test_broadcasts_are_kept_as_their_operands() -> None:
    body = """  %0 = stablehlo.tanh %arg0 : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1000xf32>
  %y = stablehlo.multiply %1, %arg1 : tensor<1000xf32>"""
    assert kept(of(body, "1000xf32", "f32", "1000xf32")) == [("tanh", 4)]


def test_residuals_of_a_loop() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda y, _: (jnp.sin(y) * y, None), x, None, length=10)[0]

    text = exported(f, jnp.ones(16, jnp.float32))
    explanation = explained(text)
    assert explanation.residual_bytes >= 10 * 16 * 4
    assert all(x.bytes is not None and x.bytes <= 10 * 16 * 4 for x in explanation.residuals)


def test_an_example() -> None:
    explanation = explain(parse((EXAMPLES / "mlp_f32.mlir").read_text()), load(EXAMPLES / "mlp_f32.mlir"))
    assert [(x.name, x.type) for x in explanation.residuals if not x.is_argument] == [
        ("tanh", "32x64xf32"),
        ("tanh", "32x64xf32"),
        ("subtract", "32x4xf32"),
    ]
    assert explanation.residual_bytes == 2 * 32 * 64 * 4 + 32 * 4 * 4
    dots = 2 * 32 * (16 * 64 + 64 * 64 + 64 * 4)
    assert explanation.costs["primal"].flops == dots + 32 * (64 * 4 + 4 * 3) + 32 * 4 - 1 + 1
    assert {op.op for op in explanation.most_expensive} == {"dot_general"} and len(
        explanation.most_expensive
    ) == 5


# ---- reasons of inactivity, and kinks ----------------------------------------------------------------------


def test_why() -> None:
    body = """  %0 = stablehlo.floor %arg0 : tensor<4xf32>
  %1 = stablehlo.sine %arg1 : tensor<4xf32>
  %2 = stablehlo.convert %arg2 : (tensor<4xi32>) -> tensor<4xf32>
  %3 = stablehlo.add %0, %2 : tensor<4xf32>
  %y = stablehlo.multiply %3, %1 : tensor<4xf32>"""
    explanation = explained(of(body, "4xf32", "4xf32", "4xf32", "4xi32"))
    assert [(x.active, x.why) for x in explanation.inputs] == [
        (False, "no output depends on it in a way that has a derivative"),
        (True, "a tangent reaches it"),
        (False, "4xi32 has no tangent"),
    ]
    assert [(r.active, r.why, r.ops) for r in explanation.activity] == [
        (True, "a tangent reaches it", 2),
        (False, "it depends on no input in wrt", 2),
        (False, "the derivative of floor is zero wherever it exists", 1),
    ]
    assert explanation.activity[2].examples == ("floor :2:8",)
    assert explained(of(body, "4xf32", "4xf32", "4xf32", "4xi32"), [1]).inputs[0].why == "not in wrt"


def rows_of_the_page() -> list[list[str]]:
    text = (ROOT / "docs" / "conventions.md").read_text()
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{'-'.join(choice.ops)}-{choice.where}"[:40])
def test_kinks_agree_with_the_page(choice: Any) -> None:
    for op in choice.ops:
        rows = [
            row
            for row in rows_of_the_page()
            if (f"`{op}`" in row[0] or ("`round_nearest_*`" in row[0] and op.startswith("round")))
            and len(row) > 1
        ]
        assert any(choice.choice in row and (choice.where in row or len(row) == 2 or choice.where in row[0])
                   for row in rows), op  # fmt: skip


def test_all_kinks_of_the_page_are_there() -> None:
    text = (ROOT / "docs" / "conventions.md").read_text()
    section = text[text.index("## Kinks and ties") : text.index("## Reductions")]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) > 14
    named = {op for choice in CHOICES if choice.section == KINKS for op in choice.ops}
    for row in rows:
        (first, *_) = row.split("|")[1:]
        ops = [op for op in re.findall(r"`(\w+)\*?`", first.split(" with ")[0]) if op != "argmax"]
        assert all(op in named or op == "round_nearest_" for op in ops), row


def test_kinks() -> None:
    body = """  %0 = stablehlo.abs %arg0 : tensor<4xf32>
  %1 = stablehlo.maximum %0, %arg1 : tensor<4xf32>
  %2 = stablehlo.maximum %arg1, %arg1 : tensor<4xf32>
  %y = stablehlo.add %1, %2 : tensor<4xf32>"""
    explanation = explained(of(body, "4xf32", "4xf32", "4xf32"), [0])
    assert [(kink.op, kink.choice.choice, kink.times) for kink in explanation.kinks] == [
        ("abs", "1", 1),
        ("maximum", "half to each", 1),
    ]
    assert explanation.kinks[0].choice.link == "docs/conventions.md#kinks-and-ties"


def test_a_refusal_is_part_of_it() -> None:
    explanation = explained(
        of("  %y = stablehlo.custom_call @f(%arg0) : (tensor<f32>) -> tensor<f32>", "f32", "f32")
    )
    assert set(explanation.costs) == {"primal"} and set(explanation.refused) == {"jvp", "vjp"}
    assert "unsupported jvp AD rule for stablehlo.custom_call" in explanation.refused["vjp"]


# ---- the command -------------------------------------------------------------------------------------------


def test_json(capsysbinary: Any) -> None:
    assert run(["explain", str(EXAMPLES / "convnet_f32.mlir"), "--json"]) == 0
    data = json.loads(capsysbinary.readouterr().out)
    assert data["costs"]["vjp"]["flops"] > data["costs"]["primal"]["flops"] > 0
    assert data["residual_bytes"] == sum(x["bytes"] for x in data["residuals"] if not x["is_argument"])
    assert {kink["op"] for kink in data["kinks"]} == {"maximum", "reduce", "reduce_window", "log"}
    assert len(data["most_expensive"]) == 5
    module = parse((EXAMPLES / "newton.mlir").read_text())
    assert json.loads(json.dumps(as_json(explain(module, from_module(module)))))["program"] == "main"


def test_tables(capsysbinary: Any) -> None:
    assert run(["explain", str(EXAMPLES / "newton.mlir")]) == 0
    shown = capsysbinary.readouterr().out.decode()
    for title in ("Ops", "Kept for the reverse", "Cost", "Most expensive ops of the VJP", "Choices at kinks"):
        assert title in shown
    assert "the trip count is unknown" in shown and "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_errors(capsys: Any, tmp_path: Path) -> None:
    assert run(["explain", str(EXAMPLES / "mlp_f32.mlir"), "--wrt", "nobody", "-o", str(tmp_path / "x")]) == 1
    assert "unknown input 'nobody'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_numbers_are_plain() -> None:
    explanation = explained(of("  %y = stablehlo.sine %arg0 : tensor<8xbf16>", "8xbf16", "8xbf16"))
    assert explanation.costs["primal"].bytes == 32 and not isinstance(
        explanation.costs["primal"].flops, np.integer
    )


# ---- predictions of jets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 5, 8, 12])
@pytest.mark.parametrize("name", ["sine of exponential", "mlp_f64"])
def test_costs_of_jets_are_predicted(name: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The predicted cost of a jet equals the cost of the emitted program, exactly up to order five.

    Recomputation of cheap values is switched off, because predictions ignore it.
    """
    monkeypatch.setattr(cheap, "SMALL", 2**40)
    if name == "mlp_f64":
        program = load(EXAMPLES / "mlp_f64.mlir")
    else:
        program = load(exported(lambda x: jnp.sin(jnp.exp(x) * x) / x, np.array(0.5)))
    wrt = [program.inputs[0].name]
    found = predict(program, order, wrt)
    cost = find_cost(lowered(program.jet(order, wrt)))
    assert found.is_exact == (order <= 5)
    assert found.ops == pytest.approx(len(cost.ops), rel=0 if found.is_exact else 0.05)
    assert found.flops == pytest.approx(cost.flops, rel=0 if found.is_exact else 0.05)
    assert found.transcendentals == cost.transcendentals


def test_nested_ops_are_those_of_nested_jvps() -> None:
    program = load(exported(lambda x: jnp.sin(jnp.exp(x) * x), np.array(0.5)))
    assert predict(program, 2, ["arg0"]).nested_ops == len(find_cost(lowered(program.jvp().jvp())).ops)


def test_a_prediction_is_shown(capsysbinary: Any) -> None:
    path = str(EXAMPLES / "mlp_f64.mlir")
    assert run(["explain", path, "--wrt", "0", "--order", "9"]) == 0
    shown = capsysbinary.readouterr().out.decode()
    assert "jet, order 9" in shown and "9 nested JVPs would have" in " ".join(shown.split())
    assert run(["explain", path, "--wrt", "0", "--order", "3", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["jet"]["is_exact"] is True
