"""Tests the records of IREE's bugs. The witness of each bug fails on IREE without tiduc's rewrites, and not with them.

If `test_iree_fails_alone` fails, IREE has changed, and the workaround can be removed.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
from cases.iree_case import function
from cases.iree_cases import CASES
from cases.iree_host_programs import HOST_PROGRAMS
from cases.iree_programs import PROGRAMS
from cases.witnesses import compiled_alone, fails_alone, find_witness
from faults import unneeded, witnessed
from harness.one_module import Joined, joined, selected
from harness.sources import source_of
from harness.vulkan import skip_without_device

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.emit.emitter import PATTERNS
from tiduc.backends.iree.fault import SEEN, Fault, Record
from tiduc.backends.iree.pipeline import passes_of
from tiduc.backends.iree.records import records
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.targets import find_target
from tiduc.cli import run
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.run import Executable

RECORDS = records()
LEGAL = passes_of("legal", Settings())
FAULTS = {record.fault.witness: record.fault for record in witnessed()}
WRONG = [name for name, fault in FAULTS.items() if fault.kind == "wrong"]
TOGETHER = [name for name in WRONG if name.count("/") < 2 and not name.startswith("dynamic")]
"""Witnesses that IREE compiles. Those of one target are compiled as one module, because that is faster."""
REJECTED_TOGETHER = "parts_of_products"
"""A witness that IREE compiles only in a separate module."""
ALONE = [name for name in FAULTS if name not in TOGETHER]
"""Witnesses that IREE rejects, or that need a separate module."""
SAMPLE = {*ALONE[::48], *TOGETHER[::12]}
"""Witnesses that the fast tests compile without tiduc's rewrites. Outcomes change only with the version of IREE."""

REWRITTEN = [*PROGRAMS, *HOST_PROGRAMS]


def of_function(name: str) -> str:
    """The name of the function that contains a witness in a module with many witnesses."""
    return name.replace("/", "_")


@pytest.fixture(scope="module")
def alone(request: pytest.FixtureRequest) -> Callable[[str], bytes | None]:
    """Fixture: a function that compiles the selected witnesses of a target without tiduc's rewrites.

    The function returns the module, or None if IREE rejects it.
    """
    names = selected(request, "test_iree_fails_alone") - {REJECTED_TOGETHER}
    return cache(
        lambda target: compiled_alone(_together([n for n in TOGETHER if n in names], target), target)
    )


def _together(names: Iterable[str], target: str) -> str:
    """The text of a module that contains the named witnesses for a target as functions."""
    witnesses = {name: find_witness(name) for name in names}
    return "\n".join(
        witness.text.replace("@main", f"@{of_function(name)}")
        for name, witness in witnesses.items()
        if witness.target == target
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.slow) for n in FAULTS],
)
def test_iree_fails_alone(name: str, alone: Callable[[str], bytes | None]) -> None:
    witness = find_witness(name)
    if FAULTS[name].kind == "wrong":
        skip_without_device(witness.target)
    vmfb = alone(witness.target) if name in TOGETHER and name != REJECTED_TOGETHER else None
    if vmfb is None:
        assert fails_alone(witness), "IREE computes the witness correctly: remove the workaround"
        return
    run = Executable(vmfb, witness.target, entry=of_function(name))
    assert not witness.holds(run), "IREE computes the witness correctly: remove the workaround"


@stage
def legalized(text: str, target: str = "cpu", fast: bool = True) -> str:
    module = parse(text)
    legalize_for_iree(module, cpu=target.startswith("cpu"), spirv=find_target(target).spirv, fast=fast)
    return str(module)


@pytest.fixture(scope="module")
def rewritten(request: pytest.FixtureRequest) -> Callable[[str], bytes]:
    """Fixture: a function that compiles the selected witnesses of a target with tiduc's rewrites.

    They form one module, because that compiles faster than many modules.
    """
    names = selected(request, "test_rewritten")

    def module(target: str) -> bytes:
        together = _together([name for name in REWRITTEN if name in names], target)
        return compile_module(legalized(together, target), target)

    return cache(module)


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten(name: str, rewritten: Callable[[str], bytes]) -> None:
    witness = find_witness(name)
    vmfb = rewritten(witness.target)
    skip_without_device(witness.target)
    run = Executable(vmfb, witness.target, entry=of_function(name))
    assert witness.holds(run)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.name}-{record.fault.witness}")
def test_records_are_complete(record: Record) -> None:
    """Each record of a bug has a summary, and either a witness or the reason why no test runs one.

    A record of slow code instead names a row of a benchmark.
    """
    fault = record.fault
    assert fault.text[0].isupper() and fault.text.endswith(".")
    if fault.witness:
        find_witness(fault.witness)
    assert bool(fault.witness or fault.untested) == (fault.kind != "slow") == (not fault.row)
    assert fault.seen == SEEN


def test_sweep() -> None:
    """Of a needed and an unneeded record, test/sweep/faults.py reports only the unneeded one."""
    right = Record("everywhere", "stablehlo.pad", Fault("wrong", "None.", witness="dynamic/pad"))
    assert list(unneeded([*witnessed(["add_predicates"]), right])) == [right]


AFFECTED = [
    name
    for name, case in CASES.items()
    if any(entry.is_fast for op in case.ops.split() for entry in PATTERNS[f"stablehlo.{op}"])
]
"""The cases with ops that rewrites for speed change."""


@pytest.fixture(scope="module")
def slow() -> Joined:
    """Fixture: the cases of `AFFECTED`, joined to one function and compiled without the rewrites for speed."""
    text, counts = joined(function(name, CASES[name]) for name in AFFECTED)
    run = Executable(compile_module(legalized(text, fast=False)))
    return Joined(run, {name: CASES[name].arguments for name in AFFECTED}, counts)


@pytest.mark.parametrize("name", AFFECTED)
def test_values_without_rewrites_for_speed(slow: Joined, name: str) -> None:
    witness = find_witness(name)
    assert witness.agrees(slow[name](*witness.arguments))


EXPONENTIAL = """func.func @main(%x: tensor<100xf64>) -> tensor<100xf64> {
  %0 = stablehlo.exponential %x : tensor<100xf64>
  return %0 : tensor<100xf64>
}"""


def test_fast_is_a_switch() -> None:
    """With `fast=False`, an exponential is not rewritten, because IREE computes it slowly but correctly."""
    assert "stablehlo.exponential" in legalized(EXPONENTIAL, fast=False)
    assert "stablehlo.exponential" not in legalized(EXPONENTIAL)
    program = tiduc.load(EXPONENTIAL)
    assert "stablehlo.exponential" in str(source_of(program, fast=False).stablehlo)
    assert "stablehlo.exponential" not in str(source_of(program).stablehlo)


def test_each_pass_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--mlir-print-ir-after-all` prints the module after each pass of the pipeline."""
    (tmp_path / "f.mlir").write_text(EXPONENTIAL)
    command = [
        "opt",
        str(tmp_path / "f.mlir"),
        "--pass-pipeline=tidu-legalize-for-iree",
        "--mlir-print-ir-after-all",
    ]
    assert run(command) == 0
    printed = capfd.readouterr().err
    assert [
        f"IR Dump After tidu-legalize-for-iree: {entry.function.__name__}" in printed for entry in LEGAL
    ] == [True] * len(LEGAL)


def test_no_fast_on_the_command_line(tmp_path: Path) -> None:
    """`tiduc compile` and `tiduc run` accept `--no-fast` for a program, but `run` refuses it for a compiled module."""
    (tmp_path / "f.mlir").write_text(EXPONENTIAL)
    file, module = str(tmp_path / "f.mlir"), str(tmp_path / "f.vmfb")
    assert run(["compile", "--no-fast", file, "-o", module]) == 0
    assert run(["run", "--no-fast", file, "--input", "zeros"]) == 0
    assert run(["run", "--no-fast", module, "--input", "zeros"]) == 1
