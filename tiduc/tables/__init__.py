"""Reads and writes tables of test results for each op. Tests compare the tables with new results.

checked        the derivatives of each op that test/py/rules checks. `python -m pytest test/py/rules --write-tables`
               writes this table.
refusals       the derivatives that raise an error in these tests, with the reason. The same command writes this table.
accepted       for each op, its JVP and its VJP: whether the target `cpu` computes right values.
               `python test/sweep/accepted.py --write` writes this table.
native_passes  the names of the passes of MLIR and StableHLO in the wheel. MLIR's Python bindings cannot list them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

FOLDER = Path(__file__).parent


class Checked(NamedTuple):
    """An op whose derivatives tests have checked, up to the order `order`.

    `jvp` and `transpose` list the element types for which tests have checked the JVP and the transpose rule.
    """

    op: str
    jvp: tuple[str, ...]
    transpose: tuple[str, ...]
    order: int


class Refusal(NamedTuple):
    """A case of an op without a derivative: `what` names the missing rule, and `reason` states why it is missing."""

    op: str
    what: str
    reason: str


class Accepted(NamedTuple):
    """The outcomes of an op, its JVP and its VJP on a target.

    An outcome is "right", "wrong", or the reason why the target refuses the program.
    """

    op: str
    primal: str
    jvp: str
    vjp: str


Row = TypeVar("Row", Checked, Refusal, Accepted)


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A file with one row per line and cells separated by tabs."""

    name: str
    make: Callable[[list[str]], Row]

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.tsv"

    def read(self) -> list[Row]:
        """Returns all rows, in the order of the file."""
        return [self.make(line.split("\t")) for line in self.path.read_text().splitlines()]

    def write(self, rows: Iterable[Row]) -> None:
        """Replaces all rows of the file by `rows`."""
        self.path.write_text("".join("\t".join(map(_cell, row)) + "\n" for row in rows))


def _cell(value: object) -> str:
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    return text.replace("\n", " ").replace("\t", " ")


CHECKED = Table("checked", lambda c: Checked(c[0], tuple(c[1].split()), tuple(c[2].split()), int(c[3])))
REFUSALS = Table("refusals", lambda c: Refusal(*c))
ACCEPTED = Table("accepted", lambda c: Accepted(*c))


@cache
def native_passes() -> list[str]:
    """Returns the names of MLIR's and StableHLO's passes that a textual pipeline may contain."""
    return (FOLDER / "native_passes.tsv").read_text().split()


@cache
def by_op(table: Table[Row]) -> dict[str, list[Row]]:
    """Maps each op to its rows of a table."""
    rows: dict[str, list[Row]] = {}
    for row in table.read():
        rows.setdefault(row.op, []).append(row)
    return rows
