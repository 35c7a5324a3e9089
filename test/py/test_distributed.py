"""Runs programs that `shard` splits among devices: eight devices of one process, or several processes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.launched import without_launchers

from tiduc.cli import run
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.distributed.launchers import ADDRESS
from tiduc.distributed.local import free_port
from tiduc.program import Program, from_module
from tiduc.sharding import shard

ROOT = Path(__file__).parents[2]
LOSS = """func.func @main(%w: tensor<8x16xf32>, %x: tensor<32x8xf32> {tidu.name = "a=b"}) -> tensor<32x16xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.tanh %0 : tensor<32x16xf32>
  return %1 : tensor<32x16xf32>
}"""
MESH = {"data": 4, "model": 2}


def loss() -> Program:
    return from_module(parse(LOSS))


def test_a_vjp_on_eight_devices() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape in ((8, 16), (32, 8), (32, 16))]
    sharded = shard(loss(), MESH, {"a=b": ["data"], "w": [None, "model"]}).vjp("w").compile(engine="xla")
    for kept, wanted in zip(
        sharded.keep(*arrays), loss().vjp("w").compile(engine="reference")(*arrays), strict=True
    ):
        np.testing.assert_allclose(np.asarray(kept), wanted, rtol=1e-4, atol=1e-5)
    cotangent: Any = sharded.keep(*arrays)[1]
    assert len(cotangent.sharding.device_set) == 8
    assert cotangent.addressable_shards[0].data.shape == (8, 8)  # split along "model", like w


@pytest.mark.parametrize(
    "shardings, words",
    [
        ({"q": ["data"]}, "there is no input 'q' to shard; there are: w, a=b"),
        ({"w": ["rows"]}, "there is no axis 'rows' in the mesh; there are: data, model"),
        ({"w": ["data", "data"]}, "the sharding of w uses an axis twice"),
        ({"w": ["data", None, None]}, "w has 2 dimensions, but its sharding names 3"),
    ],
)
def test_refusals(shardings: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        shard(loss(), MESH, shardings)


def test_refused_sizes() -> None:
    with pytest.raises(RequestError, match="3 devices along 'data' do not divide a dimension of size 32"):
        shard(loss(), {"data": 3}, {"a=b": ["data"]})
    with pytest.raises(RequestError, match="sharded already"):
        shard(shard(loss(), MESH, {}), MESH, {})


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(LOSS)
    assert (
        run(["shard", str(file), "--mesh", "data=4,model=2", "--shard", "a=b=data", "--shard", "w=,model"])
        == 0
    )
    said = capsys.readouterr().out
    assert '#sdy.sharding<@mesh, [{}, {"model"}]>, tidu.name = "w"' in said
    assert '#sdy.sharding<@mesh, [{"data"}, {}]>, tidu.name = "a=b"' in said
    assert "mhlo.num_partitions = 8" in said
    assert run(["shard", str(file), "--mesh", "data"]) == 2
    assert "'data' is not an axis and its size" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_training_on_several_processes(processes: int) -> None:
    """Data-parallel, tensor-parallel and fully sharded training give the losses of training on one device."""
    command = [sys.executable, str(ROOT / "examples" / "train_on_processes.py"), "--devices", "1"]
    command += [
        "--processes",
        str(processes),
        "--steps",
        "2",
        "--parallel",
        "data",
        "tensor",
        "fully-sharded",
    ]
    quickly = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    environment = {**without_launchers(), "XLA_FLAGS": quickly}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=environment)
    assert done.returncode == 0, done.stderr
    losses = {line.partition(":")[0]: line.partition(":")[2].split() for line in done.stdout.splitlines()}
    assert list(losses) == ["one device", "data", "tensor", "fully-sharded"]
    assert len({tuple(each) for each in losses.values()}) == 1 and len(losses["data"]) == 2


@pytest.mark.slow
def test_training_under_a_launcher() -> None:
    """Processes of a launcher need no common folder. Process 0 prints the losses, those of local processes."""
    environment = {**without_launchers(), "PMI_SIZE": "2", ADDRESS: f"127.0.0.1:{free_port()}"}
    command = [sys.executable, str(ROOT / "examples" / "train_on_processes.py")]
    command += ["--devices", "1", "--steps", "1", "--parallel", "data"]
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "PMI_RANK": str(index)},
        )
        for index in range(2)
    ]
    try:
        ended = [process.communicate(timeout=500) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], ended
    assert [output for output, _ in ended] == ["data:           4.3951\n", ""]
