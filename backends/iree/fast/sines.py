"""sines_to_kernels: sine, cosine and tangent of large f32 or bf16 arrays as kernels, on CPUs with a fused multiply-add.

    %0 = stablehlo.sine %x;  %1 = stablehlo.cosine %x
    ->  %0, %1 = flow.dispatch.region { %far = max |%x| >= 2^46;  scf.if %far { ... } else { ... } }

In faults/trigonometry.py, a third of the code selects the bits of 1 / pi that an argument needs, but only arguments of
2^46 or more leave out bits. The kernel looks at all arguments first and skips the selection if none is that large. If
all arguments are small, both branches give equal results. The sine and cosine of one array share most of their code.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless, within
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fast.scalars import Numbers, accumulated, elementwise
from tiduc.backends.iree.fault import Fault, mends
from tiduc.backends.iree.faults.trigonometry import NEAR, cosine, sine, sine_and_cosine
from tiduc.dialect.bodies import Fill
from tiduc.dialect.context import stage
from tiduc.dialect.types import element

_NAMES = ("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan")
_LARGE = 2**14  # elements; for fewer, the dispatch costs what it saves


@mends(
    Fault(
        "slow",
        "Sines of large arrays select bits for huge arguments in any case; one dispatch looks whether there are any.",
    )
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
    for found in groups:
        b = Emitter(ir.InsertionPoint(found[0]), found[0].location)
        for old, new in zip(found, _in_kernel(b, found[0].operands[0], found), strict=True):
            old.results[0].replace_all_uses_with(new)
        for old in found:
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
    found, readers = {op.name: op.operation}, _readers(op.operation)
    for use in op.operands[0].uses:
        other = use.owner.operation
        if other.name in _NAMES and other.block == op.operation.block and readers & _readers(other):
            found.setdefault(other.name, other)
    return list(found.values())


def _readers(op: Any) -> set[Any]:
    return {use.owner.operation for use in op.results[0].uses}


def _in_kernel(b: Emitter, x: Any, found: Sequence[Any]) -> list[Any]:
    """The results of the ops `found` for the array x, from one dispatch."""
    flat = b.reshape(x, [prod(x.type.shape)])
    names = [op.name for op in found]

    def fill(k: Kernel) -> Sequence[Any]:
        # Both branches write to the same memory.
        types = [flat.type] * len(names)
        made = [k.empty(type_) for type_ in types]
        branches = [_branch(k, flat, made, names, near) for near in (False, True)]
        return k.emit_all("scf.if", (_far(k, flat),), types, None, branches)

    ys = dispatch(b, [flat.type] * len(names), fill)
    return [b.reshape(y, x.type.shape) for y in ys]


def _branch(k: Kernel, x: Any, made: Sequence[Any], names: Sequence[str], near: bool) -> Fill:
    """Fills one branch: with `near`, the code for arguments below `NEAR`, else the code for all arguments."""

    def run(region: Any) -> None:
        inner = Kernel(ir.InsertionPoint(region.blocks.append()), k.location)
        ys = elementwise(inner, x, made, lambda n, v: _values(n, v, names, near))
        inner.emit_all("scf.yield", ys, ())
        k.emitted += inner.emitted

    return run


def _far(k: Kernel, x: Any) -> Any:
    """Whether an argument's size is not below `NEAR`, by comparison of bits; true if one is NaN."""
    width = element(x).width
    bits = signless(width)
    size = accumulated(k, x, k.scalar(k.zero(bits)), lambda n, v, most: _larger(n, v, most, bits))
    limit = int(np.float32(NEAR).view(np.int32)) >> (32 - width)
    below = k.emit("arith.constant", (), bits, {"value": ir.IntegerAttr.get(bits, limit - 1)})
    return k.below(below, k.element(size))


def _larger(n: Numbers, x: Any, most: Any, bits: Any) -> Any:
    """The maximum of `most` and the bits of |x|."""
    number = n.bitcast(x, bits)
    return n.maximum(n.and_(number, n.like((1 << (bits.width - 1)) - 1, number)), most)


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
