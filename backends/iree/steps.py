"""steps: the runs of IREE's compiler on one program, from StableHLO to a module.

A program whose arrays are placed takes seven runs, each up to a phase:

    global-optimization    unverified; writes bytecode
    flow                   unverified; functions of repeats are inlined in the text
    stream, first half     verified; arrays are placed in the text
    stream                 verified; functions of workgroups are put into the text
    executable-targets     verified; writes bytecode
    vm                     unverified; writes bytecode, or text that `vm/` rewrites
    module                 verified

`compile.py` runs the last step. Programs without arrays to place take fewer runs, and small ones one verified run. A
verified run verifies all ops after each pass. An unverified run verifies them when it reads its input, and when it
prints text. The text between runs has no locations of the program.
"""

from collections.abc import Callable, Sequence

from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree.compiler_progress import PRINTS_IR
from tiduc.backends.iree.hosting import hosted
from tiduc.backends.iree.joined import inlined, with_workgroups
from tiduc.backends.iree.placement import FINISH, SCHEDULE, placed
from tiduc.backends.iree.source import Source
from tiduc.runtime.process import Ended

OPTIMIZED, DISPATCHED, SCHEDULED, LOWERED = "global-optimization", "flow", "stream", "executable-targets"
"""The phases before IREE makes dispatches, after it made them, after their order and the memory are decided, and after
each executable is in LLVM's dialect or another of its target."""

_ALONE = "--mlir-disable-threading"
"""For phases whose passes run over one large function, so that threads of the compiler take time and save none."""

_UNVERIFIED = "--verify=false"
"""The compiler then verifies ops only when it reads a program, text or bytecode, and when it prints text."""

AS_BYTECODE = "--emit-mlir-bytecode"
"""For a program that only the next run of the compiler reads: it takes less time than text."""

_GENERIC = b'"builtin.module"'
"""How a module begins, after aliases, in MLIR's generic form."""

_IN_SCHEDULE = PRINTS_IR, "--iree-scheduling"
"""How flags of users begin that change the phase `stream`, for which `placement.py` has pipelines."""


def in_steps(
    source: Source,
    step: Callable[..., Ended],
    command: Sequence[str],
    last: Sequence[str],
    is_last: Callable[[], bool],
) -> Ended:
    """Compiles a program; the last run of the compiler also has the flags `last`.

    `step` runs a command on a program. The compiler stops where the text of the program changes. Functions of repeats
    are inlined after the phase that makes dispatches. Then arrays are placed, and last, functions of workgroups are put
    into the text, since each pass until then would verify them. If a later run rejects the last source of a program,
    which `is_last` tells, one run of the whole program follows. It compiles some programs that IREE rejects in parts,
    and its diagnostics name places of the program.
    """
    text, begin = source.text, list[str]()
    places = places_arrays(source)
    if source.repeats or places:
        ended = _dispatched(text, step, command)
        if ended.code != 0:
            return ended
        text, begin = inlined(ended.output), [f"--compile-from={DISPATCHED}"]
    if ends_unverified(source):
        scheduled = scheduled_with_places(source, text, step) if places else None
        ended = scheduled or step(text, *command, *begin, f"--compile-to={SCHEDULED}")
        if ended.code == 0:
            ended = _finished(with_workgroups(ended.output, source.workgroups), step, command, last)
    else:
        ended = step(text, *command, *begin, *last)
    is_rejected = ended.code != 0 and "error: " in ended.errors
    if is_rejected and (begin or ends_unverified(source)) and is_last():
        return step(source.whole, *command, *last)
    return ended


def _dispatched(text: bytes, step: Callable[..., Ended], command: Sequence[str]) -> Ended:
    """Runs the phases that make dispatches of a program, in two parts.

    IREE verifies all ops after each pass, which takes two fifths of the time. Here the compiler verifies ops only when
    it reads a program or prints text. IREE makes invalid ops of some StableHLO; these ops last until the end of the
    first part, and would become wrong values in the second. If a part fails or prints invalid ops, one verified run of
    the phases follows, whose diagnostics name places of the program.
    """
    whole, unverified = f"--compile-to={DISPATCHED}", (*command, _ALONE, _UNVERIFIED)
    ended = step(text, *unverified, f"--compile-to={OPTIMIZED}", AS_BYTECODE)
    if ended.code == 0:
        ended = step(ended.output, *unverified, f"--compile-from={OPTIMIZED}", whole)
    return ended if ended.code is None or _is_valid(ended) else step(text, *command, whole)


def _finished(text: bytes, step: Callable[..., Ended], command: Sequence[str], last: Sequence[str]) -> Ended:
    """Runs the phases after the one that schedules dispatches, in two parts; the last run also has the flags `last`.

    The passes of the second part visit the whole module, and change little but the code of the host. A verified run
    verifies the kernels, which are large and final, after each of these passes. Here the compiler verifies all ops when
    the second part begins, and `last` ends the second part at VM code, which is verified when it is read. If the second
    part fails, one verified run of the phases follows.
    """
    begin = f"--compile-from={SCHEDULED}"
    ended = step(text, *command, begin, f"--compile-to={LOWERED}", AS_BYTECODE)
    if ended.code != 0:
        return ended
    ended = step(ended.output, *command, _UNVERIFIED, f"--compile-from={LOWERED}", *last)
    return ended if ended.code is None or _is_valid(ended) else step(text, *command, begin, *last)


def _is_valid(ended: Ended) -> bool:
    """Whether a run of the compiler has succeeded and printed valid ops: MLIR prints others in its generic form."""
    return ended.code == 0 and not ended.output.startswith(_GENERIC) and b"\n" + _GENERIC not in ended.output


def ends_unverified(source: Source) -> bool:
    """Whether the run that `in_steps` ends with is unverified, so that it has to stop at VM code."""
    return bool(source.workgroups) or places_arrays(source)


def places_arrays(source: Source) -> bool:
    """Whether the arrays of a program are placed: not if users give flags that change the phase."""
    return source.places_arrays and not any(flag.startswith(_IN_SCHEDULE) for flag in source.flags)


def scheduled_with_places(source: Source, text: bytes, step: Callable[..., Ended]) -> Ended | None:
    """Runs the phase that schedules dispatches, and places the arrays in its midst; None if a part of it fails.

    `text` is the program after the phase before, and `step` runs a command on a program.
    """
    options = [flag for flag in source.flags if flag.startswith("--iree-stream")]
    command = find_tool("iree-opt"), *options, _ALONE, "-", "-o", "-"
    ended = step(text, *command, f"--pass-pipeline={SCHEDULE}")
    if ended.code == 0:
        program = ended.output.decode("utf-8", "surrogateescape")
        program = hosted(program) or program
        text = (placed(program) or program).encode("utf-8", "surrogateescape")
        ended = step(text, *command, f"--pass-pipeline={FINISH}")
    return ended if ended.code == 0 else None
