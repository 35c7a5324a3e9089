"""sines_to_kernels: sine, cosine and tangent of large f32 or bf16 arrays as kernels, on CPUs with a fused multiply-add.

    %0 = stablehlo.sine %x  ->  %0 = flow.dispatch.region { %far = max |%x| >= 2^46;  scf.if %far { ... } else { ... } }

In faults/trigonometry.py, a third of the code selects the bits of 1 / pi that an argument needs, but only arguments of
2^46 or more leave out bits. The kernel looks at all arguments first and skips the selection if none is that large. If
all arguments are small, both branches give equal results.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless, within
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fast.scalars import Numbers, accumulated, elementwise
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.faults.trigonometry import NEAR, cosine, sine, tangent
from tiduc.dialect.context import stage
from tiduc.dialect.types import element

_FUNCTIONS = {"stablehlo.sine": sine, "stablehlo.cosine": cosine, "stablehlo.tan": tangent}
_LARGE = 2**14  # elements; for fewer, the dispatch costs what it saves


@slow(
    "Sines of large arrays select bits for huge arguments in any case; one dispatch looks whether there are any."
)
@stage
def sines_to_kernels(module: Any) -> int:
    """Rewrites sines, cosines and tangents in place, before tidu-legalize-for-iree; gives their number.

    Skips ops in loops and conditionals, since these may become kernels themselves.
    """
    ops = [op for op in within(module.operation) if op.name in _FUNCTIONS and _pays(op)]
    for op in ops:
        y = _in_kernel(Emitter(ir.InsertionPoint(op), op.location), op.operands[0], _FUNCTIONS[op.name])
        op.results[0].replace_all_uses_with(y)
        op.erase()
    return len(ops)


def _pays(op: Any) -> bool:
    type_ = op.operands[0].type
    if op.operation.block.owner.operation.name != "func.func" or not type_.has_static_shape:
        return False
    return isinstance(element(type_), ir.F32Type | ir.BF16Type) and prod(type_.shape) >= _LARGE


def _in_kernel(b: Emitter, x: Any, function: Callable[..., Any]) -> Any:
    """The function of each element of the array x, computed in f64, from one dispatch."""
    flat = b.reshape(x, [prod(x.type.shape)])

    def fill(k: Kernel) -> Sequence[Any]:
        output = k.empty(flat.type)  # both branches write to this memory

        def values(near: bool) -> Callable[[Kernel], Sequence[Any]]:
            return lambda k: [elementwise(k, flat, output, lambda n, v: _value(n, v, function, near))]

        return [k.choice(_far(k, flat), flat.type, values(False), values(True))]

    return b.reshape(dispatch(b, [flat.type], fill)[0], x.type.shape)


def _far(k: Kernel, x: Any) -> Any:
    """Whether an argument's size is not below `NEAR`, by comparison of bits; true if one is NaN."""
    bits = signless(element(x).width)

    def larger(n: Numbers, v: Any, most: Any) -> Any:
        number = n.bitcast(v, bits)
        return n.maximum(n.and_(number, n.like((1 << (bits.width - 1)) - 1, number)), most)

    size = accumulated(k, x, k.scalar(k.zero(bits)), larger)
    limit = int(np.float32(NEAR).view(np.int32)) >> (32 - bits.width)
    return k.below(k.number(limit - 1, bits), k.element(size))


def _value(n: Numbers, x: Any, function: Callable[..., Any], near: bool) -> Any:
    """The function of one number, computed in f64."""
    n.fused = True
    return n.convert(function(n, n.convert(x, ir.F64Type.get()), near), x.type)
