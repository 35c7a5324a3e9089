"""Measures one model of the zoo, and prints the figures as JSON: python test/zoo/measure.py NAME [--seconds S]

    weights, ops            numbers of the model's parameters and of its gradient's ops
    error                   the distance of our gradient in f32 from PyTorch's in f64, over its norm
    torch_error             the distance of PyTorch's own gradient in f32
    import, transform       seconds of wall time
    compile                 seconds of CPU time
    run, torch_run          milliseconds of a gradient with its loss, at one thread, the least of several calls
    peak, torch_peak        MiB of memory that the first gradients add to the process

The error of a refused model is printed as {"refused": message}.
"""

import argparse
import copy
import gc
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
from entries import Entry, Loss  # noqa: E402
from models import ENTRIES  # noqa: E402

import tiduc  # noqa: E402

MARK = "FIGURES "  # before the line of figures, which tells it from what libraries print
CALLS = 3  # at least as many, whatever the time


def figures(entry: Entry, seconds: float) -> dict[str, Any]:
    """All figures of a model."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, inputs = entry.build()
    loss = Loss(module.eval())
    parameters = {name: p for name, p in loss.named_parameters() if p.requires_grad}
    start = time.perf_counter()
    model = tiduc.from_torch(loss, inputs, lift_constants=True)
    found: dict[str, Any] = {"import": time.perf_counter() - start}
    start = time.perf_counter()
    gradient = model.grad([name for name in model.weights if name in parameters], value=True)
    text = gradient.text
    found |= {"transform": time.perf_counter() - start, "ops": text.count(" = ")}
    before = _processor()
    compiled = gradient.compile("cpu", cached=False)
    found["compile"] = _processor() - before
    arguments = gradient.arguments(*(x.numpy() for x in inputs))

    def ours() -> list[Any]:
        return [np.asarray(y) for y in compiled(*arguments)]

    def theirs() -> list[Any]:
        return [None if g is None else g.numpy() for g in _gradient(loss, list(parameters.values()), inputs)]

    found["peak"], results = _peak(ours)
    found["torch_peak"], expected = _peak(theirs)
    names = [output.name for output in gradient.signature.outputs]
    by_name = dict(zip(names, results, strict=True))
    exact = _exact(loss, inputs)
    found["weights"] = sum(p.numel() for p in parameters.values())
    found["error"] = _distance([by_name.get(f"{name}.cotangent") for name in parameters], exact)
    found["torch_error"] = _distance(expected, exact)
    found["run"], found["torch_run"] = _least([ours, theirs], seconds)
    return found


def _gradient(loss: torch.nn.Module, parameters: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """PyTorch's gradient; None for a parameter that the loss does not use."""
    gradients: Sequence[Any] = torch.autograd.grad(loss(*inputs), parameters, allow_unused=True)
    return gradients


def _exact(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """PyTorch's gradient in f64."""
    wide = copy.deepcopy(loss).double()
    given = [x.double() if x.is_floating_point() else x for x in inputs]
    torch.set_default_dtype(torch.float64)
    try:
        found = _gradient(wide, [p for p in wide.parameters() if p.requires_grad], given)
    finally:
        torch.set_default_dtype(torch.float32)
    return [None if g is None else g.numpy() for g in found]


def _distance(ours: Sequence[Any], exact: Sequence[Any]) -> float:
    """The norm of the difference of two gradients over that of the second; None stands for zeros."""
    pairs = [(np.float64(0) if x is None else x, np.float64(0) if y is None else y) for x, y in zip(ours, exact, strict=True)]
    square = sum(float(np.square(x - y).sum()) for x, y in pairs)
    return math.sqrt(square / sum(float(np.square(y).sum()) for _, y in pairs))


def _processor() -> float:
    """Seconds of CPU time of this process and its children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in both)


def _peak(call: Callable[[], Any]) -> tuple[float, Any]:
    """MiB that a call adds to the memory of this process at its peak, and the call's result."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _memory("VmRSS")
    result = call()
    return (_memory("VmHWM") - before) / 1024, result


def _memory(name: str) -> int:
    """A figure of this process in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _least(calls: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """The least milliseconds of each call; the calls take turns, so that other load affects all of them."""
    least = [math.inf] * len(calls)
    end, turns = time.perf_counter() + seconds, 0
    while turns < CALLS or time.perf_counter() < end:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[i] = min(least[i], 1000 * (time.perf_counter() - start))
        turns += 1
    return least


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=[entry.name for entry in ENTRIES])
    parser.add_argument("--seconds", type=float, default=2, help="time for the calls")
    given = parser.parse_args()
    (entry,) = [entry for entry in ENTRIES if entry.name == given.name]
    try:
        found = figures(entry, given.seconds)
    except tiduc.TiducError as error:
        found = {"refused": str(error)}
    print(MARK + json.dumps(found))


if __name__ == "__main__":
    main()
