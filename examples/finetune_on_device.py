"""Fine-tunes an ONNX model with one compiled module. Needs only NumPy and IREE's runtime, no compiler, PyTorch or ONNX.

    tiduc train-step examples/digits.onnx --loss softmax-cross-entropy --optimizer adam \\
        --state build/state.npz -o build/step.vmfb
    python examples/finetune_on_device.py build/step.vmfb build/state.npz

The module computes the loss and its gradient, and overwrites the parameters with the updated ones. The parameters and
the optimizer's state stay on the device. Each step copies only the loss to the host.
"""

import argparse
from pathlib import Path

import numpy as np

import tiduc.runtime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", type=Path, help="the module that tiduc train-step wrote")
    parser.add_argument("state", type=Path, help="the initial state, which tiduc train-step --state wrote")
    parser.add_argument("--data", type=Path, default=Path(__file__).with_name("digits.npz"))
    parser.add_argument("--target", default="cpu", help="what the module was compiled for")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save", type=Path, help="where to write the weights afterwards")
    chosen = parser.parse_args()
    with np.load(chosen.data) as stored:
        data = dict(stored)
    with np.load(chosen.state) as stored:
        state = dict(stored)
    batch = [data["images"], data["labels"], data["rate"]]
    losses, state = train(chosen.step, state, batch, chosen.steps, chosen.target)
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} steps")
    both = min(len(losses), len(data["losses"]))
    difference = np.max(np.abs(losses[:both] - data["losses"][:both]) / data["losses"][:both])
    print(f"the first {both} losses differ from PyTorch's by {difference:.0e} of them")
    if chosen.save is not None:
        np.savez(chosen.save, **state)


def train(
    module: Path, state: dict[str, np.ndarray], batch: list[np.ndarray], steps: int, target: str = "cpu"
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Runs `steps` training steps with the same batch. Returns the loss of each step, and the final state."""
    with tiduc.runtime.load(module, target) as loaded:
        step = loaded["main"]
        inputs = [x.name for x in step.signature.inputs]
        names, others = inputs[: len(step.donated)], inputs[len(step.donated) :]
        kept = [loaded.put(state[name]) for name in names]
        frozen = [loaded.put(state[name]) for name in others if name in state]
        given = [*frozen, *map(loaded.put, batch)]
        losses = []
        for _ in range(steps):
            loss, *kept = step.keep(*kept, *given)
            losses.append(float(loss))
        after = {name: x.numpy() for name, x in zip(names, kept, strict=True)}
        return np.array(losses), state | after


if __name__ == "__main__":
    main()
