"""Times gradients of networks on a GPU, by tiduc and by PyTorch op by op: python test/bench/gpu_networks.py [--help]

The networks are those of networks.py, in f32. Arguments and results are in the GPU's memory. PyTorch multiplies without
TF32. For each network, prints the least time of a call of tiduc's gradient and of PyTorch's in milliseconds, the ratio
of these times, the largest relative error of a gradient, and the wall time to compile in seconds. With --profile, also
prints the kernels that take most of the time. All networks are compiled in parallel before the first one is timed.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from networks import NETWORKS, made
from real_sizes import distance
from torch.profiler import ProfilerActivity, profile

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.build import build
from tiduc.runtime.modules import load

DEFAULT = "resnet18", "mobilenet", "convnext", "unet", "vit", "gpt2", "bert", "lstm"
CALLS, KERNELS = 10, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=DEFAULT, choices=NETWORKS, metavar="NAME")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    jobs = [(name, options.target) for name in options.networks]
    with ProcessPoolExecutor(options.processes) as pool:
        print(f"{'network':10} {'ms':>9} {'PyTorch':>9} {'ratio':>6} {'distance':>9} {'compile s':>9}")
        for (name, target), (vmfb, seconds) in zip(jobs, list(pool.map(compiled, jobs)), strict=True):
            print(row(name, target, vmfb, seconds, options.profile), flush=True)


def gradient(name: str) -> tuple[Any, Any, Any]:
    """Returns the module of a network, its input, and tiduc's gradient with respect to all parameters."""
    module, image = made(name)
    names = [name for name, _ in module.named_parameters()]
    return module, image, tiduc.from_torch(module, (image,), lift_constants=True).grad(names)


def compiled(job: tuple[str, str]) -> tuple[bytes | str, float]:
    """Returns the compiled gradient of a network for a target, and the seconds to compile it.

    Returns the error message instead of the gradient if it cannot be compiled.
    """
    name, target = job
    _, _, derived = gradient(name)
    start = time.perf_counter()
    try:
        vmfb: bytes | str = build(derived.lower(), Options(target, cached=False))
    except tiduc.TiducError as error:
        vmfb = str(error).splitlines()[0]
    return vmfb, time.perf_counter() - start


def row(name: str, target: str, vmfb: bytes | str, seconds: float, profiled: bool) -> str:
    """Returns the line of the table for a network. With `profiled`, the lines of the profile follow."""
    if isinstance(vmfb, str):
        return f"{name:10} {vmfb}"
    module, image, derived = gradient(name)
    modules = load(vmfb, target)
    executable = modules["main"]
    arguments = [modules.put(np.asarray(x)) for x in derived.arguments(image.numpy())]
    module, image = module.cuda(), image.cuda()
    for part in module.modules():
        part.train(part.training or isinstance(part, torch.nn.RNNBase))  # cuDNN's gradients need this mode

    def ours() -> Sequence[Any]:
        results = executable.keep(*arguments)
        results[-1].numpy()  # waits
        return results

    def theirs() -> Sequence[Any]:
        module.zero_grad(set_to_none=True)
        module(image).backward()
        torch.cuda.synchronize()
        return [x.grad for x in module.parameters() if x.grad is not None]

    error = distance([y.numpy() for y in ours()], [y.cpu().numpy() for y in theirs()])
    mine, other = least(ours), least(theirs)
    line = f"{name:10} {mine:9.2f} {other:9.2f} {mine / other:6.2f} {error:9.1e} {seconds:9.1f}"
    return "\n".join([line, *kernels(ours)]) if profiled else line


def least(call: Callable[[], Any]) -> float:
    """Returns the least time of `CALLS` calls in milliseconds, after two calls whose time is ignored."""
    times = []
    for _ in range(CALLS + 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[2:]) * 1000


def kernels(call: Callable[[], Any]) -> list[str]:
    """Returns a line for each of the slowest kernels of a call.

    The line has the milliseconds, the number of runs, and the name of the kernel.
    """
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        call()
        torch.cuda.synchronize()
    spent, counts = Counter[str](), Counter[str]()
    for event in record.events():
        spent[event.name] += event.device_time
        counts[event.name] += 1
    most = [f"{t / 1000:11.3f} {counts[name]:5} {name}" for name, t in spent.most_common(KERNELS)]
    return [f"{spent.total() / 1000:11.3f} {counts.total():5} all", *most]


if __name__ == "__main__":
    main()
