"""`tiduc profile` shows the ops, FLOPs, bytes and IREE's time of each dispatch."""

import json
from pathlib import Path

import pytest

from tiduc.backends.iree.dispatches import Dispatch
from tiduc.cli import run
from tiduc.dialect.facts.rates import Rates
from tiduc.profiling.events import DispatchEvent
from tiduc.profiling.rows import ComputedOp, rows_of

PRODUCT = """func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %1 = stablehlo.exponential %0 : tensor<64x16xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x16xf32>, tensor<f32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}
"""


@pytest.mark.more
def test_profile_of_a_product(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profile has one row for the matrix product, with its FLOPs and the bytes of its arrays, and another row for
    the sum.
    """
    (tmp_path / "costs.json").write_text('{"bytes": 1e10, "flops": 1e11, "functions": 1e9, "launches": 1e5}')
    monkeypatch.setenv("TIDUC_COSTS", str(tmp_path / "costs.json"))
    file, trace = tmp_path / "product.mlir", tmp_path / "trace.json"
    file.write_text(PRODUCT)
    assert run(["profile", str(file), "--calls", "3", "--trace", str(trace), "--json"]) == 0
    data = json.loads(capfd.readouterr().out)
    of_op = {op["op"]: row for row in data["rows"] for op in row["ops"]}
    product, total = of_op["dot_general"], of_op["reduce"]
    assert product["flops"] >= 2 * 64 * 32 * 16
    assert product["bytes"] == 4 * (64 * 32 + 32 * 16 + 64 * 16)
    assert product["runs"] == total["runs"] == 1
    assert product["kernel"] != total["kernel"]
    assert any(op["place"].endswith("product.mlir:3:8") for op in product["ops"])
    assert all(row["seconds"] > 0 and row["peak"] >= 0 for row in data["rows"])
    assert len(json.loads(trace.read_text())["traceEvents"]) == len(data["events"]) == len(data["rows"])


def test_rows_of_kernels() -> None:
    """Two dispatches of one kernel have two rows, but dispatches that a loop repeats have one.

    If two dispatches compute an op, the op is counted in the longer one.
    """
    ops = {n: ComputedOp("add", "4xf32", "", 10, 0) for n in range(3)}
    dispatches = [Dispatch("a", (0,), 16), Dispatch("a", (0, 1), 32), Dispatch("b", (2,), 8)]
    call = [
        DispatchEvent("a", 0, 5),
        DispatchEvent("a", 5, 12),
        *[DispatchEvent("b", 20 + i, 21 + i) for i in range(4)],
    ]
    rates = Rates(1e9, 1e9, 1e9, 1e5)
    rows = rows_of(dispatches, ops, [call, call], rates)
    assert [(row.kernel, row.runs, row.flops, row.bytes) for row in rows] == [
        ("a", 1, 20, 32),
        ("a", 1, 0, 16),
        ("b", 4, 10, 32),
    ]
    assert [row.limit for row in rows] == ["bytes", "bytes", "bytes"]
    assert rows[0].peak == pytest.approx(32 / 7)
