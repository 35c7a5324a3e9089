"""Reads exports from JAX's tests of backward compatibility, with Shardy ops in bytecode, tuples, or of old versions.

`test/sweep/jax_exports.py` reads all such exports.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.dialect.mlir.emit import bytecode

PACKAGE = "jax._src.internal_test_util.export_back_compat_test_data"
SHARDED = ("shardy_sharding_ops_with_different_meshes", "data_2025_06_30")


def export(file: str, name: str, key: str | None = None) -> dict[str, Any]:
    texts = getattr(import_module(f"{PACKAGE}.{file}"), name)
    return texts if key is None else texts[key]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("file", "name", "key"),
    [
        (*SHARDED, None),
        ("cpu_triangular_solve_blas_trsm", "data_2025_10_20", "f64"),  # a call with an attribute of Shardy
        ("tpu_Qr", "data_2023_03_17", None),  # a call with a tuple as its result
        ("tpu_Eigh", "data", None),
        ("annotate_data_placement", "data_2026_03_24_tpu", "shardy"),
    ],
)
def test_is_read_and_differentiated(file: str, name: str, key: str | None) -> None:
    program = tiduc.load(export(file, name, key)["mlir_module_serialized"])
    program.jvp()
    derived = program.vjp()
    written = tiduc.load(str(derived))
    assert [port.name for port in written.inputs] == [port.name for port in derived.inputs]


def test_triangular_solve_of_a_sharded_export() -> None:
    stored = export("cpu_triangular_solve_blas_trsm", "data_2025_10_20", "f64")
    program = tiduc.load(stored["mlir_module_serialized"])
    (x,) = program.compile()(*stored["inputs"])
    np.testing.assert_allclose(x, stored["expected_outputs"][0], rtol=1e-10)


def test_file_of_sharded_bytecode(tmp_path: Path) -> None:
    stored = export(*SHARDED)["mlir_module_serialized"]
    file = tmp_path / "sharded.mlirbc"
    file.write_bytes(stored)
    program = tiduc.load(file)
    assert str(program) == str(tiduc.load(stored))
    assert str(tiduc.load(bytecode(program.module))) == str(program)  # tiduc's bytecode needs no jaxlib


def test_sharded_bytecode_without_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = export(*SHARDED)["mlir_module_serialized"]
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(tiduc.ParseError, match=r"Shardy ops in bytecode.*pip install 'tiduc\[jax\]'"):
        tiduc.load(stored)


def test_damaged_sharded_bytecode() -> None:
    stored = export(*SHARDED)["mlir_module_serialized"]
    with pytest.raises(tiduc.ParseError, match="jaxlib cannot read the bytecode"):
        tiduc.load(stored[:-40])


@pytest.mark.more  # JAX and XLA compile twelve programs
def test_functions_of_jax_against_mpmath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script that compares derivatives with mpmath judges `hypot` as right, and writes its results to a page.

    For `erfcx`, an error is expected, because terms cancel in the derivative that JAX defines.
    """
    pytest.importorskip("mpmath")
    import jax_accuracy

    journal = tmp_path / "journal.jsonl"
    found = jax_accuracy.accuracy(r"^(hypot|erfcx)$", journal)
    assert jax_accuracy.kept(journal) == found
    assert jax_accuracy.judged(found) == {"right": 1, "expected": 1}
    page = tmp_path / "page.md"
    page.write_text(f"before {jax_accuracy.START}old{jax_accuracy.END} after")
    monkeypatch.setattr(jax_accuracy, "PAGE", page)
    jax_accuracy.write(found)
    text = page.read_text()
    assert text.startswith("before ") and text.endswith(" after") and "old" not in text
    assert "units: `hypot`." in text and "| `erfcx` | " in text
    x = np.array([0.3, 2.0])
    slopes = np.array([float(jax_accuracy.exact("hypot", each)[0]) for each in x])
    assert jax_accuracy.worst("hypot", 1, x, slopes).units < 2
    assert jax_accuracy.worst("hypot", 1, x, slopes * [1, 1 + 1e-9]).at == 2
