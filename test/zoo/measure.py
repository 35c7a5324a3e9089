"""Measures one model of the zoo, and prints its figures as JSON: python test/zoo/measure.py NAME [--engine ENGINE]

    weights, ops            numbers of the model's parameters and of its gradient's ops
    import, transform       seconds of wall time
    compile                 seconds of CPU time
    error                   norm of (gradient in f32 - PyTorch's gradient in f64), over the norm of PyTorch's
    torch_error             the same error for PyTorch's gradient in f32
    run, torch_run          milliseconds of one gradient with its loss, on one thread; the least of several calls
    peak, torch_peak        MiB of memory that the first gradient adds to the process

Each stage prints a line of all figures so far, so that a process that dies leaves the figures of its earlier stages.
A model that tiduc refuses has the figure "refused", with the message. Without PyTorch's gradient in f64 (some modules
compute in f32 in any case), the errors are relative to PyTorch's gradient in f32, and "exact" is false.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from entries import Entry, Loss  # noqa: E402
from run import MARK  # noqa: E402

import tiduc  # noqa: E402

CALLS = 3  # at least as many, whatever the time


def figures(entry: Entry, engine: str, seconds: float) -> Iterator[dict[str, Any]]:
    """The figures of a model after each stage; with the engine "none", no stage follows the transform."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, inputs = entry.build()
    loss = Loss(module.eval())
    parameters = {name: p for name, p in loss.named_parameters() if p.requires_grad}
    found: dict[str, Any] = {"weights": sum(p.numel() for p in parameters.values())}
    start = time.perf_counter()
    model = tiduc.from_torch(loss, inputs, lift_constants=True)
    yield (found := found | {"import": time.perf_counter() - start})
    start = time.perf_counter()
    gradient = model.grad([name for name in model.weights if name in parameters], value=True)
    text = gradient.text
    yield (found := found | {"transform": time.perf_counter() - start, "ops": text.count(" = ")})
    if engine == "none":
        return
    before = _processor()
    compiled = gradient.compile("cpu", engine=engine, cached=False)
    yield (found := found | {"compile": _processor() - before})
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
    found |= {"engine": engine, "exact": exact is not None}
    exact = expected if exact is None else exact
    found["error"] = _distance([by_name.get(f"{name}.cotangent") for name in parameters], exact)
    found["torch_error"] = _distance(expected, exact)
    yield found
    found["run"], found["torch_run"] = _least([ours, theirs], seconds)
    yield found


def _gradient(loss: torch.nn.Module, parameters: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """PyTorch's gradient; None for a parameter that the loss does not use."""
    gradients: Sequence[Any] = torch.autograd.grad(loss(*inputs), parameters, allow_unused=True)
    return gradients


def _exact(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[Any] | None:
    """PyTorch's gradient in f64; None for a module that PyTorch cannot run in f64."""
    wide = copy.deepcopy(loss).double()
    given = [x.double() if x.is_floating_point() else x for x in inputs]
    torch.set_default_dtype(torch.float64)
    try:
        found = _gradient(wide, [p for p in wide.parameters() if p.requires_grad], given)
    except RuntimeError:
        return None
    finally:
        torch.set_default_dtype(torch.float32)
    return [None if g is None else g.numpy() for g in found]


def _distance(ours: Sequence[Any], exact: Sequence[Any]) -> float:
    """The norm of the difference of two gradients, over the norm of the second; None stands for zeros."""
    pairs = [
        (np.float64(0) if x is None else x, np.float64(0) if y is None else y)
        for x, y in zip(ours, exact, strict=True)
    ]
    square = sum(float(np.square(x - y).sum()) for x, y in pairs)
    return math.sqrt(square / max(sum(float(np.square(y).sum()) for _, y in pairs), sys.float_info.min))


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
    from models import ENTRIES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=[entry.name for entry in ENTRIES], metavar="NAME")
    parser.add_argument("--engine", choices=("iree", "xla", "none"), default="iree")
    parser.add_argument("--seconds", type=float, default=2, help="time for the calls that are timed")
    given = parser.parse_args()
    (entry,) = [entry for entry in ENTRIES if entry.name == given.name]
    found: dict[str, Any] = {}
    try:
        for found in figures(entry, given.engine, given.seconds):
            print(MARK + json.dumps(found), flush=True)
    except tiduc.TiducError as error:
        print(MARK + json.dumps(found | {"refused": str(error)}), flush=True)


if __name__ == "__main__":
    main()
