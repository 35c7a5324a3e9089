"""Trains a network with two compiled modules. Needs only NumPy and IREE's runtime, no compiler, JAX or PyTorch.

    tiduc grad examples/mlp_f32.mlir --value --wrt 0,1,2,3,4,5 -o gradient.mlir
    tiduc compile gradient.mlir examples/sgd_mlp.mlir -o build/train
    python examples/train_on_device.py build/train

The module `gradient` computes the loss and its gradient. The module `sgd_mlp` takes a gradient step and overwrites the
parameters. Parameters and gradients stay on the device. Each step copies only the loss to the host.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import tiduc.runtime

PARAMETERS = 6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", type=Path, help="the folder of gradient.vmfb and sgd_mlp.vmfb")
    parser.add_argument("--data", type=Path, default=Path(__file__).with_name("mlp_f32.npz"))
    parser.add_argument("--target", default="cpu", help="what the modules were compiled for")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.1)
    chosen = parser.parse_args()
    with np.load(chosen.data) as stored:
        inputs = [stored[f"input.{i}"] for i in range(PARAMETERS + 2)]
    started = time.perf_counter()
    losses = train(chosen.modules, inputs, chosen.steps, chosen.rate, chosen.target)
    took = time.perf_counter() - started
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} steps, {took:.2f} s")


def train(
    modules: Path, inputs: list["np.ndarray"], steps: int, rate: float, target: str = "cpu"
) -> list[float]:
    """Runs gradient descent. Returns the loss before each step. `inputs` has the initial parameters, then the batch."""
    with (
        tiduc.runtime.load(modules / "gradient.vmfb", target) as gradient,
        tiduc.runtime.load(modules / "sgd_mlp.vmfb", target) as sgd,
    ):
        parameters = [gradient.put(x) for x in inputs[:PARAMETERS]]
        batch = [gradient.put(x) for x in inputs[PARAMETERS:]]
        step = sgd.put(np.float32(rate))
        losses = []
        for _ in range(steps):
            loss, *direction = gradient["main"].keep(*parameters, *batch)
            parameters = sgd["main"].keep(*parameters, *direction, step)
            losses.append(float(loss))
    return losses


if __name__ == "__main__":
    main()
