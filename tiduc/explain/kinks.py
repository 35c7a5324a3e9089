"""kinks: finds the conventions at kinks, ties and jumps that a derivative uses. docs/conventions.md lists them."""

from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.activity import Activity, functions
from tiduc.dialect.errors import describe
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.passes.rules.elementwise import is_relu
from tiduc.view.label import reducer

PAGE = "docs/conventions.md"
KINKS, COMPLEX = "#kinks-and-ties", "#complex-values"


@dataclass(frozen=True)
class KinkChoice:
    """A row of docs/conventions.md: ops, where they have a kink, the derivative that tiduc gives, and the section."""

    ops: tuple[str, ...]
    where: str
    choice: str
    section: str = KINKS
    of: str = "real"  # the element type, "real" or "complex"
    body: tuple[
        str, ...
    ] = ()  # the region of the op contains one of these ops; empty if this does not matter
    relu: bool | None = None  # whether the op must be part of a relu; None if this does not matter

    @property
    def link(self) -> str:
        return PAGE + self.section


_EXTREMA = ("maximum", "minimum")
CHOICES = (
    KinkChoice(("abs",), "0", "1"),
    KinkChoice(
        ("sign", "floor", "ceil", "round_nearest_afz", "round_nearest_even", "compare"), "everywhere", "0"
    ),
    KinkChoice(_EXTREMA, "equal operands", "half to each", relu=False),
    KinkChoice(_EXTREMA, "equal operands", "0, as in every framework", relu=True),
    KinkChoice(
        ("clamp",),
        "operand at a bound",
        "half to the operand and half to the bound, as in `minimum(maximum(x, low), high)`; JAX has 0 for all three "
        "operands; if the bounds cross, the upper bound wins",
    ),
    KinkChoice(
        ("reduce",),
        "several extrema",
        "shared evenly; an initial value that is known to be neutral has no share",
        body=_EXTREMA,
    ),
    KinkChoice(
        ("reduce_window",),
        "several extrema in a window",
        "all to the first extremum in row-major order, and to the initial value last",
        body=_EXTREMA,
    ),
    KinkChoice(
        ("select_and_scatter",),
        "ties",
        "the source goes to the first element in row-major order that the `select` region keeps",
    ),
    KinkChoice(("sort",), "equal keys", "tangents are permuted as the values are"),
    KinkChoice(("sqrt", "cbrt", "log"), "0", "infinite, as the formula gives"),
    KinkChoice(("power",), "x = y = 0", "0; JAX gives NaN"),
    KinkChoice(("power",), "x = 0, y >= 0", "0"),
    KinkChoice(("power",), "x = 0, y < 0", "-inf"),
    KinkChoice(("power",), "x < 0", "NaN, as `log x`"),
    KinkChoice(("remainder",), "everywhere", "`dx - trunc(x / y) dy`"),
    KinkChoice(("atan2",), "(0, 0)", "NaN, as the formula gives"),
    KinkChoice(("abs", "sign"), "0", "zero", COMPLEX, "complex"),
    KinkChoice(
        (*_EXTREMA, "clamp"),
        "everywhere",
        "compare real parts first, then imaginary parts, as in the specification",
        COMPLEX,
        "complex",
    ),
)


@dataclass(frozen=True)
class Kink:
    """A choice that applies to ops of the name `op`. `times` is the number of these ops; `places` are locations."""

    op: str
    choice: KinkChoice
    places: tuple[str, ...]
    times: int


def find_kinks(module: ir.Module, activity: Activity) -> list[Kink]:
    """The choices that apply to ops with an active operand in a module, in the order of docs/conventions.md."""
    places_of: dict[tuple[str, KinkChoice], list[str]] = {}

    def look(op: ir.Operation) -> Any:
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


def _fits(op: IrOp, choice: KinkChoice) -> bool:
    element = getattr(op.operands[0].type, "element_type", None)
    if isinstance(element, ir.ComplexType) != (choice.of == "complex"):
        return False
    if choice.relu is not None and choice.relu != is_relu(op):
        return False
    return not choice.body or reducer(op).removeprefix("stablehlo.") in choice.body
