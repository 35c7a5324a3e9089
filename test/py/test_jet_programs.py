"""Compares jets of order 4 with nested JVPs for a sample of the programs that test/sweep/jet_programs.py tests."""

import pytest
from cases.control_flow_programs import PROGRAMS, UNBOUNDED
from harness.exports import exported
from harness.nested_jvps import check_against_nested_jvps
from jet_programs import category, random_cases

from tiduc.loading import load

SAMPLE = ("cond", "fori", "nested_loops", "cond_in_scan")


@pytest.mark.parametrize("name", [*SAMPLE, *list(UNBOUNDED)[:2]])
def test_programs(name: str) -> None:
    function, arguments = (PROGRAMS | UNBOUNDED)[name]
    check_against_nested_jvps(load(exported(function, *arguments)), arguments, 4)


@pytest.mark.parametrize("seed", range(2))
def test_random_loops(seed: int) -> None:
    ((_, text, arguments),) = random_cases(seed, 1)
    assert category(text, arguments, 3) == ("ok", "")
