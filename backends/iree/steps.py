"""Runs IREE's compiler on one program, from StableHLO to a module, in steps between which tiduc edits IREE's IR.

`STEPS` lists the steps. If tiduc places a program's arrays in memory, each step is a run of the compiler. Otherwise, a
step that no edit follows shares a run with the next step. `Changes.edits` lists the edits after each phase. A run with
edits is a process of `modules/process.py`; other runs use `iree-compile`.

A verified run verifies all ops after each pass. An unverified run verifies ops only when it reads its input and when it
prints text. The steps are divided into groups called parts. If a step of a part fails or prints invalid ops, one
verified run replaces the part (`Rerun` in `plan.py`).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tiduc.backends.iree.modules.job import MODULE, REFUSED, REMARK, Job, Span, command, said
from tiduc.backends.iree.plan import Rerun
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import Target
from tiduc.dialect.errors import CompileError, TiducRemark
from tiduc.dialect.mlir.artifacts import BYTECODE
from tiduc.runtime.process import Ended

OPTIMIZED, DISPATCHED, SCHEDULED, LOWERED = "global-optimization", "flow", "stream", "executable-targets"
"""Phases of IREE's compiler:

- `OPTIMIZED` ends before IREE forms dispatches, and `DISPATCHED` ends when dispatches are formed.
- After `SCHEDULED`, it is decided in which order dispatches run and where arrays lie in memory.
- After `LOWERED`, all executables are in the dialects of their targets, such as LLVM's.
"""

ALLOCATING = "stream, first half"
"""The point inside `SCHEDULED` at which IREE has decided which arrays share an allocation."""

VM = "vm"
"""The phase that ends with code for IREE's virtual machine."""

_ORDER = OPTIMIZED, DISPATCHED, ALLOCATING, SCHEDULED, LOWERED, VM, MODULE

_SCHEDULE = (
    (
        "iree-stream-tensor-transformation-pipeline,iree-stream-async-transformation-pipeline,"
        "iree-stream-schedule-allocation",
        ALLOCATING,
    ),
    ("iree-stream-cmd-transformation-pipeline,iree-stream-optimization-pipeline", SCHEDULED),
)
"""The phase `SCHEDULED` as two pass pipelines, each with the name of the point at which it ends."""

COMMANDED = "stream, commands"
"""The point inside `SCHEDULED` at which dispatches have become commands."""

_OF_FUNCTIONS = "util.func({0}),util.initializer({0})"
_CLEANUP = (
    _OF_FUNCTIONS.format(
        "canonicalize,cse,iree-util-optimize-int-arithmetic,iree-util-simplify-global-accesses,"
        "iree-util-apply-patterns"
    )
    + ",iree-util-fold-globals,iree-util-fuse-globals,iree-util-ipo"
)
_RESCHEDULE = (
    _SCHEDULE[0],
    ("iree-stream-cmd-transformation-pipeline", COMMANDED),
    (
        f"{_CLEANUP},iree-util-fixed-point-iterator{{max-iterations=10 pipeline=builtin.module("
        f"{_CLEANUP},iree-stream-elide-timepoints)}},{_OF_FUNCTIONS.format('convert-scf-to-cf')},{_CLEANUP},"
        "iree-stream-fuse-dispatch-bindings,iree-stream-annotate-dispatch-arguments,"
        "iree-stream-annotate-dispatch-assumptions,iree-stream-pack-dispatch-operands,"
        f"{_CLEANUP},iree-stream-fold-uniform-operands,{_CLEANUP}",
        SCHEDULED,
    ),
)
"""Pipelines in place of `_SCHEDULE` that elide timepoints only before loops become branches (`scheduling.py`)."""

_SCHEDULING_FAULTS = (
    "streamable op expected to be in an execution region",
    "failed to solve for timepoint coverage",
)
"""Errors of IREE's compiler that `_RESCHEDULE` and the edits of `modules/scheduling.py` avoid."""

_GENERIC = b'"builtin.module"'
"""The beginning of a module in MLIR's generic form. Aliases of attributes may precede the module."""


class Changes(NamedTuple):
    """Which edits a program needs while IREE's compiler lowers it.

    - `repeats`: functions of repeated ops are inlined.
    - `places`: tiduc places arrays in memory.
    - `workgroups`: the functions that compute workgroups of dispatches are inserted.
    - `vm`: host code is edited when it is VM code.
    - `poisons`: memory is filled with NaN before and after its use.
    - `objects`: an object file is requested, for which the program is read after `SCHEDULED` and after `LOWERED`.
    - `reschedules`: the program avoids faults of IREE's passes that schedule dispatches.
    """

    repeats: bool
    places: bool
    workgroups: bool
    vm: bool
    poisons: bool = False
    objects: bool = False
    reschedules: bool = False

    @staticmethod
    def of(source: Source, target: Target, objects: bool = False) -> "Changes":
        """Returns the edits that a program needs. `objects` says that an object file is requested."""
        # A program with large constants is bytecode. It is not edited for the sole reason that several threads run it.
        threads = source.threaded and not source.text.startswith(BYTECODE)
        vm = target.spirv or source.may_branch or threads or source.poisons
        return Changes(source.repeats, source.places, bool(source.workgroups), vm, source.poisons, objects)

    @property
    def in_flow(self) -> bool:
        return self.repeats or self.places or self.reschedules

    @property
    def in_stream(self) -> bool:
        return self.workgroups or self.places

    @property
    def read_in_stream(self) -> bool:
        return self.in_stream or self.objects or self.reschedules

    def edits(self, target: Target, threaded: bool) -> dict[str, tuple[str, ...]]:
        """Returns the names of the edits after each phase that has edits (`modules/edits.py`)."""
        edits: dict[str, tuple[str, ...]] = {}
        if self.repeats or self.reschedules:
            edits[DISPATCHED] = (*("inline_repeats",) * self.repeats, *("keep_splats",) * self.reschedules)
        if self.reschedules:
            edits[COMMANDED] = ("drop_reached_timepoints",)
        if self.places:
            edits[ALLOCATING] = ("host_arrays", "place_arrays")
        if self.workgroups:
            edits[SCHEDULED] = ("put_in_workgroups",)
        if self.vm:
            edits[VM] = (
                *("copies_bound_arrays",) * target.spirv,
                *("replace_early_releases", "copy_passed_references", "widen_block_arguments"),
                *("poison_arrays",) * self.poisons,
                *("keep_large_arrays",) * threaded,
            )
        return edits


@dataclass(frozen=True)
class CompilerStep:
    """A run of IREE's compiler from the phase `begin`, or from StableHLO if `begin` is empty, to the phase `end`.

    - `stops`: a function of a program's edits. It says whether the run ends at `end` or also includes the next step.
    - `bytecode`: the step writes bytecode if this is true, and text otherwise.
    - `one_thread`: the compiler starts no threads, because the passes run on one large function.
    - `pipelines`: pairs of a pass pipeline and the point where it ends. They replace the phases if arrays are placed.
    """

    name: str
    begin: str
    end: str
    stops: Callable[[Changes], bool]
    verified: bool = True
    bytecode: bool = True
    one_thread: bool = False
    pipelines: tuple[tuple[str, str], ...] = ()

    def spans(self, changes: Changes, edits: Mapping[str, Sequence[str]]) -> list[Span]:
        """Splits the run after each phase that has edits, and at the ends of `pipelines` if they replace the phases."""
        if self.pipelines and (changes.places or changes.reschedules):
            pipelines = _RESCHEDULE if changes.reschedules else self.pipelines
            return [Span(end, edits.get(end, ()), self.verified, text) for text, end in pipelines]
        first = _ORDER.index(self.begin) + 1 if self.begin else 0
        passed = [phase for phase in _ORDER[first : _ORDER.index(self.end)] if phase != ALLOCATING]
        ends = [*(phase for phase in passed if phase in edits), self.end]
        return [Span(end, edits.get(end, ()), self.verified) for end in ends]


STEPS = (
    # These steps are unverified: verification of all ops after each pass takes two fifths of their time. But IREE
    # makes invalid ops from some StableHLO. The first step detects them when it ends, before the second step could turn
    # them into wrong values.
    (
        CompilerStep(
            "optimize",
            "",
            OPTIMIZED,
            stops=lambda changes: changes.in_flow,
            verified=False,
            one_thread=True,
        ),
        CompilerStep(
            "make dispatches",
            OPTIMIZED,
            DISPATCHED,
            stops=lambda changes: changes.in_flow,
            verified=False,
            bytecode=False,
            one_thread=True,
        ),
    ),
    # Functions that compute workgroups are inserted after this step, because each pass of the step would verify them.
    (
        CompilerStep(
            "schedule dispatches",
            DISPATCHED,
            SCHEDULED,
            stops=lambda changes: changes.read_in_stream,
            one_thread=True,
            pipelines=_SCHEDULE,
        ),
    ),
    # The second step is unverified. Its passes mainly change host code, but a verified run would also verify the
    # kernels, which are large and no longer change, after each pass. VM code is verified when the next run reads it.
    (
        CompilerStep("lower executables", SCHEDULED, LOWERED, stops=lambda changes: changes.read_in_stream),
        CompilerStep(
            "lower the code of the host",
            LOWERED,
            VM,
            stops=lambda changes: changes.in_stream,
            verified=False,
        ),
    ),
    (CompilerStep("write the module", VM, MODULE, stops=lambda changes: True),),
)
"""The steps of the compilation, divided into parts. If a step of a part fails, the whole part is repeated."""

Run = Callable[[list[str], bytes, CompilerStep], Ended]
"""A function that runs the command of a step on a program."""

Note = Callable[[Rerun, str], None]
"""A function that is called before steps run again, with the reason and the names of the steps."""

Reached = Callable[[str, bytes], Ended]
"""A function that is called after each part, with the phase at the part's end and the program after this phase.

The next part gets the output of the result. There is no next part if the result's code is not 0 or the output is empty.
"""

Part = Sequence[CompilerStep]


def parts_of(changes: Changes) -> list[Part]:
    """Returns the steps to run for a program with these edits, divided into parts. Merges steps that share a run."""
    parts: list[Part] = []
    open_: tuple[CompilerStep, ...] = ()  # steps that share a run with the next step
    for part in STEPS:
        steps: list[CompilerStep] = []
        for step in part:
            if step.stops(changes):
                steps.append(_one((*open_, step)) if open_ else step)
                open_ = ()
            else:
                open_ = (*open_, step)
        if steps:
            parts.append(steps)
    if changes.vm and changes.in_stream:  # the process that edits VM code also writes the module
        *parts, (*before, last), _ = parts
        parts.append([*before, replace(last, end=MODULE)])
    return [each for part in parts for each in _halves(part)] if changes.objects else parts


def _halves(part: Part) -> list[Part]:
    """Splits a part with a step after `LOWERED` at this phase, where the program is read for an object file.

    The steps of the second half become verified. Other parts are returned as they are.
    """
    first, *rest = part
    if first.end != LOWERED or not rest:
        return [part]
    return [[first], [replace(step, verified=True) for step in rest]]


def _one(steps: Part) -> CompilerStep:
    """Merges steps into one verified step, from the beginning of the first step to the end of the last step."""
    name = ", ".join(step.name for step in steps)
    return replace(steps[-1], name=name, begin=steps[0].begin, verified=True, one_thread=False, pipelines=())


class SteppedProgram(NamedTuple):
    """A program to compile: its source, target and edits, and IREE's compiler with the program's flags."""

    source: Source
    target: Target
    changes: Changes
    compiler: Sequence[str]

    def started(self, step: CompilerStep, program: bytes) -> tuple[list[str], bytes]:
        """Returns the command of a step, and the standard input for the command.

        A step with edits runs in a process of `modules/process.py`, and other steps run `iree-compile`.
        """
        spans = step.spans(self.changes, self.changes.edits(self.target, self.source.threaded))
        if any(span.edits or span.pipeline for span in spans):
            inserts = any("put_in_workgroups" in span.edits for span in spans)
            workgroups = self.source.workgroups if inserts else {}
            job = Job(step.begin, spans, threads=not step.one_thread, workgroups=workgroups)
            return command(self.compiler[1:]), job.header() + program
        flags = ["--mlir-disable-threading"] if step.one_thread else []
        flags += [] if step.verified else ["--verify=false"]
        flags += [f"--compile-from={step.begin}"] if step.begin else []
        flags += [] if step.end == MODULE else [f"--compile-to={step.end}"]
        # For an object file, the steps write text, because IREE loses large constants if it reads bytecode it wrote.
        if self.changes.objects and step.end != MODULE:
            flags += ["--mlir-print-debuginfo"] if step.end in (DISPATCHED, SCHEDULED) else []
        elif step.bytecode and step.end != MODULE:
            flags.append("--emit-mlir-bytecode")
        return [*self.compiler, "-", "-o", "-", *flags], program


def in_steps(
    source: Source,
    target: Target,
    compiler: Sequence[str],
    run: Run,
    note: Note,
    reached: Reached | None = None,
) -> Ended:
    """Compiles a program in steps. Returns the result of the last step, or of the step that failed.

    `compiler` is IREE's compiler with the flags of the program. `reached` is given if an object file is requested.
    """
    changes = Changes.of(source, target, reached is not None)
    ended = _in_parts(SteppedProgram(source, target, changes, compiler), run, note, reached)
    if _is_badly_scheduled(ended):
        note(Rerun.RESCHEDULED, "all steps")
        changes = changes._replace(reschedules=True)
        ended = _in_parts(SteppedProgram(source, target, changes, compiler), run, note, reached)
    return ended


def _in_parts(program: SteppedProgram, run: Run, note: Note, reached: Reached | None) -> Ended:
    """Runs all parts of a compilation. Returns the result of the last step, or of the step that failed."""
    ended = Ended(0, program.source.text, "")
    for part in parts_of(program.changes):
        ended = _run_part(part, ended.output, program, run, note)
        if reached is not None and ended.code == 0:
            ended = reached(part[-1].end, ended.output)
        if ended.code != 0 or not ended.output:
            break
    return ended


def _run_part(part: Part, text: bytes, program: SteppedProgram, run: Run, note: Note) -> Ended:
    """Runs the steps of a part on a text. If a step fails, one verified run of IREE's compiler replaces the part.

    A part of a single step is run again only if tiduc placed arrays in it. A step that exceeds the time limit (`code`
    is None) ends the part.
    """
    ended = Ended(0, text, "")
    for step in part:
        ended = _heard(run(*program.started(step, ended.output), step))
        is_placing = bool(step.pipelines) and program.changes.places and not program.changes.reschedules
        if ended.code is None or _is_badly_scheduled(ended):
            return ended
        if ended.code != 0 and len(part) == 1 and not is_placing:
            return ended
        if ended.code != 0 or (len(part) > 1 and not _is_valid(ended)):
            whole = _one(part)
            note(Rerun.UNPLACED if is_placing else Rerun.VERIFIED, whole.name)
            return _run_part([whole], text, program, run, note)
    return ended


def _heard(ended: Ended) -> Ended:
    """Removes tiduc's own lines from the messages of a process.

    A remark becomes a warning. Raises `CompileError` if the process refused the program.
    """
    errors, told = said(ended.errors)
    for kind, text in told:
        if kind == REMARK:
            warnings.warn(text, TiducRemark, stacklevel=2)
        elif kind == REFUSED:
            raise CompileError(text)
    return replace(ended, errors=errors) if told else ended


def _is_badly_scheduled(ended: Ended) -> bool:
    """Whether IREE's compiler rejects a program because of a fault that `Changes.reschedules` avoids."""
    return bool(ended.code) and any(each in ended.errors for each in _SCHEDULING_FAULTS)


def _is_valid(ended: Ended) -> bool:
    """Whether a run of the compiler has printed only valid ops. MLIR prints invalid ops in its generic form."""
    return not ended.output.startswith(_GENERIC) and b"\n" + _GENERIC not in ended.output
