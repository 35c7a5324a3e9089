"""Gradients of networks of real sizes by IREE and PyTorch: python test/bench/real_sizes.py [--help]

For the networks of networks.py, in f32: the gradient of the loss toward all parameters, as `tiduc compile` has IREE
compile it, and by PyTorch op by op. The figures are the least time of a call in milliseconds, and the ratio; the peak
memory of a call in MiB, without arguments and results; and the processor time of the compiler in seconds. Calls take
turns. With --threads 1 the times are of the processor, so that other load on the machine hardly matters. With --write,
the table goes to docs/benchmarks.md.
"""

import argparse
import math
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch_functions
from convolutions import least
from flags import source_of
from networks import NETWORKS, made
from suite import PAGE, allocated, machine

import tiduc
from tiduc.backends.iree.compile import compile_source

BEGIN, END = "<!-- real_sizes.py -->", "<!-- end of real_sizes.py -->"
MIB = 2**20


class Row(NamedTuple):
    """Milliseconds and MiB of tiduc and PyTorch, seconds to compile, and the largest relative error of a gradient."""

    ours: float
    theirs: float
    memory: float
    their_memory: float
    seconds: float
    error: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(NETWORKS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="1, or all of the machine")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the calls of each network")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    rows = {}
    for name in chosen.only:
        rows[name] = measured(name, chosen.threads, chosen.seconds)
        print(name, *(f"{key} {value:.3g}" for key, value in rows[name]._asdict().items()), flush=True)
    report = "\n".join(table(rows, chosen.threads))
    print(report)
    if chosen.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{report}\n{END}{rest.partition(END)[2]}")


def measured(name: str, threads: int, seconds: float) -> Row:
    """Compiles and runs the gradient of a network."""
    module, image = made(name)
    names = [name for name, _ in module.named_parameters()]
    gradient = tiduc.from_torch(module, (image,), lift_constants=True).grad(names)
    arguments = [np.asarray(x) for x in gradient.arguments(image.numpy())]
    source = source_of(gradient.text) if threads == 1 else gradient.source()
    before = children()
    vmfb = compile_source(source, cached=False)
    compiled = children() - before
    executable = tiduc.Executable(vmfb)

    def backward() -> list[Any]:
        module.zero_grad(set_to_none=True)
        module(image).backward()
        return [x.grad.numpy() for x in module.parameters() if x.grad is not None]

    calls: dict[str, Callable[[], Any]] = {"ours": lambda: executable(*arguments), "theirs": backward}
    results, expected = calls["ours"](), backward()
    norms = [float(np.linalg.norm(y)) for y in expected]
    compared = zip(results, expected, norms, strict=True)
    error = max(float(np.linalg.norm(x - y)) / n for x, y, n in compared if n > 1e-6 * max(norms))
    times = least(calls, seconds, time.process_time if threads == 1 else time.perf_counter)
    given, taken = (sum(x.nbytes for x in arrays) for arrays in (arguments, results))
    memory = allocated(vmfb, arguments) * 1024 - given - taken
    module.zero_grad(set_to_none=True)
    theirs = torch_functions.allocated(backward) - taken
    times = {way: t / 1000 for way, t in times.items()}
    return Row(times["ours"], times["theirs"], memory / MIB, theirs / MIB, compiled, error)


def children() -> float:
    """The processor time of the ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(rows: Mapping[str, Row], threads: int) -> Iterator[str]:
    """Markdown: a description of the machine, the geometric mean of the ratios, and the table."""
    mean = math.exp(sum(math.log(row.ours / row.theirs) for row in rows.values()) / len(rows))
    yield f"\n{machine()}; {threads} threads\n"
    yield f"- tiduc compile / PyTorch: geometric mean **{mean:.2f}** of {len(rows)}"
    yield "\n| gradient | ms: tiduc compile | PyTorch | ratio | MiB: tiduc compile | PyTorch | s to compile | error |"
    yield "|---|" + "---:|" * 7
    for name, r in rows.items():
        yield (
            f"| {name} | {r.ours:.1f} | {r.theirs:.1f} | {r.ours / r.theirs:.2f} | {r.memory:.0f} | "
            f"{r.their_memory:.0f} | {r.seconds:.1f} | {r.error:.0e} |"
        )


if __name__ == "__main__":
    main()
