"""steps: the runs of IREE's compiler on one program, from StableHLO to a module.

`STEPS` lists the runs, in parts. A program takes all of them if its arrays are placed in memory. Other programs change
less between the runs: where nothing changes, a step is one run with the next step. A verified run verifies all ops
after each pass. An unverified run verifies them when it reads its input, and when it prints text. If a step of a part
fails or prints invalid ops, one verified run takes the place of the part. The text between runs has no locations of
the program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree.compiler_progress import PRINTS_IR
from tiduc.backends.iree.modules.hosting import hosted
from tiduc.backends.iree.modules.invariants import unless_broken
from tiduc.backends.iree.modules.joined import inlined, may_be_inlined, with_workgroups
from tiduc.backends.iree.modules.placement import FINISH, SCHEDULE, placed
from tiduc.backends.iree.modules.vm import rewritten
from tiduc.backends.iree.modules.vm.references import may_branch
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import Target
from tiduc.dialect.mlir.artifacts import BYTECODE
from tiduc.runtime.process import Ended

OPTIMIZED, DISPATCHED, SCHEDULED, LOWERED = "global-optimization", "flow", "stream", "executable-targets"
"""The phases before IREE makes dispatches, after it made them, after their order and the memory are decided, and after
each executable is in LLVM's dialect or another of its target."""

ALLOCATING = "stream, first half"
"""Where IREE has decided which arrays share an allocation; this is no phase of its own."""

VM, MODULE = "vm", "module"
"""The phase that ends with code for IREE's virtual machine, and the end."""

_IN_SCHEDULE = PRINTS_IR, "--iree-scheduling"
"""How flags of users begin that change the phase `stream`, for which `placement.py` has pipelines."""

_GENERIC = b'"builtin.module"'
"""How a module begins, after aliases, in MLIR's generic form."""


class Changes(NamedTuple):
    """The changes of a program between the runs of the compiler.

    `repeats`: functions of repeats are inlined. `places`: arrays are placed in memory. `workgroups`: functions of
    workgroups are put in. `vm`: the code of the host is rewritten.
    """

    repeats: bool
    places: bool
    workgroups: bool
    vm: bool

    @staticmethod
    def of(source: Source, target: Target) -> "Changes":
        """The changes of a program."""
        # Bytecode has large constants, whose text takes long.
        threads = source.threaded and not source.text.startswith(BYTECODE)
        vm = target.spirv or may_branch(source.text) or threads
        return Changes(source.repeats, places_arrays(source), bool(source.workgroups), vm)

    @property
    def in_flow(self) -> bool:
        return self.repeats or self.places

    @property
    def in_stream(self) -> bool:
        return self.workgroups or self.places


def places_arrays(source: Source) -> bool:
    """Whether the arrays of a program are placed: not if users give flags that change the phase."""
    return source.places_arrays and not any(flag.startswith(_IN_SCHEDULE) for flag in source.flags)


@dataclass(frozen=True)
class Step:
    """A run of IREE's compiler from the phase `begin`, or from StableHLO if that is empty, to the phase `end`.

    The compiler stops at the end if `stops` holds for the changes of a program; otherwise the next step is part of the
    run. `change` is done after the step, except to bytecode, which the step writes if `bytecode` holds. A step with a
    `pipeline` runs its passes alone. With `one_thread`, the compiler starts no threads: the passes run over one large
    function, so that threads take time and save none.
    """

    name: str
    begin: str
    end: str
    stops: Callable[[Changes], bool]
    verified: bool = True
    bytecode: Callable[[Changes], bool] = lambda changes: False
    one_thread: bool = False
    pipeline: str = ""
    change: Callable[[bytes, Source], bytes] = lambda text, source: text

    def command(self, compiler: Sequence[str], source: Source, changes: Changes) -> list[str]:
        """The command of the run; `compiler` is IREE's compiler with the flags of the program."""
        flags = ["--mlir-disable-threading"] if self.one_thread else []
        if self.pipeline:
            options = [flag for flag in source.flags if flag.startswith("--iree-stream")]
            return [
                find_tool("iree-opt"),
                *options,
                *flags,
                "-",
                "-o",
                "-",
                f"--pass-pipeline={self.pipeline}",
            ]
        flags += [] if self.verified else ["--verify=false"]
        flags += [f"--compile-from={self.begin}"] if self.begin else []
        flags += [] if self.end == MODULE else [f"--compile-to={self.end}"]
        return [*compiler, *flags, *(["--emit-mlir-bytecode"] if self.bytecode(changes) else [])]


def _with_places(text: bytes, source: Source) -> bytes:
    """A program with its arrays placed in memory."""
    program = text.decode("utf-8", "surrogateescape")
    program = unless_broken(hosted, program) or program
    return (unless_broken(placed, program) or program).encode("utf-8", "surrogateescape")


class _NotInlined(Exception):
    """The functions of repeats of a program cannot be inlined in its text."""


def _inlined(text: bytes, source: Source) -> bytes:
    """A program with its functions of repeats inlined."""
    whole = unless_broken(inlined, text) if source.repeats else text
    if whole is None:
        raise _NotInlined
    return whole


STEPS = (
    # IREE verifies all ops after each pass, which takes two fifths of the time. It makes invalid ops of some StableHLO;
    # these ops last until the end of the first step, and would become wrong values in the second.
    (
        Step(
            "optimize",
            "",
            OPTIMIZED,
            stops=lambda changes: changes.in_flow,
            verified=False,
            bytecode=lambda changes: True,
            one_thread=True,
        ),
        Step(
            "make dispatches",
            OPTIMIZED,
            DISPATCHED,
            stops=lambda changes: changes.in_flow,
            verified=False,
            one_thread=True,
            change=_inlined,
        ),
    ),
    # Functions of workgroups are put in last, since each pass until then would verify them.
    (
        Step(
            "schedule dispatches",
            DISPATCHED,
            ALLOCATING,
            stops=lambda changes: changes.places,
            one_thread=True,
            pipeline=SCHEDULE,
            change=_with_places,
        ),
        Step(
            "allocate arrays",
            ALLOCATING,
            SCHEDULED,
            stops=lambda changes: changes.in_stream,
            one_thread=True,
            pipeline=FINISH,
            change=lambda text, source: with_workgroups(text, source.workgroups),
        ),
    ),
    # The passes of the second step visit the whole module, and change little but the code of the host. A verified run
    # verifies the kernels, which are large and final, after each of these passes. VM code is verified when it is read.
    (
        Step(
            "lower executables",
            SCHEDULED,
            LOWERED,
            stops=lambda changes: changes.in_stream,
            bytecode=lambda changes: True,
        ),
        Step(
            "lower the code of the host",
            LOWERED,
            VM,
            stops=lambda changes: changes.in_stream or changes.vm,
            verified=False,
            bytecode=lambda changes: not changes.vm,
            change=lambda text, source: rewritten(text, source.threaded),
        ),
    ),
    (Step("write the module", VM, MODULE, stops=lambda changes: True),),
)
"""The runs of IREE's compiler, in parts."""

SCHEDULING = STEPS[1]
"""The part that places arrays."""

Run = Callable[[list[str], bytes, Step], Ended]
"""Runs the command of a step on a program."""

Part = Sequence[Step]


def parts_of(changes: Changes) -> list[Part]:
    """The runs for a program with these changes, in parts."""
    parts: list[Part] = []
    open_: tuple[Step, ...] = ()  # steps at whose ends the compiler does not stop
    for part in STEPS:
        steps: list[Step] = []
        for step in part:
            if step.stops(changes):
                steps.append(_one((*open_, step)) if open_ else step)
                open_ = ()
            else:
                open_ = (*open_, step)
        if steps:
            parts.append(steps)
    return parts


def _one(steps: Part) -> Step:
    """One verified run in place of these steps."""
    name = ", ".join(step.name for step in steps)
    return replace(steps[-1], name=name, begin=steps[0].begin, verified=True, one_thread=False, pipeline="")


def in_steps(
    source: Source, target: Target, compiler: Sequence[str], run: Run, is_last: Callable[[], bool]
) -> Ended:
    """Compiles a program; `run` runs a command.

    If a run after the phase that makes dispatches rejects the last source of a program, which `is_last` tells, one run
    of the whole program follows. It compiles some programs that IREE rejects in parts, and its diagnostics name places
    of the program. If functions of repeats cannot be inlined in the text, IREE inlines them first.
    """
    try:
        return _in_steps(source, target, compiler, run, is_last)
    except _NotInlined:
        plain = may_be_inlined(source.text).decode("utf-8", "surrogateescape")
        return _in_steps(replace(source, stablehlo=plain, repeats=False), target, compiler, run, is_last)


def _in_steps(
    source: Source, target: Target, compiler: Sequence[str], run: Run, is_last: Callable[[], bool]
) -> Ended:
    changes = Changes.of(source, target)
    parts = parts_of(changes)

    def through(part: Part, program: bytes) -> Ended:
        return run_part(part, program, source, changes, compiler, run)

    at_end = parts.pop() if parts[-1][0].begin == VM else []
    ended, several = Ended(0, source.text, ""), len(parts) > 1
    for part in parts:
        ended = through(part, ended.output)
        if ended.code != 0:
            break
    # The run that makes dispatches has been done again, verified, if it failed.
    is_rejected = ended.code and "error: " in ended.errors and part[-1].end != DISPATCHED
    if several and is_rejected and is_last():
        ended = through([_one([step for each in parts for step in each])], source.whole)
    return through(at_end, ended.output) if at_end and ended.code == 0 and ended.output else ended


def run_part(
    part: Part, program: bytes, source: Source, changes: Changes, compiler: Sequence[str], run: Run
) -> Ended:
    """Runs the steps of a part on a program, or one verified run if one of several fails or prints invalid ops."""
    ended = Ended(0, program, "")
    for step in part:
        ended = run(step.command(compiler, source, changes), ended.output, step)
        if ended.code is None or (ended.code != 0 and len(part) == 1):
            return ended
        if ended.code != 0 or (len(part) > 1 and not _is_valid(ended)):
            return run_part([_one(part)], program, source, changes, compiler, run)
        if not step.bytecode(changes):
            ended = replace(ended, output=step.change(ended.output, source))
    return ended


def _is_valid(ended: Ended) -> bool:
    """Whether a run of the compiler has printed valid ops: MLIR prints others in its generic form."""
    return not ended.output.startswith(_GENERIC) and b"\n" + _GENERIC not in ended.output
