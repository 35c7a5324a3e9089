"""sines_to_kernels: sine, cosine and tangent of large f32 or bf16 arrays as kernels, on CPUs with a fused multiply-add.

    %0 = stablehlo.sine %x;  %1 = stablehlo.cosine %x
    ->  %0, %1 = flow.dispatch.region { %far = max |%x| >= 2^46;  scf.if %far { ... } else { ... } }

In faults/trigonometry.py, a third of the code selects the bits of 1 / pi that an argument needs, but only arguments of
2^46 or more leave out bits. The kernel looks at all arguments first and skips the selection if none is that large. If
all arguments are small, both branches give equal results. The sine and cosine of one array share most of their code.
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
from tiduc.backends.iree.faults.trigonometry import NEAR, cosine, sine, sine_and_cosine
from tiduc.dialect.context import stage
from tiduc.dialect.types import element

_NAMES = ("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan")
_LARGE = 2**14  # elements; for fewer, the dispatch costs what it saves


@slow(
    "Sines of large arrays select bits for huge arguments in any case; one dispatch looks whether there are any."
)
@stage
def sines_to_kernels(module: Any) -> int:
    """Rewrites sines, cosines and tangents in place, before tidu-legalize-for-iree; gives their number.

    Skips ops in loops and conditionals, since these may become kernels themselves.
    """
    taken, groups = set[Any](), list[list[Any]]()
    for op in within(module.operation):
        if op.name in _NAMES and op not in taken and _pays(op):
            groups.append(_of_same(op))
            taken.update(groups[-1])
    for group in groups:
        b = Emitter(ir.InsertionPoint(group[0]), group[0].location)
        for old, new in zip(group, _in_kernel(b, group[0].operands[0], group), strict=True):
            old.results[0].replace_all_uses_with(new)
            old.erase()
    return len(taken)


def _pays(op: Any) -> bool:
    type_ = op.operands[0].type
    if op.operation.block.owner.operation.name != "func.func" or not type_.has_static_shape:
        return False
    return isinstance(element(type_), ir.F32Type | ir.BF16Type) and prod(type_.shape) >= _LARGE


def _of_same(op: Any) -> list[Any]:
    """The op, and the other sines, cosines and tangents of its operand and block that share a reader with it.

    Without a common reader, one result might be read much later than the other and have left the cache by then.
    """
    group, readers = {op.name: op.operation}, _readers(op.operation)
    for use in op.operands[0].uses:
        other = use.owner.operation
        if other.name in _NAMES and other.block == op.operation.block and readers & _readers(other):
            group.setdefault(other.name, other)
    return list(group.values())


def _readers(op: Any) -> set[Any]:
    return {use.owner.operation for use in op.results[0].uses}


def _in_kernel(b: Emitter, x: Any, group: Sequence[Any]) -> list[Any]:
    """The results of the ops of a group for the array x, from one dispatch."""
    flat = b.reshape(x, [prod(x.type.shape)])
    names, types = [op.name for op in group], [flat.type] * len(group)

    def fill(k: Kernel) -> Sequence[Any]:
        outputs = [k.empty(type_) for type_ in types]  # both branches write to the same memory

        def branch(near: bool) -> Callable[[Kernel], Sequence[Any]]:
            return lambda k: elementwise(k, flat, outputs, lambda n, v: _values(n, v, names, near))

        return k.choices(_far(k, flat), types, branch(False), branch(True))

    return [b.reshape(y, x.type.shape) for y in dispatch(b, types, fill)]


def _far(k: Kernel, x: Any) -> Any:
    """Whether an argument's size is not below `NEAR`, by comparison of bits; true if one is NaN."""
    bits = signless(element(x).width)

    def larger(n: Numbers, v: Any, most: Any) -> Any:
        number = n.bitcast(v, bits)
        return n.maximum(n.and_(number, n.like((1 << (bits.width - 1)) - 1, number)), most)

    size = accumulated(k, x, k.scalar(k.zero(bits)), larger)
    limit = int(np.float32(NEAR).view(np.int32)) >> (32 - bits.width)
    return k.below(k.number(limit - 1, bits), k.element(size))


def _values(n: Numbers, x: Any, names: Sequence[str], near: bool) -> list[Any]:
    """The results of the ops `names` for one number, computed in f64."""
    n.fused = True
    wide = n.convert(x, ir.F64Type.get())
    if list(names) == ["stablehlo.sine"]:
        ys = [sine(n, wide, near)]
    elif list(names) == ["stablehlo.cosine"]:
        ys = [cosine(n, wide, near)]
    else:
        both = sine_and_cosine(n, wide, near)
        of = dict(zip(("stablehlo.sine", "stablehlo.cosine"), both, strict=True))
        ys = [of[name] if name in of else n.divide(*both) for name in names]
    return [n.convert(y, x.type) for y in ys]
