"""separate_parts: puts a barrier after a complex value that several ops read, if an op reads its parts separately.

    %p = multiply %a, %b : complex                  %p = multiply %a, %b : complex
    %r = real %p                             ->     %b = optimization_barrier %p
    %y = dot_general %p, %q                         %r = real %b
                                                    %y = dot_general %b, %q

The ops `real` and `imag`, and products such as `dot_general`, read the real part and the imaginary part separately.
IREE recomputes the parts for each reader and merges these computations. A reader of the real part may then get the
imaginary part, or another array of the dispatch, so that its result is silently wrong. No barrier is needed if all
readers are `real` or `imag`.
"""

from torch_mlir import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.separate_fusions import store
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.traits import COMPLEX_PARTS, PRODUCTS
from tiduc.dialect.shapes.types import is_complex

_STORED = ("stablehlo.constant", "stablehlo.optimization_barrier")
_BY_PARTS = COMPLEX_PARTS | PRODUCTS


@wrong(
    "If two products read a complex array, IREE reads another array instead of one part; a barrier stores the array.",
    "parts_in_two_products",
)
@wrong(
    "If several ops read a complex array, IREE confuses real and imaginary parts; a barrier stores the array.",
    "parts_of_products",
)
def separate_parts(module: ir.Module | IrOp) -> None:
    """Inserts a barrier after complex values of a module, in place.

    A value gets a barrier if several ops read it, one of them reads its parts separately, and not all of them are
    `real` or `imag`. Constants and the results of barriers need no barrier.
    """
    for op in outer_first(module.operation):
        if op.name in _STORED:
            continue
        for y in op.results:
            if isinstance(y.type, ir.RankedTensorType) and is_complex(y):
                readers = [use.owner.name for use in y.uses]
                by_parts = not (_BY_PARTS.isdisjoint(readers) or COMPLEX_PARTS.issuperset(readers))
                if len(readers) > 1 and by_parts:
                    store(y)
