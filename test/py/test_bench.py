"""Tests that the benchmarks run and give correct values. The sizes are too small for meaningful times."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import jax
import numpy as np
import pytest

from tiduc.backends.iree.fault import Record
from tiduc.backends.iree.records import records

BENCH = Path(__file__).resolve().parents[1] / "bench"


def run(script: str, *arguments: str) -> list[list[str]]:
    """Runs a benchmark, and returns the words of each line of its output."""
    command = [sys.executable, str(BENCH / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines() if line]


@pytest.mark.more
def test_transform() -> None:
    _, *rows = run("transform.py", "--sizes", "20", "--budget", "0")
    assert [row[0] for row in rows] == ["chain", "mlp", "transformer"]
    assert all(float(cell) >= 0 for row in rows for cell in row[1:-2])


@pytest.mark.slow
def test_runtime() -> None:
    rows = run("runtime.py", "--examples", "mlp", "--rounds", "1")
    assert [row[:2] for row in rows[1:3]] == [["mlp", "IREE"], ["mlp", "XLA"]]
    assert [row[:2] for row in rows[4:]] == [["mlp", "ours"], ["mlp", "JAX's"]]


@pytest.mark.slow
def test_loops() -> None:
    rows = run("loops.py", "--lengths", "4", "--rounds", "1")
    kinds = ["stack", "sqrt", "log"]
    assert [row[0] for row in rows] == ["program", "scan", "rnn", "lstm", "memory", *kinds, *kinds]


@pytest.mark.slow
def test_suite() -> None:
    rows = run("suite.py", "--only", "kmeans", "--seconds", "0.01")
    assert [row[0] for row in rows if row[0] == "kmeans"] == ["kmeans"]
    assert [row[1:3] for row in rows if row[:1] == ["|"] and row[1] == "kmeans"] == [["kmeans", "|"]] * 3
    assert not any("fails" in row for row in rows)


@pytest.mark.slow
def test_flags() -> None:
    (row,) = run("flags.py", "--only", "iotas", "--seconds", "0.01")
    assert row[:2] == ["iotas", "argmax"] and {"today", "without", "--no-fast"} < set(row)


@pytest.mark.slow
def test_kernels() -> None:
    """The script compares the results of drawn functions and of their gradients with PyTorch's."""
    pytest.importorskip("torch")
    rows = run("kernels.py", "--only", "product", "embedding", "--count", "1", "--seconds", "0")
    drawn = [row for row in rows if row[1:2] in (["product"], ["embedding"])]
    assert len(drawn) == 4 and all(float(row[0]) > 0 for row in drawn)


@pytest.mark.parametrize("names", [["mlp", "lstm", "kmeans"], pytest.param([], marks=pytest.mark.slow)])
def test_torch_functions(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """Values and gradients of the benchmarks' PyTorch functions equal JAX's. If `names` is empty, tests all of them."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(BENCH)
    import suite
    import torch_functions

    cases = suite.cases()
    for name in names or cases:
        function, arguments, wrt = cases[name]
        value, gradient = jax.value_and_grad(function, wrt)(*arguments)
        results = torch_functions.value_and_gradient(name, arguments, wrt)()
        assert suite.agree(results, [np.asarray(x) for x in (value, *gradient)]), name


@pytest.mark.more
def test_gradbench_messages() -> None:
    """The script answers each of GradBench's messages (one JSON object per line), also if a function is unknown."""
    lse = {"kind": "evaluate", "module": "lse", "input": {"x": [0.0, 1.0], "min_runs": 2, "min_seconds": 0}}
    messages = [
        {"kind": "start", "eval": "lse"},
        {"kind": "define", "module": "ht"},
        {"kind": "define", "module": "lse"},
        {**lse, "function": "gradient"},
        {**lse, "function": "cost"},
        {"kind": "evaluate", "module": "hello", "function": "double", "input": 3},
    ]
    given = "".join(json.dumps({"id": i, **message}) + "\n" for i, message in enumerate(messages))
    command = [sys.executable, str(BENCH / "gradbench.py")]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    start, unknown, known, gradient, wrong, double = map(json.loads, done.stdout.splitlines())
    assert start == {"id": 0, "tool": "tiduc"}
    assert not unknown["success"] and known["success"]
    np.testing.assert_allclose(gradient["output"], [1 / (1 + np.e), np.e / (1 + np.e)])
    assert [timing["name"] for timing in gradient["timings"]] == ["evaluate"] * 2
    assert wrong == {"id": 4, "success": False, "error": "KeyError: 'cost'"}
    assert double == {"id": 5, "success": True, "output": 6.0}


@pytest.mark.slow
def test_gradbench_table() -> None:
    """The script prints all 30 rows, and none says "fails". It compares each derivative to JAX's."""
    rows = run("gradbench.py", "--table", "--seconds", "0")
    assert len(rows) == 2 + 30 and not any("fails" in row for row in rows)


@pytest.mark.slow
def test_optimal_control() -> None:
    """The script succeeds. It fails if the results of tiduc and CasADi differ."""
    pytest.importorskip("casadi")
    rows = run("optimal_control.py", "quadrotor", "bundle adjustment", "--seconds", "0")
    assert [row[0] for row in rows[:2]] == ["quadrotor", "bundle"]


SLOW = [record for record in records() if record.fault.kind == "slow"]


def rows_of(script: str) -> list[str]:
    """The names of the rows that a benchmark prints."""
    if script == "flags.py":
        return [*import_module("rewritten").PROGRAMS]
    if script == "suite.py":
        return [*import_module("suite").cases()]
    pytest.importorskip("torch")
    if script == "convolutions.py":
        of = import_module("convolutions")
        return [f"{name}: {direction}" for name in of.SHAPES for direction in of.DIRECTIONS]
    assert script in ("compile_time.py", "gpu_networks.py", "memory.py", "threads.py"), script
    networks = [*import_module("networks").NETWORKS]
    return [*networks, *import_module("memory").NETWORKS] if script == "memory.py" else networks


@pytest.mark.parametrize("record", SLOW, ids=lambda record: f"{record.name}: {record.fault.text}")
def test_a_row_shows_the_gain_of_each_rewrite_for_speed(
    monkeypatch: pytest.MonkeyPatch, record: Record
) -> None:
    """The benchmark row that a rewrite for speed cites as its evidence exists in that benchmark."""
    monkeypatch.syspath_prepend(BENCH)
    script, _, row = record.fault.row.partition(": ")
    assert row in rows_of(script)


def test_the_parts_that_flags_leaves_out_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    rewrites = import_module("rewritten").REWRITES
    parts = [rewrite.part[0] for rewrite in rewrites.values() if rewrite.part is not None]
    assert parts
    for part in parts:
        resolve_name(part)
