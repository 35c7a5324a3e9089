"""Programs on several processes: arguments of which each process reads a part, and saved states."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.launched import IDENTITY, launched, without_launchers

from tiduc.backends.xla.executable import XlaExecutable
from tiduc.cli import run
from tiduc.dialect.errors import InputError, RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.distributed.local import run_locally
from tiduc.distributed.service import native_output_dropped
from tiduc.program import Program, from_module
from tiduc.runtime.array_files import write_npz
from tiduc.runtime.arrays import parse_inputs
from tiduc.runtime.weights import part_readers, write_weights
from tiduc.sharding import shard

LOSS = """func.func @main(%w: tensor<8x16xf32>, %x: tensor<32x8xf32>, %n: tensor<4xi32>)
    -> (tensor<f32>, tensor<8x16xf32> {tidu.name = "w"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.tanh %0 : tensor<32x16xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<32x16xf32>, tensor<f32>) -> tensor<f32>
  return %2, %w : tensor<f32>, tensor<8x16xf32>
}"""
MESH = {"data": 4, "model": 2}


def loss() -> Program:
    return from_module(parse(LOSS))


def test_native_output_is_dropped_only_in_the_block(capfd: pytest.CaptureFixture[str]) -> None:
    """Native output is dropped only inside the context manager.

    Afterwards, file descriptor 1 is standard output again, even after an exception.
    """
    with pytest.raises(ValueError, match="a fault"), native_output_dropped():
        os.write(1, b"dropped\n")
        print("printed")
        raise ValueError("a fault")
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "printed\nafter\n"


def test_processes_that_succeed(capfd: pytest.CaptureFixture[str]) -> None:
    script = "import os, sys; print(os.environ['TIDUC_PROCESS']); print('err', file=sys.stderr)"
    outcome = run_locally([sys.executable, "-c", script], 2)
    assert (outcome.status, outcome.errors) == (0, "err\n")
    assert capfd.readouterr().out == "0\n"


def test_fully_sharded_inputs() -> None:
    text = str(shard(loss(), MESH, {"x": ["data"], "w": [None, "model"]}, "data"))
    stored, used = '#sdy.sharding<@mesh, [{"data"}, {"model"}]>', '#sdy.sharding<@mesh, [{}, {"model"}]>'
    assert text.count(f"sdy.sharding = {stored}") == 2  # the input w, and the output with the name w
    assert text.count(f"sharding = {used}") == 1 == text.count('"sdy.sharding_constraint"(%arg0)')
    assert '#sdy.sharding<@mesh, [{}]>, tidu.name = "n"' in text  # arrays of integers are not split
    with pytest.raises(RequestError, match="there is no axis 'rows' in the mesh; there are: data, model"):
        shard(loss(), MESH, {}, "rows")


def test_an_output_of_another_shape_than_its_input() -> None:
    """The sharding of an input applies to the output with its name only if both have as many dimensions."""
    other = LOSS.replace("(tensor<f32>, ", '(tensor<f32> {tidu.name = "x"}, ')
    split = shard(from_module(parse(other)), MESH, {"x": ["data"], "w": [None, "model"]})
    assert [("sdy.sharding" in value.attributes) for value in split.outputs] == [False, True]
    w, x = np.full((8, 16), 0.1, np.float32), np.ones((32, 8), np.float32)
    total = split.compile(engine="xla")(w, x, np.zeros(4, np.int32))[0]
    np.testing.assert_allclose(total, np.tanh(x @ w).sum(), rtol=1e-4)


def test_arguments_by_parts() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((8, 16), np.float32), rng.standard_normal((32, 8), np.float32)
    n = np.arange(4, dtype=np.int32)
    sharded = shard(loss(), MESH, {"x": ["data"]}, "data").compile(engine="xla")
    assert isinstance(sharded, XlaExecutable)
    read: list[tuple[int, ...]] = []

    def part_of_w(part: tuple[slice, ...]) -> Any:
        read.append(w[part].shape)
        return w[part]

    placed = sharded.place("w", part_of_w)
    assert set(read) == {(8, 4)}  # of 8 and 16, the larger dimension is split
    value, new_w = sharded.keep(placed, lambda part: x[part], n)
    np.testing.assert_allclose(np.asarray(value), np.tanh(x @ w).sum(), rtol=1e-4)
    assert new_w.addressable_shards[0].data.shape == (8, 4)
    np.testing.assert_array_equal(sharded.gathered(new_w), w)
    assert sharded.shardings["w"].device_set == placed.sharding.device_set
    alone = loss().compile(engine="xla")
    np.testing.assert_allclose(alone(part_of_w, x, n)[0], np.asarray(value), rtol=1e-4)
    with pytest.raises(InputError, match=r"argument 0 \(w\): expected 8x4xf32, got 8x16xf32"):
        sharded.keep(lambda part: w, x, n)
    with pytest.raises(InputError, match=r"argument 0 \(w\): .* got dtype float64"):
        sharded.place("w", lambda part: w[part].astype(np.float64))
    with pytest.raises(RequestError, match="there is no input 'q'; there are: w, x, n"):
        sharded.place("q", w)


def test_files_that_are_read_by_parts(tmp_path: Path) -> None:
    w = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "w.npy", w)
    write_npz(tmp_path / "w.npz", {"w": w})
    write_weights(tmp_path / "w.safetensors", {"w": w, "scalar": np.array(2.0)})
    (mapped,) = parse_inputs([f"@{tmp_path / 'w.npy'}"], mapped=True)
    assert isinstance(mapped, np.memmap)
    (whole,) = parse_inputs([f"@{tmp_path / 'w.npz'}"], mapped=True)
    np.testing.assert_array_equal(mapped, whole)
    for suffix in ("npz", "safetensors"):
        read = part_readers(tmp_path / f"w.{suffix}")
        np.testing.assert_array_equal(read["w"]((slice(1, 3), slice(None, 2))), w[1:3, :2])
    assert read["scalar"](()) == 2
    (tmp_path / "damaged.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a file of arrays"):
        part_readers(tmp_path / "damaged.safetensors")


def test_refused_command_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.mlir").write_text(LOSS)
    file = str(tmp_path / "f.mlir")
    assert run(["run", file, "--processes", "2"]) == 1
    assert "--processes needs --engine xla" in capsys.readouterr().err
    for option in ("-o", "--weights"):
        for engine in ("iree", "xla"):
            assert run(["run", file, "--engine", engine, "--input", "zeros", option, "s.orbax"]) == 1
            said = capsys.readouterr().err
            assert said == "s.orbax: error: a saved state needs --engine xla and --processes N; N may be 1\n"
    assert run(["run", "-", "--processes", "2", "--engine", "xla"]) == 1
    assert "several processes cannot read standard input" in capsys.readouterr().err


@pytest.mark.slow
def test_states_on_another_number_of_processes(tmp_path: Path) -> None:
    """A state that 4 processes save is restored by 2, 8 and 1.

    The script asserts that each process handles only its own shards.
    """
    pytest.importorskip("orbax.checkpoint")
    for action, processes in (("save", 4), ("restore", 2), ("restore", 8), ("restore", 1)):
        done = launched(action, processes, tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"process 0 of {processes}: {action} is done\n"


@pytest.mark.slow
def test_the_command_on_two_processes(tmp_path: Path) -> None:
    """On two processes, `tiduc run` reads weights by parts and writes a state, which another number of processes can
    read.
    """
    pytest.importorskip("orbax.checkpoint")
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((8, 16), np.float32), rng.standard_normal((32, 8), np.float32)
    write_weights(tmp_path / "w.safetensors", {"w": w})
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "f.mlir").write_text(str(shard(loss(), MESH, {"x": ["data"]}, "data")))
    (tmp_path / "again.mlir").write_text(
        str(shard(from_module(parse(IDENTITY)), {"data": 2}, {"w": ["data"]}))
    )

    def tiduc(*arguments: str) -> str:
        command = [sys.executable, "-m", "tiduc", "run", *arguments, "--engine", "xla"]
        environment = without_launchers()
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=500, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    given = ["--weights", "w.safetensors", "--input", "@x.npy", "--input", "zeros"]
    said = tiduc("f.mlir", "--processes", "2", *given)
    assert said.count("\n") == 2
    assert float(said.partition("=")[2].split()[0]) == pytest.approx(np.tanh(x @ w).sum(), rel=1e-4)
    tiduc("f.mlir", "--processes", "4", *given, "-o", "state.orbax")
    tiduc("again.mlir", "--processes", "1", "--weights", "state.orbax", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_array_equal(written["w"], w)
