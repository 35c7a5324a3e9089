"""Compares tiduc's rewrites for speed with flags of IREE's compiler: python test/bench/flags.py [--help]

For each rewrite of backends/iree/fast/ and each program that it should make faster, prints the time of a call in one
thread as `tiduc compile` compiles the program (`today`, in microseconds), and other times divided by this time:

    without       the time without the rewrite; above 1 if the rewrite makes the program faster
    --no-fast     the time without any rewrite or flag for speed
    FLAG          the time with an additional flag for IREE's compiler
    w/o + FLAG    the time with the flag and without the rewrite; about 1 if the flag can replace the rewrite

Times are medians of processor time, and the calls alternate. Programs that IREE cannot compile are left out.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from statistics import median
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
from rewritten import PROGRAMS, REWRITES

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree import pipeline, prepare
from tiduc.backends.iree.build import build
from tiduc.backends.iree.emit.emitter import PATTERNS
from tiduc.backends.iree.source import Source
from tiduc.dialect.errors import CompileError

FLAGS = {
    "split": "--iree-dispatch-creation-enable-split-reduction=true",
    "multi-use": "--iree-dispatch-creation-fuse-multi-use=true",
    "im2col": "--iree-global-opt-use-im2col-for-convs=true",
    "channels-last": "--iree-preprocessing-pass-pipeline="
    "builtin.module(util.func(iree-preprocessing-convert-conv-to-channels-last))",
}
"""Maps short names to flags of IREE's compiler."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(REWRITES), default=list(REWRITES), metavar="REWRITE"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of calls for each program")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    for rewrite in chosen.only:
        row = REWRITES[rewrite]
        for program in row.programs:
            medians_of = measured(program, rewrite, row.flags, chosen.seconds)
            today = medians_of["today"]
            cells = (f"{way} {time / today:.2f}" for way, time in medians_of.items() if way != "today")
            print(f"{rewrite}  {program}  today {today:.0f}", *cells, sep="  ", flush=True)


def measured(program: str, rewrite: str, flags: Sequence[str], seconds: float) -> dict[str, float]:
    """Returns the median time of a call in microseconds, for each way to compile the program.

    Leaves out the ways for which IREE cannot compile the program.
    """
    text, arguments = PROGRAMS[program]()
    calls: dict[str, Callable[[], Any]] = {}

    def add(way: str, fast: bool = True, flags: Sequence[str] = ()) -> None:
        try:
            executable = tiduc.Executable(module_of(tiduc.load(text), fast=fast, flags=flags, cached=True))
            results = executable(*arguments)
        except CompileError:
            return
        expected = calls["today"]() if calls else results
        for x, y in zip(results, expected, strict=True):
            np.testing.assert_allclose(
                x, y, rtol=0, atol=2e-3 * float(np.max(np.abs(y), initial=1e-30)), err_msg=way
            )
        calls[way] = lambda: executable(*arguments)

    add("today")
    with left_out(rewrite):
        add("without")
    add("--no-fast", fast=False)
    for name in flags:
        add(name, flags=[FLAGS[name]])
        with left_out(rewrite):
            add(f"w/o + {name}", flags=[FLAGS[name]])
    return medians(calls, seconds)


@contextmanager
def in_one_thread() -> Iterator[None]:
    """A context in which programs are compiled for one thread, as if they had too little work for several."""
    with patch.object(prepare, "work", lambda module: replace(work(module), threaded=False, beside=0)):
        yield


def sources_of(program: tiduc.Program) -> list[Source]:
    """Returns the sources for IREE of all attempts to compile a program, for one thread."""
    with in_one_thread():
        return [*prepare.Prepared(program.lower(), Options()).applicable()]


def module_of(
    program: tiduc.Program,
    threads: int = 1,
    fast: bool = True,
    flags: Sequence[str] = (),
    cached: bool = False,
) -> bytes:
    """Returns the compiled module of a program.

    With `threads` 1, it is compiled for one thread, else as by `tiduc compile`.
    """
    with in_one_thread() if threads == 1 else nullcontext():
        return build(program.lower(), Options(fast=fast, cached=cached), flags)


work = prepare.work


@contextmanager
def left_out(rewrite: str) -> Iterator[None]:
    """A context in which programs are compiled without a rewrite.

    A rewrite is the passes and patterns of a module of backends/iree/fast/, a part of a pass, or a flag.
    """
    part = REWRITES[rewrite].part
    if part is not None:
        with patch(*part):
            yield
        return

    def is_left(function: Callable[..., Any]) -> bool:
        *_, package, _, name = function.__module__.split(".")
        return package != "fast" or name != rewrite

    entries = tuple(entry for entry in pipeline.PIPELINE if is_left(entry.function))
    patterns = {op: [entry for entry in known if is_left(entry.pattern)] for op, known in PATTERNS.items()}
    assert (entries, patterns) != (pipeline.PIPELINE, PATTERNS), f"{rewrite} has no pass and no pattern"
    with patch.object(pipeline, "PIPELINE", entries), patch.dict(PATTERNS, patterns):
        yield


def medians(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Returns the median processor time of each call in microseconds. The calls alternate."""
    times: dict[str, list[float]] = {way: [] for way in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for way, call in calls.items():
            call()  # loads the data into the caches
            started = time.thread_time()
            call()
            times[way].append(time.thread_time() - started)
    return {way: 1e6 * median(samples) for way, samples in times.items()}


if __name__ == "__main__":
    main()
