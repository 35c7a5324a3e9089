"""The runs of IREE's compiler on a program: which there are, and what follows where one of them fails."""

import itertools
from collections.abc import Callable

import pytest

from tiduc.backends.iree.source import Source
from tiduc.backends.iree.steps import MODULE, STEPS, Changes, CompilerStep, in_steps, parts_of
from tiduc.backends.iree.targets import find_target
from tiduc.runtime.process import Ended

BRANCH = "func.func @main(%p: tensor<i1>) { scf.if }"
GENERIC = b'#map = affine_map<() -> ()>\n"builtin.module"() ({\n}) : () -> ()\n'
WRONG = "x.mlir:1:1: error: no"


def runs(changes: Changes) -> list[str]:
    """The runs for a program with these changes: from and to which phases; `*` after those that are not verified."""
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
    source: Source, outcome: Callable[[CompilerStep, bytes], Ended], is_last: bool = True
) -> tuple[Ended, list[str]]:
    """The end of a program, and its runs, of which `outcome` gives the ends."""
    ran: list[str] = []

    def run(command: list[str], program: bytes, step: CompilerStep) -> Ended:
        ran.append(f"{step.begin}>{step.end}{'' if step.verified else '*'}")
        if command[0] == "compiler":
            assert ("--verify=false" in command) is not step.verified
        return outcome(step, program)

    ended = in_steps(source, find_target("cpu"), ["compiler"], run, lambda: is_last)
    return ended, ran


def passed(step: CompilerStep, program: bytes) -> Ended:
    return Ended(0, b"after " + step.end.encode(), "")


def failing(*names: str) -> Callable[[CompilerStep, bytes], Ended]:
    """Ends of runs, of which those with these names fail."""
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


@pytest.mark.parametrize("is_last", [False, True])
def test_the_last_source_is_compiled_whole_where_a_later_part_fails(is_last: bool) -> None:
    def outcome(step: CompilerStep, program: bytes) -> Ended:
        return passed(step, program) if step.begin in ("", "vm") else Ended(1, b"", WRONG)

    ended, ran = compiled(GROUPS, outcome, is_last)
    assert ended.code == (0 if is_last else 1)
    assert ran[:3] == [">stream", "stream>executable-targets", "stream>vm"]
    assert ran[3:] == ([">vm", "vm>module"] if is_last else [])


def test_no_run_follows_a_timeout() -> None:
    for source in (REPEATS, GROUPS, Source(BRANCH)):
        ended, ran = compiled(source, lambda step, program: Ended(None, b"", ""))
        assert ended.code is None and len(ran) == 1


def test_programs_that_are_rejected_at_once_are_not_compiled_again() -> None:
    for source in (Source("module"), Source(BRANCH)):
        ended, ran = compiled(source, lambda step, program: Ended(1, b"", WRONG))
        assert ended.code == 1 and len(ran) == 1
