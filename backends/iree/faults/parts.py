"""separate_parts: puts a barrier where complex numbers are read whole, and their parts are read as well.

    %p = multiply %a, %b : complex                  %p = multiply %a, %b : complex
    %r = real %p                             ->     %b = optimization_barrier %p
    %i = imag %p                                    %r = real %b
    %y = dot_general %p, %q                         %i = imag %b
                                                    %y = dot_general %p, %q

IREE computes the parts once for the readers of the parts and once for the readers of the whole numbers. When it merges
the two computations, a reader of the real part can get the imaginary part: silently wrong values.
"""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.missing.dynamic.arrays import behind_barrier
from tiduc.dialect.traits import COMPLEX_PARTS
from tiduc.dialect.types import is_complex

_STORED = ("stablehlo.constant", "stablehlo.optimization_barrier")


@wrong(
    "Takes imaginary for real parts, if complex numbers are read whole as well; a barrier stores the numbers.",
    "parts_of_products",
)
def separate_parts(module: Any) -> None:
    """Puts the barriers into a module, in place."""
    for op in within(module.operation):
        if op.name in _STORED:
            continue
        for y in op.results:
            if not isinstance(y.type, ir.RankedTensorType) or not is_complex(y):
                continue
            readers = [use.owner.operation for use in y.uses]
            parts = [reader for reader in readers if reader.name in COMPLEX_PARTS]
            if parts and len(parts) < len(readers):
                (stored,) = behind_barrier(Emitter(ir.InsertionPoint.after(op), op.location), y)
                for reader in parts:
                    reader.operands[0] = stored
