"""Trains the transformer on two processes of four virtual devices each, and compares with one device.

    python examples/train_on_two_processes.py

The script starts itself twice. Each process has the whole program. XLA splits the arrays among the eight devices, and
the processes exchange parts of arrays by the library Gloo. To use several hosts, start one process per host instead,
with the address of the first host.
"""

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

PROCESSES, DEVICES = 2, 4
MODEL = Path(__file__).with_name("transformer_f32.mlir")
SHARDINGS = {
    "tokens": ["data"],
    "targets": ["data"],
    "params['w_qkv']": [None, "model"],
    "params['w_out']": ["model"],
    "params['w1']": [None, "model"],
    "params['b1']": ["model"],
    "params['w2']": ["model"],
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    parser.add_argument("--address", default=f"127.0.0.1:{free_port()}")
    parser.add_argument("--steps", type=int, default=3)
    chosen = parser.parse_args()
    if chosen.rank is not None:
        print(*train(chosen.rank, chosen.address, chosen.steps))
        return
    command = [sys.executable, __file__, "--address", chosen.address, "--steps", str(chosen.steps), "--rank"]
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, env=environment)
        for rank in range(PROCESSES)
    ]
    said = [rank.communicate()[0].splitlines()[-1].split() for rank in ranks]  # Gloo prints other lines first
    alone = [f"{loss:.4f}" for loss in losses(gradient(), chosen.steps, "iree")]
    print("one device:   ", *alone)
    for rank, line in enumerate(said):
        print(f"process {rank}:    ", *line)
    if any(line != alone for line in said):
        sys.exit("the losses differ")


def train(rank: int, address: str, steps: int) -> list[str]:
    """Runs process number `rank`, which trains together with the other processes. Returns its losses as text."""
    import jax

    from tiduc.sharding import shard

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, PROCESSES, rank)
    sharded = shard(gradient(), {"data": 2, "model": PROCESSES * DEVICES // 2}, SHARDINGS)
    return [f"{loss:.4f}" for loss in losses(sharded, steps, "xla")]


def gradient() -> Any:
    import tiduc

    return tiduc.load(MODEL).grad(value=True)


def losses(program: Any, steps: int, engine: str) -> list[float]:
    """Runs gradient descent from the stored parameters with the stored batch. Returns the loss of each step."""
    with np.load(MODEL.with_suffix(".npz")) as stored:
        arrays = [stored[f"input.{i}"] for i in range(len(program.inputs))]
    run, found = program.compile(engine=engine), []
    for _ in range(steps):
        loss, *direction = run(*arrays)
        arrays[: len(direction)] = [x - 0.1 * dx for x, dx in zip(arrays, direction, strict=False)]
        found.append(float(loss))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
