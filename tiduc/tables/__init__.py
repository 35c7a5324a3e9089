"""Tables of test results for each op. Tests write the tables, and compare them with new results.

checked      what test/py/rules has checked of an op's rules    python -m pytest test/py/rules --write-tables
refusals     the refusals that these tests met                  (the same command)
native_passes  the passes of MLIR and StableHLO that the wheel registers; MLIR's Python bindings cannot list them
accepted     what the target `cpu` accepts                      python test/sweep/accepted.py --write
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

FOLDER = Path(__file__).parent


class Checked(NamedTuple):
    """An op whose derivatives were checked up to an order: the element types for its JVP and for its transpose rule."""

    op: str
    jvp: tuple[str, ...]
    transpose: tuple[str, ...]
    order: int


class Refusal(NamedTuple):
    """A case of an op that has no rule: which rule is missing, and why."""

    op: str
    what: str
    reason: str


class Accepted(NamedTuple):
    """The results for an op, its JVP and its VJP on a target: right, wrong, or the reason why the target refuses it."""

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
        """All rows."""
        return [self.make(line.split("\t")) for line in self.path.read_text().splitlines()]

    def write(self, rows: Iterable[Row]) -> None:
        """Replaces the rows."""
        self.path.write_text("".join("\t".join(map(_cell, row)) + "\n" for row in rows))


def _cell(value: object) -> str:
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    return text.replace("\n", " ").replace("\t", " ")


CHECKED = Table("checked", lambda c: Checked(c[0], tuple(c[1].split()), tuple(c[2].split()), int(c[3])))
REFUSALS = Table("refusals", lambda c: Refusal(*c))
ACCEPTED = Table("accepted", lambda c: Accepted(*c))


@cache
def native_passes() -> list[str]:
    """The names of MLIR's and StableHLO's passes that textual pipelines can name."""
    return (FOLDER / "native_passes.tsv").read_text().split()


@cache
def by_op(table: Table[Row]) -> dict[str, list[Row]]:
    """The rows of a table, grouped by op."""
    rows: dict[str, list[Row]] = {}
    for row in table.read():
        rows.setdefault(row.op, []).append(row)
    return rows
