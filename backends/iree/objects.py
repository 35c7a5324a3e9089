"""objects: compiles a program to an object file with its kernels, for a static library (`static/library.py`)."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree.compile import environment_of_compilers, refusal, run_or_refuse
from tiduc.backends.iree.elf import NO_KERNELS
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.steps import (
    DISPATCHED,
    LOWERED,
    SCHEDULED,
    SCHEDULING,
    Changes,
    SteppedProgram,
    run_part,
)
from tiduc.backends.iree.targets import Target, find_target
from tiduc.runtime.process import Ended, Limits, run_within, scratch_folder


@dataclass(frozen=True)
class Objects:
    """A program's kernels as an object file, IREE's header for them, and the program's text after `LOWERED`.

    The header is empty for a program without kernels.
    """

    kernels: bytes
    header: str
    text: bytes


def compile_objects(
    source: Source, check: Callable[[bytes], object], limits: Limits | None = None
) -> Objects:
    """Compiles a program to an object file. Raises `CompileError` if IREE's compiler refuses the program.

    `check` receives the text after `SCHEDULED`, before the kernels are compiled. It raises an error if the host code
    cannot be translated.
    """
    target, limits = find_target(source.target), limits or Limits()
    with scratch_folder() as folder:
        kernels = os.path.join(folder, f"{source.name.removeprefix('@')}.o")

        def run(program: Source, *flags: str) -> bytes:
            return _run(program, target, kernels, limits, folder, *flags)

        if source.places:
            scheduled = _placed(source, target, kernels, limits, folder)
        else:
            scheduled = run(source, f"--compile-to={SCHEDULED}", "--mlir-print-debuginfo")
        check(scheduled)
        rest = replace(source, stablehlo=scheduled, workgroups={}, repeats=False)
        text = run(rest, f"--compile-from={SCHEDULED}", f"--compile-to={LOWERED}")
        run(replace(rest, stablehlo=text), f"--compile-from={LOWERED}")
        if not os.path.exists(kernels):
            return Objects(NO_KERNELS, "", text)
        with open(kernels, "rb") as file, open(f"{kernels[:-2]}.h", encoding="utf-8") as header:
            return Objects(file.read(), header.read(), text)


def _placed(source: Source, target: Target, kernels: str, limits: Limits, folder: str) -> bytes:
    """The bytecode of a program whose dispatches are scheduled and whose arrays are placed."""
    flags = f"--compile-to={DISPATCHED}", "--mlir-print-debuginfo"
    declared = replace(source, workgroups={})  # `put_in_workgroups` replaces the declarations
    dispatched = _run(declared, target, kernels, limits, folder, *flags)
    program = SteppedProgram(
        source, target, Changes.of(source, target), [find_tool("iree-compile"), *target.flags, *source.flags]
    )

    def run(command: list[str], text: bytes, step: object) -> Ended:
        return run_within(command, text, limits, environment_of_compilers(folder))

    ended = run_part(SCHEDULING, dispatched, program, run, note=lambda *_: None)
    if ended.code != 0:
        raise refusal(ended, limits, target, source.name)
    return ended.output


def _run(source: Source, target: Target, kernels: str, limits: Limits, folder: str, *flags: str) -> bytes:
    static = (
        "--iree-llvmcpu-link-embedded=false",
        "--iree-llvmcpu-link-static=true",
        f"--iree-llvmcpu-static-library-output-path={kernels}",
        "--iree-opt-const-eval=false",
    )
    # iree-compile refuses a flag that is given twice.
    given = [flag for flag in (*target.flags, *source.flags) if flag.partition("=")[0] not in _names(static)]
    command = [find_tool("iree-compile"), *given, *static, *flags, "-", "-o", "-"]
    return run_or_refuse(command, source, limits, target, environment_of_compilers(folder))


def _names(flags: tuple[str, ...]) -> set[str]:
    return {flag.partition("=")[0] for flag in flags}
