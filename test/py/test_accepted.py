"""The table of what IREE accepts is what it accepts: a sample of it; test/sweep/accepted.py looks at all."""

from accepted import programs, sweep

from tiduc.tables import ACCEPTED

EVERY = 24


def test_rows() -> None:
    """A row each op that has a program."""
    assert [row.op for row in ACCEPTED.read()] == list(programs())


def test_a_sample() -> None:
    rows = ACCEPTED.read()[::EVERY]
    assert list(sweep([row.op for row in rows])) == rows


def test_nothing_is_wrong() -> None:
    for row in ACCEPTED.read():
        assert not any(verdict.startswith("wrong") for verdict in row[1:]), row
