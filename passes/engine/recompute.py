"""Rematerialization: which values are kept as residuals, and which are recomputed from them.

    y = tanh m; the transpose reads y and 1 - y y       keep y;  recompute 1 - y y

The residuals are the values of fewest bytes from which cheap ops recompute the wanted values. These ops may also read
loop invariants. The residuals are a minimum cut between the values that cannot be recomputed (loop-carried values,
matrix products, ...) and the wanted values. If there are several minimum cuts, the pass takes the cut nearest to the
wanted values, because it leaves the fewest ops to recompute. Comparisons for equality are not recomputed, because their
recomputed operands may differ in the last digit. Induction variables are never residuals: they change by a constant per
iteration, so they are recomputed from the iteration number.
"""

from collections.abc import Collection, Sequence
from typing import Any

from tiduc.dialect.control.trip_count import increment
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.costs import stored_bytes
from tiduc.dialect.facts.matchers import compares_equal
from tiduc.dialect.graph.flow import UNLIMITED, minimum_cut
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.traits import CHEAP
from tiduc.dialect.shapes.types import bits


def cheapest_residuals(
    wanted: Sequence[Value], free: Collection[Value], cheap: Collection[str] = CHEAP
) -> list[Value]:
    """Returns the values of fewest bytes (the residuals) from which cheap ops compute `wanted`.

    The cheap ops may also read the values `free`, which need not be stored.
    `cheap` are the names of cheap ops. The values must not belong to graphs that were merged into one, because an op of
    a merged graph may read other operands than `Value.definition` says.
    """
    return minimum_cut(_computed_from(wanted, set(free), cheap), capacity, wanted)


def _computed_from(
    wanted: Sequence[Value], free: set[Value], cheap: Collection[str]
) -> dict[Value, list[Value]]:
    """The graph in which residuals are a cut. It maps each value to the operands of the cheap op that recomputes it.

    It maps a value that no cheap op recomputes to []. It leaves out the values `free`, and the values that cheap ops
    compute from only these.
    """
    is_free: dict[Value, bool] = dict.fromkeys(free, True)
    before: dict[Value, list[Value]] = {}
    stack = list(wanted)
    while stack:
        x = stack[-1]
        op = x.definition
        is_source = op is None or op.name not in cheap or bool(op.captures)
        is_source = is_source or (compares_equal(op) and not free.issuperset(op.operands))  # type: ignore[arg-type, union-attr]
        operands = () if is_source else op.operands  # type: ignore[union-attr]
        missing = [y for y in operands if y not in is_free]
        if x not in is_free and missing:
            stack += missing
            continue
        stack.pop()
        if x not in is_free:
            is_free[x] = not is_source and all(is_free[y] for y in operands)
            if not is_free[x]:
                before[x] = [y for y in operands if not is_free[y]]
    return before


def capacity(x: Value) -> int:
    """The bytes that a stored value takes, at most `UNLIMITED`. A value of dynamic shape counts as `UNLIMITED`."""
    size = stored_bytes(x.type)
    return UNLIMITED if size is None else min(size, UNLIMITED)


def induction_variables(step: Any) -> dict[Value, tuple[Any, int]]:
    """Maps each induction variable of a loop body to its key in `step.carries` and to its increment per iteration.

    An induction variable is a loop-carried value of a loop that runs forward. It has at least 32 bits, and each
    iteration adds a constant integer to it.
    """
    outer = {inner: x for x, inner in step.loop.outside.items()}
    variables = {}
    for at, x in step.carries.items():
        by = increment(x, step.nexts[at], lambda y: outer.get(y, y)) if not step.backwards[x] else None
        if by is not None and bits(x) >= 32:
            variables[x] = at, by
    return variables


def induction_value(b: StablehloBuilder, start: Value, by: int, number: Value) -> Value:
    """An induction variable's value in an iteration: start + by * number."""
    number = b.convert(number, start.type.element_type)
    steps = b.multiply(number, b.constant(abs(by), number))
    return b.add(start, steps) if by > 0 else b.subtract(start, steps)
