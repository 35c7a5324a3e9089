"""How often a loop runs at most, where one of the tests that all have to hold counts."""

from dataclasses import dataclass, replace
from typing import Any

from tiduc.dialect.control import Loop
from tiduc.dialect.graph import Value
from tiduc.dialect.trip_count import trip_count


@dataclass(frozen=True)
class _Test:
    """A condition that is one of several."""

    inputs: dict[str, Value]
    outputs: list[Value]


def most_iterations(loop: Any) -> int | None:
    """As `i < 200 and error > 1e-6` never holds more often than its counter says; None where no test counts."""
    if not isinstance(loop, Loop) or loop.cond is None:
        return None
    waiting, found = list(loop.cond.outputs), list[int]()
    while waiting:
        test = waiting.pop()
        if test is None or test.definition is None:
            continue
        if test.definition.name == "stablehlo.and":
            waiting += test.definition.operands
            continue
        count = trip_count(replace(loop, cond=_Test(loop.cond.inputs, [test])))  # type: ignore[arg-type]
        found += [] if count is None else [count]
    return min(found, default=None)
