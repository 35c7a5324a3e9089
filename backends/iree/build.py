"""build: the compiled module of a program, for every caller.

    build            one program
    build_all        several programs at once
    build_objects    one program, as an object file for a static library
    text_after       one program, up to a phase of IREE's compiler

Each function prepares the program and tries the attempts of the plan (`plan.py`) in order, until IREE compiles one.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.compile import compile_first, compile_modules, compile_until
from tiduc.backends.iree.objects import Objects, compile_objects
from tiduc.backends.iree.plan import Attempt
from tiduc.backends.iree.prepare import Prepared
from tiduc.backends.iree.source import Source
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.runtime.files import written_whole

LEGALIZED = "legalize"
"""The name of a further phase, before those of IREE's compiler: its text is the compiler's input."""


def build(
    program: Lowered,
    options: Options,
    flags: Sequence[str] = (),
    parameters: Sequence[str] = (),
    *,
    is_plain: bool = False,
    poisons: bool = False,
    inlines: bool = False,
    folder: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> bytes:
    """The compiled module of a program: the bytes of a `.vmfb` file.

    `flags` are further flags of IREE's compiler. The module reads the inputs named in `parameters` from an archive.
    If `is_plain` is set, IREE places the arrays, and loops copy their carries: `memory_check.py` compares this module
    with the module that users run. If `poisons` is set, memory holds NaN before and after its use. If `inlines` is set,
    IREE inlines functions of equal layers before it forms dispatches (`dispatches.py`). `folder` receives IREE's input
    and flags, its phases and its object files. `tell` is called with lines that say which attempt gave the module, and
    why each earlier attempt failed. Raises `CompileError` if the target lacks an element type, or if IREE's compiler
    refuses the program. Raises `Unsupported` for an op that IREE cannot run.
    """
    prepared = Prepared(program, options, flags, parameters, is_plain, inlines)
    tried: list[tuple[Attempt, bool]] = []
    log: list[str] = []

    def sources() -> Iterator[Source]:
        for attempt, source in prepared.sources():
            tried.append((attempt, source is not None))
            if source is not None:
                yield replace(source, poisons=poisons)

    every = sources() if folder is None else _dumping(folder, sources())
    try:
        return compile_first(every, options.limits, options.cached and folder is None, log=log)
    finally:
        if tell is not None:
            _tell(tell, tried, log, len(prepared.attempts))


def build_all(
    programs: Sequence[Lowered], options: Options, flags: Sequence[str] = ()
) -> list[bytes | TiducError]:
    """Compiles each program; returns, in order, its compiled module or the error that `build` raises for it.

    The number of compilers that run at once is the number of CPUs that this process may use.
    """
    results: list[bytes | TiducError] = []
    alternatives: dict[int, Iterator[Source]] = {}
    for i, program in enumerate(programs):
        results.append(b"")
        try:
            sources = Prepared(program, options, flags).applicable()
            alternatives[i] = chain([next(sources)], sources)
        except TiducError as error:
            results[i] = error
    compiled = compile_modules([*alternatives.values()], options.limits, options.cached)
    for i, result in zip(alternatives, compiled, strict=True):
        results[i] = result
    return results


def build_objects(
    program: Lowered, options: Options, check: Callable[[bytes], object], flags: Sequence[str] = ()
) -> Objects:
    """The object file of a program, for a static library. Raises the errors of `build`, and those of `check`.

    `check` is called with the text of the host code before the kernels are compiled.
    """
    failed = None
    for source in Prepared(program, options, flags).applicable():
        try:
            return compile_objects(source, check, options.limits)
        except CompileError as error:
            failed = error
    assert failed is not None
    raise failed


def text_after(
    program: Lowered,
    options: Options,
    phase: str,
    flags: Sequence[str] = (),
    parameters: Sequence[str] = (),
) -> bytes:
    """The text of a program after `LEGALIZED`, or after a phase of IREE's compiler, in the first attempt that applies.

    The errors are those of `build`.
    """
    source = next(Prepared(program, options, flags, parameters).applicable())
    return source.whole if phase == LEGALIZED else compile_until(source, phase, options.limits)


def _dumping(folder: str, sources: Iterator[Source]) -> Iterator[Source]:
    """The sources, with flags that make IREE's compiler write its phases and object files to the folder.

    The text of the first source, and its flags without the added ones, are also written to the folder.
    """
    phases, executables = (os.path.join(folder, name) for name in ("phases", "executables"))
    flags = f"--dump-compilation-phases-to={phases}", f"--iree-hal-dump-executable-files-to={executables}"
    for number, source in enumerate(sources):
        if number == 0:
            for name, data in (
                ("iree-input.mlir", source.whole),
                ("iree-flags.txt", f"{shlex.join(source.flags)}\n".encode()),
            ):
                with written_whole(os.path.join(folder, name)) as file:
                    file.write(data)
        yield replace(source, flags=(*source.flags, *flags))


def _tell(
    tell: Callable[[str], None], tried: Sequence[tuple[Attempt, bool]], log: Sequence[str], count: int
) -> None:
    """Reports how each attempt ended. `log` has a phrase for each attempt that applied, in order."""
    ends = iter(log)
    for number, (attempt, applies) in enumerate(tried, 1):
        if not applies:
            end = f"does not apply: {attempt.condition}"
        else:
            end = next(ends, "ended by an error of tiduc")
        tell(f"attempt {number} of {count}: {attempt.reason}: {end}")
