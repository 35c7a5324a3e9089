"""Times gradients by tiduc and by JAX, compiled by IREE and by XLA: python test/bench/suite.py [--help]

The programs compute value and gradient of each network of the examples and of each function of functions.py, in f32:

    tiduc compile    tiduc's gradient, compiled by `tiduc compile`
    iree-compile     tiduc's gradient, compiled by IREE for this CPU without tiduc's rewrites
    XLA              tiduc's gradient, compiled by XLA
    JAX: ...         JAX's gradient, compiled in the same three ways
    PyTorch          PyTorch's gradient, run op by op, if PyTorch is installed

The figures are the least time of a call in microseconds, including conversions from and to NumPy arrays; the peak
memory of the arrays in KiB; and the compile time in seconds. The calls of the engines alternate, three at a time, so
that other load on the machine affects all of them. With --write, the tables and a description of the machine are
written to docs/benchmarks.md.
"""

import argparse
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from functions import FUNCTIONS
from iree.compiler.tools import CompilerToolError, compile_str
from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
from jaxlib import xla_client

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.build import build
from tiduc.dialect.errors import TiducError

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test" / "py"))

from harness.allocations import allocated  # noqa: E402  (test/py is not a package)

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- suite.py -->", "<!-- end of suite.py -->"
sys.path.append(str(ROOT / "examples"))

import models  # noqa: E402  (examples/ is not a package)

PLAIN = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",
)
"""The flags of iree-compile for the highest speed on this CPU."""

OURS, REFERENCE, TORCH = "tiduc compile", "JAX: XLA", "PyTorch"
COMPILED = (OURS, "iree-compile", "XLA", "JAX: tiduc compile", "JAX: iree-compile", REFERENCE)


class Case(NamedTuple):
    """A function and the point at which its gradient is computed."""

    function: Callable[..., Any]
    arguments: list[Any]
    wrt: tuple[int, ...]


class Compiled(NamedTuple):
    """A function that runs a compiled program, its peak memory in KiB, and the seconds to compile."""

    call: Callable[[], Sequence[Any]]
    memory: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = list(cases())
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of calls for each function")
    parser.add_argument("--write", action="store_true", help="put the results into docs/benchmarks.md")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    rows = {}
    for name, case in cases().items():
        if name in chosen.only:
            rows[name] = measured(name, case, chosen.seconds)
            print(name, *(f"{way} {row[0]:.0f}" for way, row in rows[name].items()), flush=True)
    report = "\n".join(tables(rows))
    print(report)
    if chosen.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{report}\n{END}{rest.partition(END)[2]}")


# ---- programs ---------------------------------------------------------------------------------------------------


def cases() -> dict[str, Case]:
    """Maps names to the networks of the examples and the functions of functions.py."""
    cases_ = {name: network(model) for name, model in models.MODELS.items()}
    for name, function in FUNCTIONS.items():
        arguments = [single(x) for x in function.arguments(np.random.default_rng(0))]
        cases_[name] = Case(function.function, arguments, function.wrt)
    return cases_


def network(model: Any) -> Case:
    """Returns the case of a network of the examples. Its function is the loss."""
    leaves, tree = jax.tree.flatten(model.inputs(np.random.default_rng(0)))
    arguments = [single(x) for x in leaves]
    wrt = tuple(i for i, x in enumerate(arguments) if x.dtype.kind == "f")
    return Case(lambda *flat: model.loss(*jax.tree.unflatten(tree, flat)), arguments, wrt)


def single(x: Any) -> Any:
    """Converts an array of floats to f32. Returns other arrays unchanged."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.kind == "f" else x


def texts(case: Case) -> tuple[str, str]:
    """Returns two StableHLO texts that compute value and gradient of a case: tiduc's and JAX's."""
    loss = jax.jit(case.function, keep_unused=True).lower(*case.arguments).as_text()
    ours = tiduc.load(loss).grad(list(case.wrt), value=True)

    def both(*arguments: Any) -> Any:
        value, gradient = jax.value_and_grad(case.function, argnums=case.wrt)(*arguments)
        return value, *gradient

    return ours.text, jax.jit(both, keep_unused=True).lower(*case.arguments).as_text()


# ---- compilers --------------------------------------------------------------------------------------------------


def by_tiduc(text: str, arguments: Sequence[Any]) -> Compiled:
    """Compiles a program as `tiduc compile` does, but without the cache."""
    started = time.perf_counter()
    vmfb = build(tiduc.load(text).lower(), Options(cached=False))
    seconds = time.perf_counter() - started
    executable = tiduc.Executable(vmfb)
    return Compiled(lambda: executable(*arguments), allocated(vmfb, arguments), seconds)


def by_iree(text: str, arguments: Sequence[Any]) -> Compiled:
    """Compiles a program with IREE's compiler, without tiduc's rewrites."""
    started = time.perf_counter()
    vmfb = compile_str(text, input_type="stablehlo", extra_args=list(PLAIN))
    seconds = time.perf_counter() - started
    executable = tiduc.Executable(vmfb)
    return Compiled(lambda: executable(*arguments), allocated(vmfb, arguments), seconds)


def by_xla(text: str, arguments: Sequence[Any]) -> Compiled:
    """Compiles a program with the XLA compiler that JAX contains."""
    client = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    started = time.perf_counter()
    executable = client.compile_and_load(text, devices)
    seconds = time.perf_counter() - started
    buffers = [jax.device_put(x) for x in arguments]
    sizes = executable.get_compiled_memory_stats()
    memory = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes

    def call() -> Any:
        results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(x[0]) for x in results]

    return Compiled(call, memory / 1024, seconds)


def by_torch(name: str, case: Case) -> Compiled:
    """Runs PyTorch's autograd. The memory is that of all tensors, including arguments, as for other engines."""
    import torch_functions

    call = torch_functions.value_and_gradient(name, case.arguments, case.wrt)
    memory = torch_functions.allocated(call) + sum(x.nbytes for x in case.arguments)
    return Compiled(call, memory / 1024, 0)


# ---- measures -----------------------------------------------------------------------------------------------------


def measured(name: str, case: Case, seconds: float) -> dict[str, tuple[float, float, float]]:
    """Maps each engine to the time of a call in microseconds, the memory in KiB, and the seconds to compile.

    Leaves out engines that fail or compute other results.
    """
    ours, theirs = texts(case)
    compilers = (by_tiduc, by_iree, by_xla)
    compiled: dict[str, Compiled] = {}
    for way, (text, compiler) in zip(
        COMPILED, ((text, compiler) for text in (ours, theirs) for compiler in compilers), strict=True
    ):
        try:
            compiled[way] = compiler(text, case.arguments)
            compiled[way].call()
        except (TiducError, CompilerToolError, RuntimeError, ValueError, subprocess.CalledProcessError):
            compiled.pop(way, None)
    if find_spec("torch") is not None:
        compiled[TORCH] = by_torch(name, case)
    expected = compiled[REFERENCE].call()
    for way, one in list(compiled.items()):
        if not agree(one.call(), expected):
            print(f"{way} gives other results", file=sys.stderr)
            del compiled[way]
    times = least({way: one.call for way, one in compiled.items()}, seconds)
    return {way: (times[way], one.memory, one.seconds) for way, one in compiled.items()}


def agree(results: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Returns whether two lists of results are equal up to rounding."""
    return all(
        np.allclose(x, y, rtol=0, atol=2e-4 * float(np.max(np.abs(y), initial=1e-30)))
        for x, y in zip(results, expected, strict=True)
    )


def least(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Returns the least time of each call in microseconds. The calls alternate."""
    times = dict.fromkeys(calls, math.inf)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for way, call in calls.items():
            for _ in range(3):  # the first call may be slow because threads of the previous engine still run
                started = time.perf_counter()
                call()
                times[way] = min(times[way], time.perf_counter() - started)
    return {way: 1e6 * t for way, t in times.items()}


# ---- the report -----------------------------------------------------------------------------------------------------


def tables(rows: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> Iterator[str]:
    """Yields the lines of the report in Markdown: a description of the machine, ratios, and a table for each figure."""
    yield f"\n{machine()}\n"
    for denominator in (REFERENCE, "iree-compile", "JAX: iree-compile", TORCH):
        ratios = {
            name: row[OURS][0] / row[denominator][0]
            for name, row in rows.items()
            if OURS in row and denominator in row
        }
        if ratios:
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = max(ratios, key=lambda name: ratios[name])
            yield (
                f"- {OURS} / {denominator}: geometric mean **{mean:.2f}** of {len(ratios)}, "
                f"at most {ratios[worst]:.2f} ({worst})"
            )
    with_torch = any(TORCH in row for row in rows.values())
    for i, (title, digits) in enumerate((("µs a call", 0), ("KiB", 0), ("s to compile", 1))):
        ways = (*COMPILED, TORCH) if with_torch and title != "s to compile" else COMPILED
        yield f"\n| {title} | " + " | ".join(ways) + " |"
        yield "|---|" + "---:|" * len(ways)
        for name, row in rows.items():
            cells = (f"{row[way][i]:.{digits}f}" if way in row else "fails" for way in ways)
            yield f"| {name} | " + " | ".join(cells) + " |"


def machine() -> str:
    """Describes the processor and the versions of the measured packages."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            models_ = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        processor = f"{models_[0]}, {len(models_)} cores" if models_ else processor
    except OSError:
        pass
    packages = ["iree-base-compiler", "jax", "jaxlib", "torch-mlir", "numpy"]
    packages += ["torch"] if find_spec("torch") is not None else []
    return f"{processor}; Python {platform.python_version()}, " + ", ".join(map(installed, packages))


def installed(package: str) -> str:
    """Returns the name of a package and its version."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


if __name__ == "__main__":
    main()
