"""Times gradients of networks of real sizes by IREE, PyTorch and XLA: python test/bench/real_sizes.py [--help]

The programs are the gradients of the losses of the networks in networks.py with respect to all parameters, in f32:

    tiduc compile    tiduc's gradient, compiled by IREE
    PyTorch          PyTorch's gradient, run op by op
    torch.compile    PyTorch's gradient, compiled
    XLA              tiduc's gradient, compiled by XLA
    iree-compile     tiduc's gradient, compiled by IREE without tiduc's rewrites (only with --threads 1)

The figures are the least time of a call in milliseconds, and ratios of these times; the peak memory of a call in MiB,
including results but not arguments; and the processor time to compile in seconds, including tiduc's passes. The calls
alternate. With --threads 1, processor time is measured, which other load on the machine hardly changes. With --write,
the table is written to docs/benchmarks.md.
"""

import argparse
import math
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import torch
import torch_functions
from convolutions import least
from flags import module_of
from networks import NETWORKS, made
from suite import PAGE, Compiled, allocated, by_iree, by_xla, machine

import tiduc
from tiduc.dialect.mlir.resources import inlined

BEGIN, END = "<!-- real_sizes.py -->", "<!-- end of real_sizes.py -->"
MIB = 2**20
TIDUC, TORCH, COMPILED, XLA, IREE = WAYS = "tiduc compile", "PyTorch", "torch.compile", "XLA", "iree-compile"
WITH_COMPILER = TIDUC, COMPILED, XLA, IREE


class Way(NamedTuple):
    """A way to compute the gradient: a function that does it, its peak memory in bytes, and the seconds to compile."""

    call: Callable[[], Sequence[Any]]
    memory: float
    seconds: float


class Row(NamedTuple):
    """The figures of a network. `times`, `memory` and `seconds` map ways to milliseconds, MiB and seconds to compile.

    `error` is the largest relative error of a result, and `failed` maps the ways that fail to the error message.
    """

    times: dict[str, float]
    memory: dict[str, float]
    seconds: dict[str, float]
    error: float
    failed: dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(NETWORKS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="1, or all of the machine")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of calls for each network")
    parser.add_argument("--without", nargs="+", choices=(COMPILED, XLA, IREE), default=(), metavar="WAY")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    jax.config.update("jax_platforms", "cpu")
    rows = {}
    for name in chosen.only:
        rows[name] = measured(name, chosen.threads, chosen.seconds, chosen.without)
        print(name, *(f"{way} {t:.3g} ms" for way, t in rows[name].times.items()), flush=True)
    report = "\n".join(table(rows, chosen.threads))
    print(report)
    if chosen.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{report}\n{END}{rest.partition(END)[2]}")


def measured(name: str, threads: int, seconds: float, without: Sequence[str] = ()) -> Row:
    """Compiles and times the gradient of a network of networks.py in each way."""
    module, image = made(name)
    return compared(module, (image,), threads, seconds, without)


def compared(
    module: Any, inputs: Sequence[Any], threads: int, seconds: float, without: Sequence[str] = ()
) -> Row:
    """Compiles and times, in each way, the gradient of a module with respect to its weights.

    The output of the module must be a scalar.
    """
    model = tiduc.from_torch(module, tuple(inputs), lift_constants=True)
    known = {value.name for value in model.signature.inputs}
    weights = {name: x for name, x in module.named_parameters() if name in known}
    gradient = model.grad(list(weights))
    arguments = [np.asarray(x) for x in gradient.arguments(*(x.numpy() for x in inputs))]
    of_module = partial(of_torch, inputs=inputs, weights=list(weights.values()))
    makers = {
        TIDUC: lambda: of_tiduc(gradient.text, arguments, threads),
        TORCH: lambda: of_module(module),
        COMPILED: lambda: of_module(torch.compile(module)),
        XLA: lambda: of_compiler(by_xla, gradient.text, arguments),
        IREE: lambda: of_compiler(by_iree, gradient.text, arguments),
    }
    ways, failed = {}, {}
    for way in (way for way in WAYS if way not in without and (way != IREE or threads == 1)):
        try:
            ways[way] = makers[way]()
        except Exception as error:  # a compiler may not be installed, or may not support an op
            failed[way] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"
            if way in (TIDUC, TORCH):
                raise
    expected = ways[TORCH].call()
    error = max(distance(ways[way].call(), expected) for way in ways.keys() & {TIDUC, XLA, IREE})
    times = least(
        {way: of.call for way, of in ways.items()},
        seconds,
        time.process_time if threads == 1 else time.perf_counter,
    )
    return Row(
        {way: t / 1000 for way, t in times.items()},
        {way: of.memory / MIB for way, of in ways.items()},
        {way: of.seconds for way, of in ways.items() if way in WITH_COMPILER},
        error,
        failed,
    )


def of_tiduc(text: str, arguments: Sequence[Any], threads: int) -> Way:
    """tiduc's gradient, compiled by IREE as by `tiduc compile`."""
    before = used()
    vmfb = module_of(tiduc.load(text), threads)
    seconds = used() - before
    executable = tiduc.Executable(vmfb)

    def call() -> Sequence[Any]:
        return executable(*arguments)

    return Way(call, allocated(vmfb, arguments) * 1024 - size(arguments), seconds)


def of_torch(forward: Callable[..., Any], inputs: Sequence[Any], weights: Sequence[Any]) -> Way:
    """PyTorch's gradient with respect to the weights. `forward` is the module, or the result of `torch.compile`."""

    def call() -> Sequence[Any]:
        found = torch.autograd.grad(forward(*inputs), weights, allow_unused=True, materialize_grads=True)
        return [x.numpy() for x in found]

    before = used()
    call()
    seconds = used() - before
    return Way(call, torch_functions.allocated(call), seconds)


def of_compiler(
    compiler: Callable[[str, Sequence[Any]], Compiled], text: str, arguments: Sequence[Any]
) -> Way:
    """Compiles tiduc's gradient with another StableHLO compiler."""
    before = used()
    with jax.enable_x64(True):
        compiled = compiler(inlined(text), arguments)
    seconds = used() - before

    def call() -> Sequence[Any]:
        with jax.enable_x64(True):
            return compiled.call()  # type: ignore[no-any-return]

    return Way(call, compiled.memory * 1024 - size(arguments), seconds)


def size(arrays: Sequence[Any]) -> int:
    """Returns the total size of arrays in bytes."""
    return sum(x.nbytes for x in arrays)


def distance(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """Returns the largest relative error (in the Euclidean norm) of a result. Ignores results with tiny norms."""
    norms = [float(np.linalg.norm(y)) for y in expected]
    compared = zip(results, expected, norms, strict=True)
    return max(float(np.linalg.norm(x - y)) / n for x, y, n in compared if n > 1e-6 * max(norms))


def used() -> float:
    """Returns the processor time of this process and of its child processes that have ended, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def table(rows: Mapping[str, Row], threads: int) -> Iterator[str]:
    """Yields the lines of the report in Markdown: the machine, means of ratios, the table, and the failures."""
    yield f"\n{machine()}; {threads} threads\n"
    for kind, what in {"times": "", "memory": ", memory", "seconds": ", to compile"}.items():
        for way in WAYS[1:]:
            ratios = [ratio(getattr(row, kind), way) for row in rows.values()]
            known = [math.log(r) for r in ratios if not math.isnan(r)]
            if known:
                mean = math.exp(sum(known) / len(known))
                yield f"- {TIDUC} / {way}{what}: geometric mean **{mean:.2f}** of {len(known)}"
    heads = [f"ms: {WAYS[0]}", *WAYS[1:], *(f"/ {way}" for way in WAYS[1:]), f"MiB: {WAYS[0]}", *WAYS[1:]]
    heads += [f"s to compile: {WITH_COMPILER[0]}", *WITH_COMPILER[1:], "error"]
    yield f"\n| gradient | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for name, row in rows.items():
        cells = [cell(row.times.get(way), 1) for way in WAYS]
        cells += [cell(ratio(row.times, way), 2) for way in WAYS[1:]]
        cells += [cell(row.memory.get(way), 0) for way in WAYS]
        cells += [cell(row.seconds.get(way), 1) for way in WITH_COMPILER]
        yield f"| {name} | {' | '.join(cells)} | {row.error:.0e} |"
    for name, row in rows.items():
        for way, why in row.failed.items():
            yield f"\n{way} fails for {name}: {why}"


def ratio(of: Mapping[str, float], way: str) -> float:
    """tiduc's figure divided by the figure of another way. Returns NaN if the other figure is missing."""
    return of[TIDUC] / of[way] if way in of else math.nan


def cell(x: float | None, digits: int) -> str:
    """Returns the text of a figure. Returns a dash if the figure is missing."""
    return "-" if x is None or math.isnan(x) else f"{x:.{digits}f}"


if __name__ == "__main__":
    main()
