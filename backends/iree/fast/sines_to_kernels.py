"""sines_to_kernels: sine, cosine and tangent of large f32 or bf16 arrays as kernels, on CPUs with a fused multiply-add.

    %0 = stablehlo.sine %x  ->  %most = reduce max |%x|
                                %0 = flow.dispatch.region { scf.if %most >= 2^46 { ... } else { ... } }

In faults/trigonometry.py, a third of the code selects the bits of 1 / pi that an argument needs, but only arguments of
2^46 or more leave out bits. The kernel skips the selection if no argument is that large. If all arguments are small,
both branches give equal results.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewrite, signless
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.faults.trigonometry import FUNCTIONS, NEAR
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.context import stage
from tiduc.dialect.types import element

_LARGE = 2**14  # the fewest elements; for fewer, the dispatches cost more than they save
_FUSED = Settings(fused=True)


@slow("Sines of large arrays always select bits for huge arguments; a kernel skips that if there are none.")
@stage
def sines_to_kernels(module: Any) -> int:
    """Rewrites sines, cosines and tangents in place, before tidu-legalize-for-iree; gives their number.

    Ops in loops and conditionals stay, since a loop may become a kernel itself.
    """
    return rewrite(module, dict.fromkeys(FUNCTIONS, lambda b, op: _in_kernel(b, op) if _pays(op) else None))


def _pays(op: Any) -> bool:
    type_ = op.operands[0].type
    if op.operation.block.owner.operation.name != "func.func" or not type_.has_static_shape:
        return False
    return isinstance(element(type_), ir.F32Type | ir.BF16Type) and prod(type_.shape) >= _LARGE


def _in_kernel(b: Emitter, op: Any) -> list[Any]:
    """The function of each element of an array, in one dispatch.

    Ops are emitted on scalars: IREE does not fuse elementwise ops in kernels, where each op would need an array.
    """
    (x,), function = op.operands, FUNCTIONS[op.name]
    flat = b.reshape(x, [prod(x.type.shape)])
    most, limit = _largest(b, flat)

    def fill(k: Kernel) -> Sequence[Any]:
        output = k.empty(flat.type)  # both branches write to this memory

        def values(near: bool) -> Callable[[Kernel], Sequence[Any]]:
            def at_place(k: Kernel, v: Any, _: Any) -> Any:
                return k.element(function(k, k.scalar(v), near))

            return lambda k: [Kernel(k.place, k.location, _FUSED).generic([flat], output, at_place)]

        far = k.at_most(k.number(limit, most.type.element_type), k.element(most))
        return k.if_(far, [flat.type], values(False), values(True))

    return [b.reshape(y, x.type.shape) for y in dispatch(b, [flat.type], fill)]


def _largest(b: Emitter, x: Any) -> tuple[Any, int]:
    """The bits of the largest |x|, and of `NEAR`; bits have the order of the numbers, and NaN is the largest."""
    width = element(x).width
    sizes = b.and_(b.bitcast(x, signless(width)), (1 << (width - 1)) - 1)
    zero = b.constant(0, ir.RankedTensorType.get([], signless(width)))
    limit = int(np.float32(NEAR).view(np.int32)) >> (32 - width)
    return b.reduce(sizes, zero, [0], "stablehlo.maximum"), limit
