"""separate_fusions: emits a barrier between ops and their reader if IREE would fuse them to code with wrong values.

    %w = convert %x : i8 to f32                     %w = convert %x : i8 to f32
    reduce_window(%w ...)                    ->     %b = optimization_barrier %w
                                                    reduce_window(%b ...)

Each `_Fusion` describes the ops that begin a wrong fusion, the ops that continue it, and the readers that need a
barrier. For each `_Fusion`, one walk over the module follows results from op to op, as long as ops continue the fusion.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import behind_barrier, not_fused
from tiduc.backends.iree.emit.emitter import Emitter, replace_uses
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import PRODUCTS, VIEWS
from tiduc.dialect.shapes.types import bits, element

_BARRIER = "stablehlo.optimization_barrier"
_REDUCTIONS = {"stablehlo.reduce", "stablehlo.reduce_window"}


@dataclass(frozen=True)
class _Fusion:
    """A kind of fusion that IREE compiles to wrong code.

    - `starts` says whether an op begins the fusion.
    - `passes` says whether an op may continue the fusion. It does so if its operands are in the fusion.
    - `operands` is `any` if one operand in the fusion suffices for this, or `all` if all operands must be in it.
    - `readers` has the names of the ops that compute wrong values if they read a value of the fusion.
    """

    starts: Callable[[ir.Operation], bool]
    passes: Callable[[ir.Operation], bool]
    operands: Callable[[Iterable[bool]], bool]
    readers: frozenset[str]


def _widens(op: IrOp) -> bool:
    if op.name == "stablehlo.uniform_dequantize":
        return True
    return bool(op.name == "stablehlo.convert" and bits(op.operands[0]) < bits(op.results[0]))


def _widens_unsigned(op: IrOp) -> bool:
    """Whether an op converts unsigned integers or predicates to a wider type."""
    if op.name != "stablehlo.convert" or not isinstance(kind := element(op.operands[0]), ir.IntegerType):
        return False
    return (kind.is_unsigned or kind.width == 1) and bits(op.operands[0]) < bits(op.results[0])


_UNSIGNED = _Fusion(_widens_unsigned, lambda op: op.name in VIEWS, any, PRODUCTS)
"""A product reads widened unsigned integers as signed ones: predicates become 0 and -1, and 200 of ui8 becomes -56."""
_CONSTANTS = _Fusion(
    lambda op: op.name == "stablehlo.constant",
    lambda op: len(op.operands) > 0 and op.name != _BARRIER and not len(op.regions),
    all,
    frozenset(_REDUCTIONS),
)
"""Reductions of constants are wrong: on CPUs, IREE mistakes a vector of equal constants for one of its elements."""
_WIDENED = _Fusion(
    _widens,
    lambda op: op.name not in PRODUCTS | {_BARRIER} and not len(op.regions),
    any,
    frozenset({"stablehlo.convolution", "stablehlo.reduce_window"}),
)
"""On GPUs, convolutions and reduce_windows of widened elements, such as i8 or f16 converted to f32, are wrong."""
_SUMS = _Fusion(
    lambda op: op.name in PRODUCTS | _REDUCTIONS,
    lambda op: op.name != _BARRIER,
    any,
    frozenset({"stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"}),
)
"""On SPIR-V, broadcasts of reductions and products are wrong: threads read a result before all threads have reduced
their elements.

Half of the calls of a softmax were wrong.
"""


@wrong(
    "IREE sums only some elements of a constant, such as a count of ones; a barrier hides the constant.",
    "reduce_ones",
)
@wrong(
    "IREE uses only some elements of a constant in windows; a barrier hides the constant.",
    "reduce_window_ones",
)
@wrong(
    "IREE treats unsigned numbers as signed ones when products widen them; a barrier separates the conversion.",
    "product_of_unsigned",
)
@wrong(
    "IREE treats predicates as 0 and -1 when products widen them; a barrier separates the conversion.",
    "product_of_predicates",
)
@wrong(
    "On GPUs, windows over widened numbers are wrong; a barrier separates the conversion.",
    "vulkan/sums_of_i8",
)
@wrong(
    "On GPUs, convolutions of widened numbers are wrong; a barrier separates the conversion.",
    "vulkan/convolution_of_i8",
)
@wrong(
    "On SPIR-V, a broadcast reads a reduction before all threads wrote it; tiduc puts a barrier between them.",
    "vulkan/softmax",
)
def separate_fusions(module: ir.Module | IrOp, settings: Settings) -> None:
    """Inserts a barrier, in place, before an operand of an op if IREE would fuse both to code with wrong values."""
    ops = outer_first(module.operation)
    of_target = *(() if settings.cpu else (_WIDENED,)), *((_SUMS,) if settings.spirv else ())
    for fusion in (_CONSTANTS, _UNSIGNED, *of_target):
        fused = set[Any]()
        for op in ops:
            if op.name in fusion.readers:
                arrays = len(op.results) if op.name in _REDUCTIONS else len(op.operands)
                for i in range(arrays):
                    if op.operands[i] in fused:
                        (put_barrier if fusion is _CONSTANTS else store_operand)(op, i)
            if fusion.starts(op) or (fusion.passes(op) and fusion.operands(x in fused for x in op.operands)):
                fused.update(op.results)


def put_barrier(op: IrOp, i: int) -> None:
    """Makes an op read its operand i through a barrier, in place."""
    (op.operands[i],) = behind_barrier(Emitter(ir.InsertionPoint(op), op.location), op.operands[i])


def store(x: IrValue) -> IrValue:
    """Makes all readers of x read x through a barrier that only prevents fusion. Returns the result of the barrier."""
    uses, op = list(x.uses), x.owner
    assert not isinstance(op, ir.Block), "an op computes x"
    stored = not_fused(Emitter(ir.InsertionPoint.after(op), op.location), x)
    replace_uses(uses, stored)
    return stored


def store_operand(op: IrOp, i: int) -> None:
    """Makes an op read its operand i through a barrier that only prevents fusion, in place."""
    op.operands[i] = not_fused(Emitter(ir.InsertionPoint(op), op.location), op.operands[i])
