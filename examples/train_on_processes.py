"""Trains the transformer on several processes, and compares the losses with those of one device.

    python examples/train_on_processes.py --processes 4 --parallel fully-sharded

The script starts itself in each process. Each process traces the training step and compiles it. The arrays are split
among the devices of all processes, and each process holds only its own shards:

    data            splits the batch; each device has all parameters
    tensor          splits the weights of attention and of the dense layers; each device has the whole batch
    fully-sharded   splits the batch and all parameters along one axis; XLA gathers a parameter where it is used

To use several hosts, start one process per host with srun, mpirun or Kubernetes; `joined` reads their variables. The
processes need no common folder, process 0 prints the losses, and nothing is compared:

    srun -n 2 python examples/train_on_processes.py --parallel data
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tiduc
from tiduc.distributed import joined, launch, rank
from tiduc.sharding import shard

BATCH, RATE = 8, np.float32(0.1)
BY_BATCH = {"tokens": ["data"], "targets": ["data"]}
BY_TENSOR = {
    "params['w_qkv']": [None, "model"],
    "params['w_out']": ["model"],
    "params['w1']": [None, "model"],
    "params['b1']": ["model"],
    "params['w2']": ["model"],
}
KINDS = ("data", "tensor", "fully-sharded")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=2, help="devices per process")
    parser.add_argument("--parallel", choices=KINDS, nargs="+", default=["fully-sharded"])
    parser.add_argument("--steps", type=int, default=3)
    chosen = parser.parse_args()
    own = rank()
    if own is not None and (own.launcher == "tiduc" or own.count > 1):
        with joined(chosen.devices) as own, tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            for kind in chosen.parallel:
                found = train(Path(folder), kind, own.count * chosen.devices, chosen.steps)
                if own.index == 0:
                    print(f"{kind}:".ljust(15), *found, flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        print("one device:".ljust(15), *alone(Path(folder), chosen.steps), flush=True)
    arguments = ["--devices", chosen.devices, "--steps", chosen.steps, "--parallel", *chosen.parallel]
    sys.exit(launch([sys.executable, __file__, *map(str, arguments)], chosen.processes))


def write(folder: Path) -> None:
    """Writes the training step, for a batch of `BATCH` texts, and its initial arguments."""
    import jax
    from models import transformer_inputs, transformer_loss

    jax.config.update("jax_platforms", "cpu")
    rng = np.random.default_rng(0)
    params, tokens, _ = transformer_inputs(rng)
    params = {name: np.asarray(value, np.float32) for name, value in params.items()}
    text = rng.integers(tokens.max() + 1, size=(BATCH, tokens.shape[1] + 1), dtype=np.int32)
    loss = tiduc.from_jax(transformer_loss, params, text[:, :-1], text[:, 1:])
    step = tiduc.train_step(loss, "none", "sgd", train=["params*"])
    (folder / "step.mlir").write_text(str(step))
    named = {f"params[{name!r}]": value for name, value in params.items()}
    np.savez(folder / "state.npz", **named, tokens=text[:, :-1], targets=text[:, 1:], rate=RATE)


def train(folder: Path, kind: str, devices: int, steps: int) -> list[str]:
    """The losses of one process, which holds only its shards of the state between steps."""
    mesh = {"model" if kind == "tensor" else "data": devices}
    fully = "data" if kind == "fully-sharded" else None
    step: Any = tiduc.load(folder / "step.mlir")
    run = shard(step, mesh, BY_TENSOR if kind == "tensor" else BY_BATCH, fully).compile(engine="xla")
    with np.load(folder / "state.npz") as stored:
        arrays = [run.place(value.name, stored[value.name]) for value in run.signature.inputs]
    found = []
    for _ in range(steps):
        loss, *state = run.keep(*arrays)
        arrays[: len(state)] = state
        found.append(f"{float(loss):.4f}")
    return found


def alone(folder: Path, steps: int) -> list[str]:
    """The losses of one device, with IREE."""
    run = tiduc.load(folder / "step.mlir").compile()
    with np.load(folder / "state.npz") as stored:
        arrays = [stored[value.name] for value in run.signature.inputs]
    found = []
    for _ in range(steps):
        loss, *state = run(*arrays)
        arrays[: len(state)] = state
        found.append(f"{float(loss):.4f}")
    return found


if __name__ == "__main__":
    main()
