"""Ops of open sizes, and ops whose shapes are operands: their derivatives are those of the static ops."""

import pytest
from open_programs import CASES
from open_shapes import check_open


@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_the_static_program(case: str) -> None:
    text, points = CASES[case]
    check_open(text, *points)
