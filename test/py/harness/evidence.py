"""Records which element types and orders the tests of rules cover for each op, and which ops are refused.

`check_rule` differentiates with an op set that records the requested rules. After all tests in test/py/rules,
`conftest.py` compares the records with the tables in tiduc/tables, which `tiduc ops` and docs/ops.md show.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import LinearizeRule, OpSet, TransposeRule
from tiduc.tables import CHECKED, REFUSALS, Checked, Refusal, Table

_REFUSAL = re.compile(r"unsupported (jvp|transpose) AD rule for (\S+(?: @\S+)?): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Recorder(OpSet):
    """An op set that records the kind, op and element type of each requested rule."""

    met: set[tuple[str, str, str]] = field(default_factory=set)

    @classmethod
    def new(cls) -> "Recorder":
        """Creates a recorder with all rules of `OPSET` and no records."""
        return cls(**{f.name: getattr(OPSET, f.name) for f in fields(OpSet)})

    def linearize_rule(self, op: Any) -> LinearizeRule | None:
        self.met.add(("jvp", self.key(op), _element(op)))
        return super().linearize_rule(op)

    def transpose_rule(self, op: Any) -> TransposeRule:
        self.met.add(("transpose", self.key(op), _element(op)))
        return super().transpose_rule(op)


def _element(op: Any) -> str:
    """Returns the first float or complex element type of the operands, captures and results, or else "none"."""
    elements = (_continuous(x.type) for x in (*op.operands, *op.captures, *op.results))
    return next((element for element in elements if element is not None), "none")


@functools.cache
def _continuous(type_: Any) -> str | None:
    """Returns the element type of a tensor if it is a float or complex type, or else None."""
    element = getattr(type_, "element_type", None)
    return str(element) if isinstance(element, ir.FloatType | ir.ComplexType) else None


class Notes:
    """The checked rules and the refusals that the tests of rules have recorded so far."""

    def __init__(self) -> None:
        self._taken = False
        self.rules: set[tuple[str, str, str, int]] = set()  # (kind of rule, op, element type, order)
        self.refusals: set[Refusal] = set()

    def checked(self, recorder: Recorder, order: int) -> None:
        """Records that the rules in `recorder` were checked up to an order.

        The recorder must contain only the rules that derivatives of order one requested. Derivatives of higher order
        also request rules for ops that other rules emit.
        """
        if self._taken:
            self.rules.update((*row, order) for row in recorder.met)

    def checked_text(self, text: str, order: int) -> None:
        """Records that the rules which the JVP and the VJP of a program request were checked up to an order."""
        if not self._taken:
            return
        recorder = Recorder.new()
        program = load(text, opset=recorder)
        program.jvp()
        program.vjp()
        self.checked(recorder, order)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Enters a context in which checks and refusals are recorded."""
        init = Unsupported.__init__

        def noting(error: Unsupported, message: str, location: Any = None) -> None:
            init(error, message, location)
            if match := _REFUSAL.fullmatch(message):
                self.refusals.add(Refusal(match[2], match[1], match[3]))

        self._taken, Unsupported.__init__ = True, noting  # type: ignore[method-assign]
        try:
            yield
        finally:
            self._taken, Unsupported.__init__ = False, init  # type: ignore[method-assign]

    def tables(self) -> dict[Table[Any], list[Any]]:
        """Returns the rows of the tables `CHECKED` and `REFUSALS`."""
        return {CHECKED: _checked(self.rules), REFUSALS: sorted(self.refusals)}


NOTES = Notes()


def joined(rows: Iterable[Any]) -> list[Any]:
    """Returns the distinct rows of a table, sorted. Rows of `CHECKED` for the same op are merged."""
    distinct: dict[Any, Any] = {}
    for row in rows:
        key = row.op if isinstance(row, Checked) else row
        if isinstance(row, Checked) and (other := distinct.get(key)):
            jvp, transpose = (tuple(sorted({*a, *b})) for a, b in zip(row[1:3], other[1:3], strict=True))
            row = Checked(row.op, jvp, transpose, max(row.order, other.order))
        distinct[key] = row
    return sorted(distinct.values())


def _checked(rules: Iterable[tuple[str, str, str, int]]) -> list[Checked]:
    """Returns a row for each op whose rules were checked."""
    kinds: dict[str, dict[str, set[str]]] = {}
    orders: dict[str, int] = {}
    for kind, op, element, order in rules:
        if op.startswith("tidu."):  # ops that tiduc adds in place of other ops
            continue
        kinds.setdefault(op, {"jvp": set(), "transpose": set()})[kind].add(element)
        orders[op] = max(order, orders.get(op, 0))
    return [
        Checked(op, tuple(sorted(types["jvp"])), tuple(sorted(types["transpose"])), orders[op])
        for op, types in sorted(kinds.items())
    ]
