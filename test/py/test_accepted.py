"""Checks a sample of the table of ops that IREE compiles; test/sweep/accepted.py checks the whole table."""

import pytest
from accepted import programs, sweep

from tiduc.tables import ACCEPTED

EVERY = 96


def test_rows() -> None:
    """The table has one row for each op that has a test program, in the order of the programs."""
    assert [row.op for row in ACCEPTED.read()] == list(programs())


@pytest.mark.more
def test_a_sample() -> None:
    rows = ACCEPTED.read()[::EVERY]
    assert list(sweep([row.op for row in rows])) == rows


def test_nothing_is_wrong() -> None:
    for row in ACCEPTED.read():
        assert not any(verdict.startswith("wrong") for verdict in row[1:]), row
