"""kinks: the choices of docs/conventions.md that a derivative rests on, at kinks, ties and jumps."""

from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.activity import Activity, functions
from tiduc.dialect.errors import describe
from tiduc.dialect.graph.graph import operations
from tiduc.passes.rules.elementwise import is_relu
from tiduc.view.label import reducer

PAGE = "docs/conventions.md"
KINKS, COMPLEX = "#kinks-and-ties", "#complex-values"


@dataclass(frozen=True)
class Choice:
    """A row of docs/conventions.md: ops, where they have a kink, the derivative chosen there, and the section."""

    ops: tuple[str, ...]
    where: str
    choice: str
    section: str = KINKS
    of: str = "real"  # or complex
    body: tuple[str, ...] = ()  # the only op in the op's region
    relu: bool | None = None  # whether the op is part of a relu; None for either

    @property
    def link(self) -> str:
        return PAGE + self.section


_EXTREMA = ("maximum", "minimum")
CHOICES = (
    Choice(("abs",), "0", "1"),
    Choice(
        ("sign", "floor", "ceil", "round_nearest_afz", "round_nearest_even", "compare"), "everywhere", "0"
    ),
    Choice(_EXTREMA, "equal operands", "half to each", relu=False),
    Choice(_EXTREMA, "equal operands", "0, as in every framework", relu=True),
    Choice(
        ("clamp",),
        "operand at a bound",
        "as `minimum(maximum(x, low), high)` shares ties: half to each of the two that meet; JAX has 0 for all three; "
        "where the bounds cross, the upper one wins",
    ),
    Choice(
        ("reduce",),
        "several extrema",
        "shared evenly; an initial value that is known to change nothing has no share",
        body=_EXTREMA,
    ),
    Choice(
        ("reduce_window",),
        "several extrema in a window",
        "all to the first in row-major order; an initial value goes after them",
        body=_EXTREMA,
    ),
    Choice(
        ("select_and_scatter",),
        "ties",
        "the source goes to the first element in row-major order that the `select` region keeps",
    ),
    Choice(("sort",), "equal keys", "tangents go where their values go"),
    Choice(("sqrt", "cbrt", "log"), "0", "infinite, as the formula gives"),
    Choice(("power",), "x = y = 0", "0; JAX gives NaN"),
    Choice(("power",), "x = 0", "0"),
    Choice(("power",), "x < 0", "NaN, as `log x`"),
    Choice(("remainder",), "everywhere", "`dx - trunc(x / y) dy`"),
    Choice(("atan2",), "(0, 0)", "NaN, as the formula gives"),
    Choice(("abs", "sign"), "0", "zero", COMPLEX, "complex"),
    Choice(
        (*_EXTREMA, "clamp"),
        "everywhere",
        "by real parts, then by imaginary ones, as the specification has it",
        COMPLEX,
        "complex",
    ),
)


@dataclass(frozen=True)
class Kink:
    """An op of a program to which a choice applies, and its places."""

    op: str
    choice: Choice
    places: tuple[str, ...]
    times: int


def find_kinks(module: ir.Module, activity: Activity) -> list[Kink]:
    """The choices that the active ops of a module rest on, in the order of docs/conventions.md."""
    places_of: dict[tuple[str, Choice], list[str]] = {}

    def look(op: Any) -> Any:
        name = op.name.removeprefix("stablehlo.")
        if name in _NAMES and any(x in activity.active for x in op.operands):
            for choice in CHOICES:
                if name in choice.ops and _fits(op, choice):
                    places_of.setdefault((name, choice), []).append(describe(op.location))
        return ir.WalkResult.ADVANCE

    for function in functions(module).values():
        for op in operations(function.regions[0].blocks[0]):
            op.walk(look)
    order = {choice: i for i, choice in enumerate(CHOICES)}
    kinks = [Kink(op, c, tuple(filter(None, places)), len(places)) for (op, c), places in places_of.items()]
    return sorted(kinks, key=lambda kink: order[kink.choice])


_NAMES = frozenset(name for choice in CHOICES for name in choice.ops)


def _fits(op: Any, choice: Choice) -> bool:
    element = getattr(op.operands[0].type, "element_type", None)
    if isinstance(element, ir.ComplexType) != (choice.of == "complex"):
        return False
    if choice.relu is not None and choice.relu != is_relu(op):
        return False
    return not choice.body or reducer(op).removeprefix("stablehlo.") in choice.body
