"""Measures the speed-up by threads for gradients of networks of real sizes: python test/bench/threads.py [--help]

The programs are the gradients of the losses of networks in networks.py with respect to all parameters, in f32:

    tiduc compile    tiduc's gradient, compiled by IREE, on the devices local-sync and local-task
    PyTorch          PyTorch's gradient, run op by op, with one thread and with all threads

The figures are the least wall time of a call in milliseconds, and the ratio of the time with one thread to the time
with all threads. The calls alternate. Run the script on a machine without other load. With --write, the table is
written to docs/benchmarks.md.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from convolutions import least
from networks import NETWORKS, made
from real_sizes import TIDUC, TORCH, of_tiduc, of_torch
from suite import PAGE, machine

import tiduc

BEGIN, END = "<!-- threads.py -->", "<!-- end of threads.py -->"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of calls for each network")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    chosen = parser.parse_args()
    threads = os.cpu_count() or 1
    rows = {}
    for name in chosen.only:
        rows[name] = measured(name, threads, chosen.seconds)
        print(name, *(f"{way}, {n}: {t:.3g} ms" for (way, n), t in rows[name].items()), flush=True)
    report = "\n".join(table(rows, threads))
    print(report)
    if chosen.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{report}\n{END}{rest.partition(END)[2]}")


def measured(name: str, threads: int, seconds: float) -> dict[tuple[str, int], float]:
    """Returns the least time of a call in milliseconds, for each pair of an engine and a number of threads."""
    module, image = made(name)
    names = [name for name, _ in module.named_parameters()]
    gradient = tiduc.from_torch(module, (image,), lift_constants=True).grad(names)
    arguments = [np.asarray(x) for x in gradient.arguments(image.numpy())]
    calls: dict[Any, Callable[[], Any]] = {}
    of_pytorch = of_torch(module, module, image).call
    for n in (1, threads):
        calls[TIDUC, n] = of_tiduc(gradient.text, arguments, n).call
        calls[TORCH, n] = with_threads(n, of_pytorch)
    return {way: t / 1000 for way, t in least(calls, seconds, time.perf_counter).items()}


def with_threads(n: int, call: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a function that calls `call` after it has set the number of PyTorch's threads to n."""

    def called() -> Any:
        torch.set_num_threads(n)
        return call()

    return called


def table(rows: Mapping[str, Mapping[tuple[str, int], float]], threads: int) -> Iterator[str]:
    """Yields the lines of the report in Markdown: a description of the machine, and the table."""
    ways = (TIDUC, TORCH)
    heads = [f"ms: {way}, {n} thread{'s' * (n > 1)}" for way in ways for n in (1, threads)]
    heads += [f"speed-up: {TIDUC}", TORCH, f"{TIDUC} / {TORCH}, {threads} threads"]
    yield f"\n{machine()}\n"
    yield f"| gradient | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for name, row in rows.items():
        cells = [f"{row[way, n]:.1f}" for way in ways for n in (1, threads)]
        cells += [f"{row[way, 1] / row[way, threads]:.2f}" for way in ways]
        cells += [f"{row[TIDUC, threads] / row[TORCH, threads]:.2f}"]
        yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
