"""The sweep over StableHLO's test programs reports the right verdict for a few programs that are written here."""

import json
from pathlib import Path

import pytest
import stablehlo_suite as suite

PROGRAM = """func.func @add_op_test_f32() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<VALUES> : tensor<2xf32>
  func.return
}
"""
NIBBLES = """func.func @add_op_test_i4() {
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi4>
  check.expect_eq_const %0, dense<[1, 2, 3]> : tensor<3xi4>
  func.return
}
"""
DYNAMIC = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}\n"


def test_categories(tmp_path: Path) -> None:
    texts = {
        "right": PROGRAM.replace("VALUES", "[2.0, 4.0]") + "// -----\n" + NIBBLES,
        "wrong": PROGRAM.replace("VALUES", "[2.0, 5.0]"),
        "dynamic": DYNAMIC,
        "broken": "func.func @f() { check.expect_nothing }",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    files = suite.chosen(tmp_path, "", None)
    assert sorted(Path(file).stem for file in files) == sorted(texts)
    actual = suite.outcomes_of(files, plain=False, target="cpu")
    categories = {Path(file).stem: [category for category, _ in rows] for file, rows in actual.items()}
    assert categories == {
        "right": ["ok", "refused"],
        "wrong": ["wrong"],
        "dynamic": ["compiled"],
        "broken": ["n/a"],
    }


def test_a_journal_resumes(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    rows = [{"a": [["ok", ""]]}, {"b": [["wrong", ""]]}, {"b": [["crash", ""]]}]
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert set(suite.known(journal, "")) == {"a", "b"}
    assert set(suite.known(journal, "wrong")) == {"a", "b"}  # only the last outcome of a test counts
    assert set(suite.known(journal, "crash")) == {"a"}
    assert suite.known(None, "") == {}


@pytest.mark.parametrize(("n", "names"), [(None, ["x_1", "x_2", "x_3", "y_1"]), (1, ["x_1", "y_1"])])
def test_samples_cover_each_family(n: int | None, names: list[str], tmp_path: Path) -> None:
    for name in ("x_1", "x_2", "x_3", "y_1"):
        (tmp_path / f"{name}.mlir").write_text("")
    assert sorted(Path(file).stem for file in suite.chosen(tmp_path, "", n)) == names
