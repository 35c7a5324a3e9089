"""Measures the parts of the time to compile networks of real sizes: python test/bench/compile_time.py [--help]

The programs are the gradients of the networks in networks.py with respect to all parameters. These columns are seconds
of processor time, which other load on the machine changes less than wall time:

    passes        tiduc's passes: merge, lower, and the rewrites for IREE
    dispatches    IREE's compiler from StableHLO to executables: fusion, scheduling, memory
    codegen       IREE's compiler from executables to LLVM's dialect: tiling, vectorization, bufferization
    LLVM          IREE's compiler from LLVM's dialect to the module: LLVM, linker, VM code
    XLA           XLA's compiler for the same gradient

The other columns are numbers of executables: of all executables (`executables`), of different executables if names and
constants are ignored (`bodies`), and of different executables if sizes are ignored, too (`kinds`).
"""

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flags import sources_of
from networks import NETWORKS, made
from real_sizes import used
from suite import by_xla

import tiduc
from tiduc.backends.iree.compile import compile_source, compile_until
from tiduc.backends.iree.source import Source
from tiduc.dialect.mlir.resources import inlined

COLUMNS = "passes dispatches codegen LLVM total XLA executables bodies kinds".split()
_EXECUTABLE = re.compile(r"\n  hal\.executable (?:private |public )?@[\w$]+ \{(.*?)\n  \}", re.DOTALL)
_NAME = re.compile(r"@[\w$]+|#\w+")
_CONSTANT = re.compile(r"(arith\.constant )[^:\n]*(:?)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(NETWORKS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--without-xla", action="store_true", help="skip XLA")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    print(f"{'gradient':16}", *(f"{column:>11}" for column in COLUMNS))
    for name in chosen.only:
        print(f"{name:16}", *(f"{x:11.4g}" for x in measured(name, chosen.without_xla)), flush=True)


def measured(name: str, without_xla: bool) -> Sequence[float]:
    """Returns the figures of a network, in the order of `COLUMNS`."""
    module, image = made(name)
    names = [name for name, _ in module.named_parameters()]
    gradient = tiduc.from_torch(module, (image,), lift_constants=True).grad(names)
    started = used()
    text = gradient.text
    source, *others = sources_of(tiduc.load(text))
    passes = used() - started
    compiles, whole, _ = timed(source)
    while not compiles and others:  # the time of rejected sources is added to that of the passes
        passes += whole
        source = others.pop(0)
        compiles, whole, _ = timed(source)
    _, dispatches, texts = timed(source, "executable-sources")
    _, to_llvm, _ = timed(source, "executable-targets")
    xla = math.nan
    if not without_xla:
        before = used()
        with jax.enable_x64(True):
            by_xla(inlined(text), [np.asarray(x) for x in gradient.arguments(image.numpy())])
        xla = used() - before
    executables = bodies(texts.decode())
    numbers = (re.sub(r"\d+", "N", body) for body in executables)
    counts = len(executables), len(set(executables)), len(set(numbers))
    return passes, dispatches, to_llvm - dispatches, whole - to_llvm, passes + whole, xla, *counts


def timed(source: Source, phase: str = "") -> tuple[bool, float, bytes]:
    """Compiles a source to the end, or up to a phase of IREE's compiler.

    Returns whether IREE succeeds, the processor time in seconds, and the result.
    """
    before = used()
    try:
        result: Any = compile_until(source, phase) if phase else compile_source(source, cached=False)
    except tiduc.CompileError:
        return False, used() - before, b""
    return True, used() - before, result


def bodies(text: str) -> list[str]:
    """Returns the texts of the executables in a program. Names and constants are replaced by placeholders."""
    return [_CONSTANT.sub(r"\1C\2", _NAME.sub("@", body)) for body in _EXECUTABLE.findall(text)]


if __name__ == "__main__":
    main()
