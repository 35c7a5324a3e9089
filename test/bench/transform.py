"""Measures the time of differentiation per primal op: python test/bench/transform.py [--help]

For programs of growing size, prints the time of each stage of a VJP with respect to all parameters, in microseconds per
primal op. A primal op is an op of the function or of the functions that it calls. The columns:

    read        the time to parse and import the StableHLO text
    linearize, transpose, merge, structure, lower, collect
                the times of tiduc's stages, and of garbage collection after them
    stages      the sum of the times of linearize to collect
    print       the time to print the result
    JAX f       the time of jax.jit(f).lower(...), which traces f and lowers it to StableHLO
    JAX vjp     the time of jax.jit(vjp of f).lower(...), which also differentiates f
    x stages    (JAX vjp - JAX f) / stages: JAX's time to differentiate, divided by tiduc's
    x total     JAX vjp / (read + stages + print): JAX's total time, divided by tiduc's

Each number is the least processor time of several runs. The first run, which loads libraries and fills caches, is
ignored. The script does not assert any time.
"""

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import jax
from programs import PROGRAMS, Program

import tiduc
from tiduc.dialect.mlir.context import stage

SIZES = (100, 1_000, 10_000, 100_000)
JAX_LIMIT = 10_000
STAGES = ("linearize", "transpose", "merge", "structure", "lower", "collect")
COLUMNS = ("read", *STAGES, "stages", "print", "JAX f", "JAX vjp")
RATIOS = ("x stages", "x total")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="primal ops, approximately")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--jax-limit", type=int, default=JAX_LIMIT, help="skip JAX beyond this many ops")
    parser.add_argument("--budget", type=float, default=20, help="seconds of repetitions of each measurement")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    print(f"{'program':12}{'ops':>9}" + "".join(f"{name:>11}" for name in (*COLUMNS, *RATIOS)))
    for name in chosen.programs:
        for size in chosen.sizes:
            row(name, size, size <= chosen.jax_limit, chosen.budget)


def row(name: str, size: int, with_jax: bool, budget: float) -> None:
    """Measures one program with about `size` primal ops, and prints a line of figures."""
    one, two = (ops(text_of(PROGRAMS[name](layers))) for layers in (1, 2))
    program = PROGRAMS[name](max(1, round((size - one) / (two - one)) + 1))
    text = text_of(program)
    count = ops(text)
    times = best(lambda: stages(text, program.wrt), budget)
    if with_jax:
        times |= best(lambda: by_jax(program), budget)
    cost = {column: 1e6 * seconds / count for column, seconds in times.items()}
    cost["stages"] = sum(cost[column] for column in STAGES)
    if with_jax:
        cost["x stages"] = (cost["JAX vjp"] - cost["JAX f"]) / cost["stages"]
        cost["x total"] = cost["JAX vjp"] / (cost["read"] + cost["stages"] + cost["print"])
    cells = (f"{cost[column]:11.1f}" if column in cost else f"{'-':>11}" for column in (*COLUMNS, *RATIOS))
    print(f"{name:12}{count:9}" + "".join(cells), flush=True)


def text_of(program: Program) -> str:
    """Returns the StableHLO text to which JAX lowers the program."""
    return jax.jit(program.function, keep_unused=True).lower(*program.arguments).as_text()


def ops(text: str) -> int:
    """Returns the number of ops after private functions are inlined.

    `tidu.name` ops and the terminator do not count.
    """
    module = tiduc.import_stablehlo(tiduc.parse(text), inline=True)  # the module must live as long as its ops
    (graph,) = module.body.operations
    body = graph.operation.regions[0].blocks[0].operations
    return sum(op.operation.name != "tidu.name" for op in body) - 1


def stages(text: str, wrt: int) -> dict[str, float]:
    """Returns the time of each stage of the VJP of `main` with respect to its first `wrt` inputs, in seconds.

    As in a `Program`, Python's garbage collector does not run during the stages. "collect" is the time of the garbage
    collection after the last stage.
    """
    clock = Clock()
    view = tiduc.resolve(tiduc.import_stablehlo(tiduc.parse(text)))
    primal = view.graph("main")
    gc.collect(0)
    clock.lap("read")
    module = derivative(view, primal, wrt, clock)
    gc.collect(0)
    clock.lap("collect")
    str(module)
    clock.lap("print")
    return clock.times


@stage
def derivative(view: Any, primal: Any, wrt: int, clock: "Clock") -> Any:
    """Returns the module of the VJP of the graph `primal` with respect to its first `wrt` inputs."""
    linear = tiduc.linearize(view, primal.outputs, list(primal.keys)[:wrt], tiduc.OPSET)
    clock.lap("linearize")
    transposed = tiduc.linear_transpose(view, linear, tiduc.OPSET)
    clock.lap("transpose")
    wanted = [*primal.outputs, *(x for x in transposed.outputs if x is not None)]
    flat = tiduc.materialize_merge(view, wanted, [*primal.keys, *transposed.keys], tiduc.OPSET, "main")
    clock.lap("merge")
    structured = tiduc.structure(view, flat, tiduc.OPSET)
    clock.lap("structure")
    module = tiduc.lower(structured, view=view)
    clock.lap("lower")
    return module


def by_jax(program: Program) -> dict[str, float]:
    """JAX's time, in seconds, to trace and lower the function, and to trace and lower its VJP."""
    arguments, wrt = program.arguments, program.wrt

    def function(*arguments: Any) -> Any:
        return program.function(*arguments)  # JAX has not cached this new function

    def vjp(ct: Any, *arguments: Any) -> Any:
        y, back = jax.vjp(lambda *x: function(*x, *arguments[wrt:]), *arguments[:wrt])
        return y, back(ct)

    clock = Clock()
    jax.jit(function, keep_unused=True).lower(*arguments)
    clock.lap("JAX f")
    jax.jit(vjp, keep_unused=True).lower(jax.numpy.float32(1), *arguments)
    clock.lap("JAX vjp")
    return clock.times


class Clock:
    """Measures the processor time of this process between calls of `lap`, in seconds."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._started = time.process_time()

    def lap(self, name: str) -> None:
        self.times[name] = time.process_time() - self._started
        self._started = time.process_time()


def best(measure: Callable[[], dict[str, float]], budget: float) -> dict[str, float]:
    """Repeats a measurement, and returns the least value of each time. The first run is ignored.

    There are at least two further runs, and at most ten. No run is started after `budget` seconds.
    """
    started = time.perf_counter()
    measure()
    runs: list[dict[str, float]] = []
    while len(runs) < 2 or (len(runs) < 10 and time.perf_counter() - started < budget):
        gc.collect()
        runs.append(measure())
    return {name: min(run[name] for run in runs) for name in runs[0]}


if __name__ == "__main__":
    main()
