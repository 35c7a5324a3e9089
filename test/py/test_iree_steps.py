"""Tests the sequence of runs of IREE's compiler for one program: their phases, and reruns if a run fails."""

import itertools
from collections.abc import Callable

import pytest
from cases.witnesses import find_witness

from tiduc.backends.iree.compile import compile_first
from tiduc.backends.iree.plan import Rerun
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.steps import (
    _SCHEDULING_FAULTS,
    LOWERED,
    MODULE,
    SCHEDULED,
    STEPS,
    Changes,
    CompilerStep,
    in_steps,
    parts_of,
)
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.errors import CompileError
from tiduc.runtime.process import Ended
from tiduc.runtime.run import Executable

BRANCH = "func.func @main(%p: tensor<i1>) { scf.if }"
GENERIC = b'#map = affine_map<() -> ()>\n"builtin.module"() ({\n}) : () -> ()\n'
WRONG = "x.mlir:1:1: error: no"


def runs(changes: Changes) -> list[str]:
    """For each run of the compiler: its first and last phase, and `*` if it does not verify the IR."""
    return [
        f"{step.begin}>{step.end}{'' if step.verified else '*'}"
        for part in parts_of(changes)
        for step in part
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("", ">module"),
        ("vm", ">module"),
        ("repeats", ">global-optimization* global-optimization>flow* flow>module"),
        ("repeats vm", ">global-optimization* global-optimization>flow* flow>module"),
        ("workgroups", ">stream stream>executable-targets executable-targets>vm* vm>module"),
        ("objects vm", ">stream stream>executable-targets executable-targets>module"),
        (
            "workgroups objects",
            ">stream stream>executable-targets executable-targets>vm vm>module",
        ),
        (
            "places vm",
            ">global-optimization* global-optimization>flow* flow>stream "
            "stream>executable-targets executable-targets>module*",
        ),
    ],
)
def test_the_runs_of_a_program(changes: str, expected: str) -> None:
    given = Changes(*(name in changes.split() for name in Changes._fields))
    assert " ".join(runs(given)) == expected


def test_each_run_begins_where_the_one_before_ends() -> None:
    for given in itertools.product((False, True), repeat=len(Changes._fields)):
        steps = [step for part in parts_of(Changes(*given)) for step in part]
        begins, ends = [step.begin for step in steps], [step.end for step in steps]
        assert begins == ["", *ends[:-1]] and ends[-1] == MODULE


def test_steps_have_names() -> None:
    names = [step.name for part in STEPS for step in part]
    assert len(set(names)) == len(names) == 6


def compiled(
    source: Source, outcome: Callable[[CompilerStep, bytes], Ended], reruns: list[Rerun] | None = None
) -> tuple[Ended, list[str]]:
    """Compiles a source by a simulated compiler. `outcome` decides how each run ends.

    Returns how the compilation ends, and the names of its runs.
    """
    ran: list[str] = []
    noted = [] if reruns is None else reruns

    def run(command: list[str], program: bytes, step: CompilerStep) -> Ended:
        ran.append(f"{step.begin}>{step.end}{'' if step.verified else '*'}")
        if command[0] == "compiler":
            assert ("--verify=false" in command) is not step.verified
        return outcome(step, program)

    ended = in_steps(source, find_target("cpu"), ["compiler"], run, lambda rerun, _: noted.append(rerun))
    return ended, ran


def passed(step: CompilerStep, program: bytes) -> Ended:
    return Ended(0, b"after " + step.end.encode(), "")


def failing(*names: str) -> Callable[[CompilerStep, bytes], Ended]:
    """An `outcome` for `compiled` by which the runs with these names fail and other runs succeed."""
    return lambda step, program: Ended(1, b"", WRONG) if step.name in names else passed(step, program)


REPEATS, GROUPS = (
    Source("module", repeats=True),
    Source("func.func private @f(index)", workgroups={"f": "func.func @f"}),
)


def test_one_verified_run_takes_the_place_of_a_part_that_fails() -> None:
    ended, ran = compiled(REPEATS, failing("make dispatches"))
    assert ended.output == b"after module"
    assert ran == [">global-optimization*", "global-optimization>flow*", ">flow", "flow>module"]
    ended, ran = compiled(GROUPS, failing("lower the code of the host"))
    assert ended.code == 0
    assert ran[1:] == ["stream>executable-targets", "executable-targets>vm*", "stream>vm", "vm>module"]


def test_one_verified_run_takes_the_place_of_a_part_that_prints_invalid_ops() -> None:
    def outcome(step: CompilerStep, program: bytes) -> Ended:
        return Ended(0, GENERIC, "") if step.name == "make dispatches" else passed(step, program)

    ended, ran = compiled(REPEATS, outcome)
    assert ended.code == 0 and ran[2:] == [">flow", "flow>module"]


def test_a_rerun_has_a_reason() -> None:
    reruns: list[Rerun] = []
    compiled(REPEATS, failing("make dispatches"), reruns)
    placed = Source("module", places=True)
    ended, ran = compiled(placed, lambda step, program: Ended(int(bool(step.pipelines)), b"x", WRONG), reruns)
    assert reruns == [Rerun.VERIFIED, Rerun.UNPLACED]
    assert ended.code == 0 and ran[2:4] == ["flow>stream", "flow>stream"]


@pytest.mark.parametrize("fault", _SCHEDULING_FAULTS)
@pytest.mark.parametrize("source", [Source("module"), Source("module", places=True)])
def test_faults_of_the_schedule_lead_to_other_passes(source: Source, fault: str) -> None:
    """After such an error, all steps run again, with edits before and after the schedule of dispatches."""
    failed: list[str] = []

    def outcome(step: CompilerStep, program: bytes) -> Ended:
        if failed or step.end not in (SCHEDULED, MODULE):
            return passed(step, program)
        failed.append(step.name)
        return Ended(1, b"", f"error: {fault}")

    reruns: list[Rerun] = []
    ended, ran = compiled(source, outcome, reruns)
    assert reruns == [Rerun.RESCHEDULED] and ended.code == 0
    again = [">global-optimization*", "global-optimization>flow*", "flow>stream", "stream>executable-targets"]
    assert " ".join(again) in " ".join(ran)


def test_a_second_fault_of_the_schedule_ends_the_attempt() -> None:
    reruns: list[Rerun] = []
    ended, _ = compiled(Source("module"), lambda step, program: Ended(1, b"", _SCHEDULING_FAULTS[0]), reruns)
    assert ended.code == 1 and reruns == [Rerun.RESCHEDULED]


def test_no_run_follows_a_timeout() -> None:
    for source in (REPEATS, GROUPS, Source(BRANCH)):
        ended, ran = compiled(source, lambda step, program: Ended(None, b"", ""))
        assert ended.code is None and len(ran) == 1


def test_programs_that_are_rejected_at_once_are_not_compiled_again() -> None:
    for source in (Source("module"), Source(BRANCH)):
        ended, ran = compiled(source, lambda step, program: Ended(1, b"", WRONG))
        assert ended.code == 1 and len(ran) == 1


@pytest.mark.parametrize(
    "witness, place", [("cbrt_f64", ":2:6"), ("float8_abs", ":2:6"), ("pools_of_equal_sizes", ":4:8")]
)
def test_late_runs_of_the_compiler_name_places_of_the_program(witness: str, place: str) -> None:
    """If a late run of the compiler finds an error, the error has the line of the user's program.

    The late run reads text that an earlier run has printed, and that has other line numbers.
    """
    source = Source(find_witness(witness).text, name="x.mlir", places=True)
    with pytest.raises(CompileError, match=f"^x.mlir{place}: error: "):
        compile_first([source, source.in_one_run()], cached=False)


def test_a_program_that_is_rejected_in_parts_compiles_whole() -> None:
    witness = find_witness("threads/counter_beside_sizes")
    source = Source(witness.text, witness.target, threaded=True, places=True)
    module = compile_first([source, source.in_one_run()], cached=False)
    assert witness.holds(Executable(module, witness.target))


@pytest.mark.parametrize("beside_module", [False, True])
def test_a_module_and_an_object_file_share_all_runs_up_to_the_kernels(beside_module: bool) -> None:
    seen: list[str] = []

    def reached(phase: str, text: bytes) -> Ended:
        assert text == b"after " + phase.encode()
        seen.append(phase)
        return Ended(0, b"" if phase == LOWERED and not beside_module else text, "")

    ran: list[str] = []

    def run(command: list[str], program: bytes, step: CompilerStep) -> Ended:
        ran.append(f"{step.begin}>{step.end}")
        assert "--emit-mlir-bytecode" not in command
        return passed(step, program)

    in_steps(GROUPS, find_target("cpu"), ["compiler"], run, lambda *_: None, reached)
    shared = [">stream", "stream>executable-targets"]
    assert ran == (shared + ["executable-targets>vm", "vm>module"] if beside_module else shared)
    assert seen[:2] == [SCHEDULED, LOWERED] and bool(seen[2:]) is beside_module
