"""compile: compiles StableHLO with IREE's compiler, in a separate process.

If the compiler crashes, only its own process ends. A separate process takes no longer than a call of the compiler in
the caller's process. If a program was compiled before, its module is read from the cache.
"""

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, count

from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree.compiler_progress import Reported, reported, without_remarks
from tiduc.backends.iree.modules.job import RECORD_EACH_RUN, RECORDS, said
from tiduc.backends.iree.objects import ObjectFile, as_static_library, without_unused
from tiduc.backends.iree.plan import Rerun
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.steps import LOWERED, VM, CompilerStep, in_steps
from tiduc.backends.iree.targets import Target, find_target
from tiduc.backends.iree.versions import warn_of_another_version
from tiduc.dialect.errors import CompileError, RequestError, TiducError, out_of_memory
from tiduc.dialect.progress import during, report
from tiduc.runtime import cache
from tiduc.runtime.process import Ended, Limits, run_within, scratch_folder
from tiduc.runtime.worker import signal_name

# Matches the forms `file:line:col: error: text`, `loc("name"): error: text` and `error: text`.
_DIAGNOSTIC = re.compile(r"^(?:(?P<location>\S.*?): )?error: (?P<message>.*)$", re.MULTILINE)
_NO_LOCATION = re.compile(r"<unknown>|<stdin>:0:0")
# Matches `"file":line:col` in the `loc(...)` of a fused or named location.
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_FILE_LINE_COL = re.compile(r":\d+:\d+$")


PHASES = tuple(
    "input abi preprocessing global-optimization dispatch-creation flow stream executable-sources "
    "executable-configurations executable-targets hal vm".split()
)
"""The phases of IREE's compiler. After each of them, the compiler can stop and print the program."""


def compile_module(
    stablehlo: str | bytes,
    target: str = "cpu",
    name: str = "<stdin>",
    limits: Limits | None = None,
    cached: bool = True,
) -> bytes:
    """Compiles a StableHLO program; returns the bytes of a `.vmfb` file.

    `stablehlo` is MLIR text, MLIR bytecode or a StableHLO portable artifact. `name` is the program's name in
    diagnostics. With `cached=False`, the cache is neither read nor written.

    Raises `TiducError` for an unknown target. Raises `CompileError`, with the compiler's first diagnostic and its
    location, if the compiler refuses the program, crashes, or exceeds the limits.
    """
    return compile_source(Source(stablehlo, target, name), limits, cached)


def compile_source(source: Source, limits: Limits | None = None, cached: bool = True) -> bytes:
    """Compiles a program; returns the bytes of a `.vmfb` file. Raises the errors of `compile_module`."""
    return compile_first([source], limits, cached)


def compile_until(source: Source, phase: str, limits: Limits | None = None) -> bytes:
    """Compiles a program up to a phase in `PHASES`; returns its text after the phase.

    Raises the errors of `compile_module`.
    """
    target, limits = find_target(source.target), limits or Limits()
    flags = *target.flags, *source.flags, *_linkers(target), f"--compile-to={phase}"
    with scratch_folder() as folder:
        command = [find_tool("iree-compile"), *flags, "-", "-o", "-"]
        return run_or_refuse(command, source, limits, target, environment_of_compilers(folder))


def compile_kernel(empty: Source, written: Callable[[str], str], limits: Limits | None = None) -> bytes:
    """Compiles a kernel; returns the bytes of its object file.

    `empty` is an empty module, with the target and the flags of the kernel. IREE's compiler adds the description of the
    device to this module. `written` maps the text of the module with the device to the text of the kernel's module.
    Raises the errors of `compile_module`.
    """
    target, limits = find_target(empty.target), limits or Limits()
    text = written(compile_until(empty, "preprocessing", limits).decode())
    with scratch_folder() as folder:
        name = empty.name.removeprefix("@")
        kernels = os.path.join(folder, f"{name}.o")
        kernel = replace(empty, stablehlo=as_static_library(text.encode(), name, kernels))
        command = [find_tool("iree-compile"), *target.flags, *empty.flags, f"--compile-from={LOWERED}"]
        environment = environment_of_compilers(folder)
        run_or_refuse([*command, "-", "-o", os.devnull], kernel, limits, target, environment)
        with open(kernels, "rb") as file:
            data = file.read()
        return without_unused(
            data, f"{name}_library_query", folder, lambda x: run_within(x, b"", limits, environment)
        )


def run_or_refuse(
    command: Sequence[str], source: Source, limits: Limits, target: Target, environment: dict[str, str]
) -> bytes:
    """Runs a compiler on the program and returns its output. Raises `CompileError` if the compiler fails."""
    ended = run_within(command, source.whole, limits, environment)
    if ended.code == 0:
        return ended.output
    raise refusal(ended, limits, target, source.name)


def compile_modules(
    programs: Sequence[Iterable[Source]],
    limits: Limits | None = None,
    cached: bool = True,
    jobs: int | None = None,
) -> list[bytes | TiducError]:
    """Compiles programs at once. Returns, for each program, a module or the error that `compile_first` would raise.

    Each element of `programs` holds the sources of one program, in the order in which `compile_first` tries them.
    `jobs` compilers run at once; the default is the number of CPUs that this process may use. The limits apply to each
    compiler. An exception in the calling thread, such as `KeyboardInterrupt`, ends all compilers.
    """
    stop, ended = threading.Event(), count(1)

    def one(sources: Iterable[Source]) -> bytes | TiducError:
        try:
            return compile_first(sources, limits, cached, stop)
        except TiducError as error:
            return error
        finally:
            report(f"{next(ended)} of {len(programs)} programs compiled")

    with ThreadPoolExecutor(jobs or _cpus()) as pool:
        try:
            return list(pool.map(one, programs))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@during("compile")
def compile_first(
    sources: Iterable[Source],
    limits: Limits | None = None,
    cached: bool = True,
    stop: threading.Event | None = None,
    log: list[str] | None = None,
    file: ObjectFile | None = None,
) -> bytes:
    """Compiles sources of one program in order, until IREE accepts one. Returns the module of this source.

    - `sources`: a source is requested only after the source before it has failed.
    - `cached`: the module is read from the cache, or written to it. The key in the cache depends only on the first
      source, even if a later source was compiled.
    - `stop`: an event that ends the compilation once it is set.
    - `log`: receives a phrase for each source that says how its compilation ended, or one that the cache was used.
    - `file`: requests an object file, in addition to the module or instead of it. The cache is then not used.

    If IREE accepts no source, raises the error for the last source that was tried, as `compile_module` does. Raises
    `RequestError` if a module is requested for a target for which IREE's runtime loads no modules.
    """
    limits, log, remaining = limits or Limits(), [] if log is None else log, iter(sources)
    first = next(remaining)
    target = find_target(first.target)
    if target.library and (file is None or file.beside_module):
        raise RequestError(
            f"IREE's runtime loads no modules for {target.name}: compile a static library (--emit static-library)"
        )
    compiler = find_tool("iree-compile")
    warn_of_another_version()
    steps = (*("for threads",) * first.threaded, *("placed",) * first.places, *("poisoned",) * first.poisons)
    flags = *target.flags, *first.flags, *_linkers(target), *steps
    key = cache.key(first.whole, flags, compiler) if cached and file is None else None
    compiled = cache.read(key) if key else None
    if compiled is not None:
        log.append("the module is in the cache; --no-cache says whether this attempt or a later one made it")
        return compiled
    for source in chain([first], remaining):
        reruns: list[str] = []
        is_last = False
        try:
            ended = _ended(source, target, compiler, limits, stop, reruns, file)
        except CompileError as refused:
            # Either `file.check` failed, or a rewrite of IREE's IR without which results would be wrong.
            error = refused
        else:
            if ended.code == 0 and (ended.output or (file is not None and file.is_made)):
                log.append("; ".join(["compiled", *reruns]))
                if key:
                    cache.write(key, ended.output)
                return ended.output
            error, is_last = refusal(ended, limits, target, source.name), not ended.code
        log.append("; ".join([f"failed: {error}", *reruns]))
        if is_last:
            break
    raise error


def _ended(
    source: Source,
    target: Target,
    compiler: str,
    limits: Limits,
    stop: threading.Event | None,
    reruns: list[str],
    file: ObjectFile | None = None,
) -> Ended:
    """Runs the compiler on a program, in steps, and returns how the last step ended.

    If steps run again, a phrase with the steps and the reason (a `Rerun`) is appended to `reruns`. If `stop` is None,
    no other compiler runs at the same time, and the compiler's progress is reported.
    """

    def note(rerun: Rerun, steps: str) -> None:
        reruns.append(f"{steps} ran again: {rerun.value}")

    command = [compiler, *target.flags, *source.flags, *_linkers(target)]
    # The compiler's temporary files are removed with this directory, even if the compiler is killed.
    with scratch_folder() as folder:
        environment = environment_of_compilers(folder)
        recorded: list[str] = []
        with reported(folder, source.flags) if stop is None else nullcontext(Reported()) as seen:

            def run(command: list[str], program: bytes, step: CompilerStep) -> Ended:
                if step.begin == VM:
                    with during(f"compile: {step.name}"):
                        ended = run_within([*command, *recorded], program, limits, environment, stop)
                    # The line numbers in this run's diagnostics are lines of VM code, not of the user's program.
                    return replace(ended, errors=ended.errors.replace("<stdin>", "<unknown>"))
                flags = (*recorded, *seen.flags)
                with during(f"compile: {step.name}"):
                    ended = run_within([*command, *flags], program, limits, environment, stop, seen.errors)
                if any(kind == RECORDS for kind, _ in said(ended.errors)[1]) and not recorded:
                    recorded.extend(RECORD_EACH_RUN)
                    note(Rerun.RECORDED_IN_EACH_CALL, step.name)
                    return run(command, program, step)
                return replace(ended, errors=without_remarks(ended.errors)) if seen.flags else ended

            def alone(command: list[str], program: bytes) -> Ended:
                with during("compile: write the object file"):
                    return run_within(command, program, limits, environment, stop)

            reached = None if file is None else partial(file.reached, command, alone, folder)
            return in_steps(source, target, command, run, note, reached)


def environment_of_compilers(folder: str) -> dict[str, str]:
    """Returns the environment variables for a run of IREE's compiler, which writes temporary files to `folder`.

    After a crash, LLVM would look up function names for a stack trace, which takes seconds. The environment disables
    this look-up, because tiduc's diagnostics show no stack trace.
    """
    return {**os.environ, "TMPDIR": folder, "LLVM_DISABLE_SYMBOLIZATION": "1"}


def _linkers(target: Target) -> tuple[str, ...]:
    """Returns flags that select the linker in IREE's own package, so that users need not install a linker.

    Returns no flags unless the target's modules are shared libraries, on Linux.
    `-z now` makes the loading of a module fail if the machine lacks a function that the module calls. Without it, the
    dynamic linker would end the process at the first call of the function.
    """
    if not target.shared or not sys.platform.startswith("linux"):
        return ()
    # The flag's value is a shell command line, hence the quotes.
    return (f"--iree-llvmcpu-system-linker-path={shlex.quote(find_tool('iree-lld'))} -flavor gnu -z now",)


def refusal(ended: Ended, limits: Limits, target: Target, name: str) -> CompileError:
    """Returns the error for a run of the compiler that gave no module. `name` is the name of the user's file."""
    about = f"target {target.name!r}:"
    if ended.code is None:
        return CompileError(
            f"{about} IREE's compiler was ended after {limits.seconds:g} seconds. It may hang on this program: "
            "allow it more time (--compile-timeout), or compile parts of the program to find what it hangs on",
            name,
        )
    # A crash can follow a diagnostic, and the user needs the diagnostic.
    diagnostic = _DIAGNOSTIC.search(ended.errors)
    if diagnostic:
        # The text before this phrase names the op. The text after it is the whole op, which can fill a screen.
        message = diagnostic["message"].partition(" that was explicitly marked illegal")[0]
        return CompileError(f"{about} {message}", located(diagnostic["location"] or "", name))
    if ended.code and out_of_memory(ended.errors.encode()):
        return CompileError(
            f"{about} IREE's compiler needs more than the {limits.mebibytes} MiB of memory that it may take; "
            "allow it more (--compile-memory)",
            name,
        )
    if ended.code == -signal.SIGKILL:
        return CompileError(
            f"{about} IREE's compiler was killed (SIGKILL), probably because the system ran out of memory: "
            "compile on a machine with more, or limit the compiler (--compile-memory) to see how much it needs",
            name,
        )
    if ended.code == -getattr(signal, "SIGXFSZ", 0):
        return CompileError(
            f"{about} a file of IREE's compiler exceeds the limit of the shell (ulimit -f)", name
        )
    if ended.code < 0:
        return CompileError(
            f"{about} IREE's compiler crashed ({signal_name(-ended.code)}) on this program. "
            "The fault is the compiler's: try another target, or leave parts out until the op at fault "
            f"is found. To report it: iree-compile {shlex.join(target.flags)}",
            name,
        )
    lines = ended.errors.strip().split("\n")
    why = next((line for line in lines if "Unknown command line argument" in line), lines[-1])
    return CompileError(f"{about} the compiler ended with {ended.code}: {why}", name)


def located(location: str, name: str) -> str:
    """Returns the `file:line:col` of a diagnostic's location, or `name` if the location has no line.

    `name` is the name of the user's file. It replaces `<stdin>` in the location.
    """
    place = _PLACE.search(location) if location.startswith("loc(") else None
    if place:
        location = ":".join(place.groups())
    if _NO_LOCATION.match(location) or not _FILE_LINE_COL.search(location):
        return name
    return location.replace("<stdin>", name, 1)
