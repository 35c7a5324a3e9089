"""build: compiles programs with IREE. All other modules that compile with IREE call these functions:

    build            one program
    build_all        several programs at once
    build_objects    one program, as an object file for a static library, and as a module too if that is requested
    build_kernel     one kernel in LLVM's dialect, as an object file
    text_after       one program, up to a phase of IREE's compiler

An attempt is one way to compile a program: a selection of rewrites, and flags of IREE's compiler. The first three
functions try the attempts of `plan.py` in order, until IREE accepts one. `text_after` uses the first attempt that
applies.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.compile import compile_first, compile_kernel, compile_modules, compile_until
from tiduc.backends.iree.objects import ObjectFile, Objects
from tiduc.backends.iree.plan import Attempt
from tiduc.backends.iree.prepare import Prepared
from tiduc.backends.iree.source import Source
from tiduc.dialect.errors import TiducError
from tiduc.runtime.files import written_whole

LEGALIZED = "legalize"
"""The name of the phase before IREE's own phases. The text of this phase is the input of IREE's compiler."""


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
    """Compiles a program; returns the bytes of a `.vmfb` file.

    - `flags`: further flags of IREE's compiler.
    - `parameters`: the names of the inputs that the module reads from an archive.
    - `is_plain`: IREE instead of tiduc decides where arrays are in memory, and loops copy their loop-carried values.
      `memory_check.py` compares the results of this module with those of the module that users run.
    - `poisons`: memory that holds no array is filled with NaN, so that a read of such memory shows in the results.
    - `inlines`: IREE inlines the functions of equal layers before it forms dispatches (`dispatches.py`).
    - `folder`: receives IREE's input and flags, its phases and its object files.
    - `tell`: called with lines that say which attempt succeeded, and why earlier attempts failed.

    Raises `CompileError` if the target lacks an element type, or if IREE's compiler refuses the program. Raises
    `Unsupported` for an op that IREE cannot run.
    """
    prepared = Prepared(program, options, flags, parameters, is_plain, inlines)
    return _first(prepared, options, folder, tell, poisons=poisons)


def build_all(
    programs: Sequence[Lowered], options: Options, flags: Sequence[str] = ()
) -> list[bytes | TiducError]:
    """Compiles each program. Returns a module, or the error that `build` would raise, for each program.

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
    program: Lowered,
    options: Options,
    file: ObjectFile,
    flags: Sequence[str] = (),
    *,
    folder: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[Objects, bytes]:
    """Compiles a program to an object file for a static library.

    Returns the object file, and the bytes of a `.vmfb` file if `file` requests one (`beside_module`), else empty bytes.
    The other arguments are those of `build`. Raises the errors of `build`, and those of `file.check`.
    """
    module = _first(Prepared(program, options, flags), options, folder, tell, file)
    assert file.objects is not None
    return file.objects, module


def build_kernel(
    name: str, written: Callable[[str], str], options: Options, flags: Sequence[str] = ()
) -> bytes:
    """Compiles a kernel in LLVM's dialect; returns an object file for a static library.

    `written` is a function that returns the text of the kernel's module. Its argument is the text of an empty module to
    which IREE's compiler has added the description of the device (`hal.device.target`). Raises `CompileError` if IREE's
    compiler refuses the kernel.
    """
    return compile_kernel(
        Source("module {}", options.target, f"@{name}", tuple(flags)), written, options.limits
    )


def text_after(
    program: Lowered,
    options: Options,
    phase: str,
    flags: Sequence[str] = (),
    parameters: Sequence[str] = (),
) -> bytes:
    """Returns the text of a program after `phase`, which is `LEGALIZED` or a phase of IREE's compiler.

    Uses the first attempt that applies to the program. Raises the errors of `build`.
    """
    source = next(Prepared(program, options, flags, parameters).applicable())
    return source.whole if phase == LEGALIZED else compile_until(source, phase, options.limits)


def _first(
    prepared: Prepared,
    options: Options,
    folder: str | None,
    tell: Callable[[str], None] | None,
    file: ObjectFile | None = None,
    poisons: bool = False,
) -> bytes:
    """Returns the module of the first attempt that IREE's compiler accepts. The parameters are those of `build`.

    `file` requests an object file. The result is then empty unless `file` requests a module, too.
    """
    tried: list[tuple[Attempt, bool]] = []
    log: list[str] = []

    def sources() -> Iterator[Source]:
        for attempt, source in prepared.sources():
            tried.append((attempt, source is not None))
            if source is not None:
                yield replace(source, poisons=poisons)

    every = sources() if folder is None else _dumping(folder, sources())
    try:
        return compile_first(every, options.limits, options.cached and folder is None, log=log, file=file)
    finally:
        if tell is not None:
            _tell(tell, tried, log, len(prepared.attempts))


def _dumping(folder: str, sources: Iterator[Source]) -> Iterator[Source]:
    """Yields the sources, with flags that make IREE's compiler write its IR and object files to `folder`.

    The text and the original flags of the first source are written to `folder`, too.
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
    """Calls `tell` with a line for each attempt, which says how the attempt ended.

    `tried` has pairs: an attempt, and whether it applies to the program. `log` has a phrase for each attempt that
    applies; the phrase of the last one is missing if an error of tiduc ended it.
    """
    ends = iter(log)
    for number, (attempt, applies) in enumerate(tried, 1):
        if not applies:
            end = f"does not apply: {attempt.condition}"
        else:
            end = next(ends, "ended by an error of tiduc")
        tell(f"attempt {number} of {count}: {attempt.reason}: {end}")
