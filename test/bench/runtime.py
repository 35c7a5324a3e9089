"""Times gradients of the examples: python test/bench/runtime.py [--help]

For each example, three programs run: the loss, tiduc's loss and gradient, and JAX's loss and gradient. Both IREE and
XLA compile each program for this CPU. The calls of the programs alternate, so that other load on the machine affects
all of them. The columns:

    loss, ours, JAX's     the median time of a call, in microseconds
    ours/JAX's            the time of tiduc's gradient divided by the time of JAX's; below 1, tiduc's is faster
    ours/loss             the time of tiduc's gradient divided by the time of the loss

Also prints the number of ops of each gradient, with private functions inlined, before and after `lower` simplifies it.
With --calls, measures the overhead of a call instead: the time of a sum of two arrays, for several sizes. The script
does not assert any time.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
from jaxlib import xla_client

import tiduc
import tiduc.runtime
from tiduc.backends.iree.compile import compile_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.append(str(EXAMPLES))

import models  # noqa: E402  (examples/ is not a package)

Call = Callable[[], Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", nargs="+", choices=list(models.MODELS), default=list(models.MODELS))
    parser.add_argument("--type", choices=("f32", "f64"), default="f32")
    parser.add_argument("--rounds", type=int, default=300, help="number of calls of each program")
    parser.add_argument("--calls", action="store_true", help="measure the overhead of calls instead")
    chosen = parser.parse_args()
    if chosen.calls:
        measure_calls(chosen.rounds)
        return
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", chosen.type == "f64")
    columns = ("loss", "ours", "JAX's", "ours/JAX's", "ours/loss")
    print(f"{'example':12}{'compiler':>9}" + "".join(f"{name:>12}" for name in columns))
    sizes = []
    for name in chosen.examples:
        arguments = stored_inputs(f"{name}_{chosen.type}")
        loss = tiduc.load(EXAMPLES / f"{name}_{chosen.type}.mlir")
        wrt = [i for i, x in enumerate(arguments) if x.dtype.kind == "f"]
        texts = {
            "loss": str(loss),
            "ours": str(loss.grad(wrt, value=True)),
            "JAX's": by_jax(name, arguments, wrt),
        }
        for compiler, load in (("IREE", by_iree), ("XLA", by_xla)):
            calls = {program: load(text, arguments) for program, text in texts.items()}
            compare(calls["ours"](), calls["JAX's"]())
            print(f"{name:12}{compiler:>9}" + cells(medians(calls, chosen.rounds)), flush=True)
        sizes += [(name, program, *ops(texts[program])) for program in ("ours", "JAX's")]
    print(f"\n{'example':12}{'gradient':>9}{'ops':>12}{'cleaned up':>12}")
    for name, program, before, after in sizes:
        print(f"{name:12}{program:>9}{before:12}{after:12}")


def measure_calls(rounds: int) -> None:
    """Prints the median time of a call for each device and size, with arrays of NumPy and with arrays on the device."""
    print(f"{'device':12}{'numbers':>10}{'NumPy':>12}{'kept':>12}")
    for size in (4, 1_000, 10_000, 100_000, 1_000_000):
        t = f"tensor<{size}xf32>"
        text = (
            f"func.func @main(%x: {t}, %y: {t}) -> {t} {{ %z = stablehlo.add %x, %y : {t} return %z : {t} }}"
        )
        vmfb, x = compile_module(text), np.ones(size, np.float32)
        for device in ("local-sync", "local-task"):
            with tiduc.runtime.load(vmfb, devices=[device]) as module:
                add, kept = module["main"], module.put(x)
                ways: dict[str, Call] = {
                    "NumPy": lambda add=add, x=x: add(x, x),
                    "kept": lambda add=add, kept=kept: add.keep(kept, kept),
                }
                times = medians(ways, rounds)
            print(f"{device:12}{size:10}{times['NumPy']:12.1f}{times['kept']:12.1f}", flush=True)


def cells(times: dict[str, float]) -> str:
    """Returns the cells of a line of the table: the times, followed by the ratios."""
    ratios = (times["ours"] / times[other] for other in ("JAX's", "loss"))
    return "".join(f"{time:12.0f}" for time in times.values()) + "".join(f"{x:12.2f}" for x in ratios)


def stored_inputs(name: str) -> list[Any]:
    """Returns the arguments in the file of an example."""
    with np.load(EXAMPLES / f"{name}.npz") as stored:
        return [stored[f"input.{i}"] for i in range(sum(key.startswith("input.") for key in stored.files))]


def by_jax(name: str, arguments: Sequence[Any], wrt: Sequence[int]) -> str:
    """Returns the StableHLO text of the loss and its gradient by JAX.

    Inputs and outputs are those of tiduc's program.
    """
    model = models.MODELS[name]
    tree = jax.tree.structure(model.inputs(np.random.default_rng(0)))

    def loss(*flat: Any) -> Any:
        return model.loss(*jax.tree.unflatten(tree, flat))

    def value_and_gradient(*flat: Any) -> Any:
        value, gradient = jax.value_and_grad(loss, argnums=tuple(wrt))(*flat)
        return value, *gradient

    return jax.jit(value_and_gradient, keep_unused=True).lower(*arguments).as_text()


# ---- compilers --------------------------------------------------------------------------------------------


def by_iree(text: str, arguments: Sequence[Any]) -> Call:
    """Returns a function without arguments that runs the program, compiled by IREE, and returns its results."""
    executable = tiduc.Executable(compile_module(text))
    return lambda: executable(*arguments)


def by_xla(text: str, arguments: Sequence[Any]) -> Call:
    """Returns a function without arguments that runs the program, compiled by XLA, and returns its results."""
    client = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(text, devices)
    buffers = [jax.device_put(x) for x in arguments]

    def call() -> Any:
        results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(x[0]) for x in results]

    return call


# ---- measures ---------------------------------------------------------------------------------------------


def medians(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Returns the median time of each call in microseconds. The calls alternate."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: 1e6 * median(of_one) for name, of_one in times.items()}


def compare(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Asserts that all results of two programs are close, because otherwise their times must not be compared."""
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5 * float(np.max(np.abs(y))))


def ops(text: str) -> tuple[int, int]:
    """Returns the number of ops of a program before and after merge and lower, with calls inlined."""
    module = tiduc.import_stablehlo(tiduc.parse(text))
    lowered = tiduc.load(text).module
    return body_size(module), body_size(lowered)


def body_size(module: Any) -> int:
    """Returns the number of ops in a module's only graph or function, without `tidu.name` ops and the terminator."""
    (function,) = module.body.operations
    body = function.operation.regions[0].blocks[0].operations
    return sum(op.operation.name != "tidu.name" for op in body) - 1


if __name__ == "__main__":
    main()
