"""Runs an action in each of several processes, which have the environment variables of a launcher.

    python on_processes.py ACTION FOLDER

save      creates sharded arrays from parts, and saves them
restore   restores the sharded arrays, and compares each shard
raise     raises an error in process 1 while the other processes wait for it
kill      kills process 1 while the other processes wait for it
"""

import os
import signal
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import tiduc
from tiduc.backends.xla.executable import XlaExecutable
from tiduc.distributed import joined, rank, restore, save
from tiduc.sharding import shard

PROGRAM = """func.func @main(%w: tensor<8x16xf64>, %x: tensor<32x8xf64>, %b: tensor<16xbf16> {tidu.name = "p['b/1']"})
    -> (tensor<8x16xf64> {tidu.name = "w"}, tensor<32x16xf64> {tidu.name = "y"}, tensor<16xbf16>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x8xf64>, tensor<8x16xf64>) -> tensor<32x16xf64>
  return %w, %0, %b : tensor<8x16xf64>, tensor<32x16xf64>, tensor<16xbf16>
}"""
RNG = np.random.default_rng(0)
ARRAYS = {
    "w": RNG.standard_normal((8, 16)),
    "x": RNG.standard_normal((32, 8)),
    "p['b/1']": np.arange(16).astype(ml_dtypes.bfloat16),
}
DEVICES = 8


def main(action: str, folder: Path) -> None:
    own = rank()
    assert own is not None
    with joined(DEVICES // own.count):
        program = shard(tiduc.load(PROGRAM), {"data": 4, "model": 2}, {"x": ["data"], "w": [None, "model"]})
        run = program.compile(engine="xla")
        assert isinstance(run, XlaExecutable)
        if action == "restore":
            state = restore(folder / "state.orbax", {**run.shardings, "unknown": run.shardings["w"]})
            assert list(state) == list(ARRAYS)
            for name, array in state.items():
                assert array.dtype == ARRAYS[name].dtype
                assert len(array.addressable_shards) == DEVICES // own.count
                for part in array.addressable_shards:
                    np.testing.assert_array_equal(np.asarray(part.data), ARRAYS[name][part.index])
        else:
            state = {name: run.place(name, by_parts(name, run)) for name in ARRAYS}
        if own.index == 1 and action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if own.index == 1 and action == "raise":
            raise ValueError("process 1 has a fault")
        w, y, _ = run.keep(*state.values())
        np.testing.assert_allclose(run.gathered(y), ARRAYS["x"] @ ARRAYS["w"], rtol=1e-12)
        assert [part.data.shape for part in w.addressable_shards] == [(8, 8)] * (DEVICES // own.count)
        if action == "save":
            save(folder / "state.orbax", state)
        print(f"process {own.index} of {own.count}: {action} is done")


def by_parts(name: str, run: XlaExecutable):  # type: ignore[no-untyped-def]
    """Returns a function that reads a part of an array, and asserts that a device of this process stores the part."""
    mine = run.shardings[name].addressable_devices_indices_map(ARRAYS[name].shape).values()  # type: ignore[attr-defined]

    def read(part: tuple[slice, ...]) -> np.ndarray:
        assert part in list(mine)
        return ARRAYS[name][part]

    return read


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
