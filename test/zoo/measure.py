"""Measures one model of the zoo, and prints its figures as JSON: python test/zoo/measure.py NAME [--engine ENGINE]

    weights, ops            numbers of the model's parameters and of its gradient's ops
    import, transform, compile      seconds of CPU time for each of these stages
    error                   norm of (gradient in f32 - PyTorch's gradient in f64), divided by the norm of PyTorch's
    torch_error             the same error for PyTorch's gradient in f32
    wide_error              the same error for the gradient in f64; it is measured if `error` is too large, because
                            rounding in f32 can move a kink, such as the choice of a maximum
    run, torch_run          milliseconds of one gradient with its loss, on one thread; the least of several calls
    peak, torch_peak        MiB of memory that the first gradient adds to the process

Each stage prints a line with all figures so far. If the process crashes, the figures of earlier stages are known. If
tiduc refuses a model, the figure "refused" is the error message. If PyTorch cannot run a module in f64, the errors are
relative to PyTorch's gradient in f32, and the figure "exact" is false.
"""

import argparse
import gc
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from entries import Entry, Loss  # noqa: E402
from reference import wide  # noqa: E402
from verdict import is_close  # noqa: E402

import tiduc  # noqa: E402

MARK = "FIGURES "  # prefix of the lines with figures
CALLS = 3  # least number of calls, even if they exceed the time


def figures(entry: Entry, engine: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Yields all figures of a model after each stage. With the engine "none", the transform is the last stage."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, inputs = entry.build()
    loss = Loss(module.eval())
    parameters = _parameters(loss)
    found: dict[str, Any] = {"weights": sum(p.numel() for p in parameters.values())}
    before = _processor()
    model = tiduc.from_torch(loss, inputs, lift_constants=True)
    yield (found := found | {"import": _processor() - before})
    before = _processor()
    gradient = _derived(model, parameters)
    text = gradient.text
    yield (found := found | {"transform": _processor() - before, "ops": text.count(" = ")})
    if engine == "none":
        return
    before = _processor()
    compiled = gradient.compile("cpu", engine=engine, cached=False)
    yield (found := found | {"compile": _processor() - before})
    arguments = gradient.arguments(*(x.numpy() for x in inputs))

    def ours() -> list[Any]:
        return [np.asarray(y) for y in compiled(*arguments)]

    def theirs() -> list[Any]:
        return _gradient(loss, inputs)

    found["peak"], results = _peak(ours)
    found["torch_peak"], expected = _peak(theirs)
    exact = _exact(loss, inputs)
    found |= {"engine": engine, "exact": exact is not None}
    found["error"] = _distance(_by_name(gradient, results, parameters), exact or expected)
    found["torch_error"] = _distance(expected, exact or expected)
    yield found
    if exact and not is_close(found):
        yield (found := found | {"wide_error": _wide_error(loss, inputs, engine, exact)})
    found["run"], found["torch_run"] = _least([ours, theirs], seconds)
    yield found


def _parameters(loss: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p for name, p in loss.named_parameters() if p.requires_grad}


def _derived(model: Any, parameters: Collection[str]) -> Any:
    """Returns the program that computes the loss and its gradient with respect to `parameters`."""
    return model.grad([name for name in model.weights if name in parameters], value=True)


def _by_name(gradient: Any, results: Sequence[Any], parameters: Iterable[str]) -> list[Any]:
    """Returns the cotangent of each parameter. None stands for parameters without a result in the program."""
    names = [output.name for output in gradient.signature.outputs]
    found = dict(zip(names, results, strict=True))
    return [found.get(f"{name}.cotangent") for name in parameters]


def _gradient(loss: torch.nn.Module, inputs: Sequence[Any]) -> list[Any]:
    """Returns PyTorch's gradient. None stands for parameters that the loss does not depend on."""
    gradients = torch.autograd.grad(loss(*inputs), list(_parameters(loss).values()), allow_unused=True)
    return [None if g is None else g.numpy() for g in gradients]


def _exact(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[Any] | None:
    """Returns PyTorch's gradient in f64, or None if PyTorch cannot run the module in f64."""
    with suppress(RuntimeError), wide(loss, inputs) as (module, given):
        return _gradient(module, given)
    return None


def _wide_error(loss: torch.nn.Module, inputs: Any, engine: str, exact: Sequence[Any]) -> float:
    """Returns the relative error of tiduc's gradient in f64."""
    with wide(loss, inputs) as (module, given):
        parameters = _parameters(module)
        gradient = _derived(tiduc.from_torch(module, given, lift_constants=True), parameters)
        results = gradient.compile("cpu", engine=engine)(*gradient.arguments(*(x.numpy() for x in given)))
    return _distance(_by_name(gradient, [np.asarray(y) for y in results], parameters), exact)


def _distance(ours: Sequence[Any], exact: Sequence[Any]) -> float:
    """Returns the norm of (ours - exact), divided by the norm of `exact`. None stands for an array of zeros."""
    pairs = [
        (np.float64(0) if x is None else x, np.float64(0) if y is None else y)
        for x, y in zip(ours, exact, strict=True)
    ]
    square = sum(float(np.square(x - y).sum()) for x, y in pairs)
    return math.sqrt(square / max(sum(float(np.square(y).sum()) for _, y in pairs), sys.float_info.min))


def _processor() -> float:
    """Returns the seconds of CPU time of this process and its children, including those that are still running."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = 0
    for child in children:
        with suppress(FileNotFoundError):
            ticks += sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return sum(os.times()[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def _peak(call: Callable[[], Any]) -> tuple[float, Any]:
    """Returns how many MiB the process uses during a call beyond its memory before, and the result of the call."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _memory("VmRSS")
    result = call()
    return (_memory("VmHWM") - before) / 1024, result


def _memory(name: str) -> int:
    """Returns the figure `name` of /proc/self/status in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _least(calls: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Returns the least time of each call in milliseconds.

    The calls alternate, so that other load on the machine affects all of them.
    """
    least = [math.inf] * len(calls)
    end, turns = time.perf_counter() + seconds, 0
    while turns < CALLS or time.perf_counter() < end:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[i] = min(least[i], 1000 * (time.perf_counter() - start))
        turns += 1
    return least


def report(name: str, engine: str, seconds: float) -> None:
    """Prints the figures of a model after each stage. If tiduc refuses the model, prints the error message."""
    from installed import ENTRIES

    (entry,) = [entry for entry in ENTRIES if entry.name == name]
    found: dict[str, Any] = {}
    try:
        for found in figures(entry, engine, seconds):
            print(MARK + json.dumps(found), flush=True)
    except tiduc.TiducError as error:
        print(MARK + json.dumps(found | {"refused": str(error)}), flush=True)


def warm_up() -> None:
    """Imports a small module, so that the figures exclude the time to load packages."""
    torch.set_num_threads(1)
    tiduc.from_torch(torch.nn.Linear(2, 2), (torch.zeros(2),))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--engine", choices=("iree", "xla", "none"), default="iree")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of repeated calls")
    parser.add_argument("--mebibytes", type=int, help="memory limit; default: none")
    given = parser.parse_args()
    if given.mebibytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (given.mebibytes * 2**20,) * 2)
    warm_up()
    report(given.name, given.engine, given.seconds)


if __name__ == "__main__":
    main()
