"""Makes a program fill each array that it allocates with NaN, before the first and after the last use of the array.

`memory_check.py` compares the results of such a program with those of a program without the fills.

    %buffer = vm.call @hal.device.queue.alloca(%device, %queue, %wait, %signal, ...)
    ->
    %filled = vm.call @hal.fence.create(%device, %zero)
    %buffer = vm.call @hal.device.queue.alloca(%device, %queue, %wait, %filled, ...)
    vm.call @hal.device.queue.fill(%device, %queue, %filled, %signal, %buffer, ...)

    vm.call @hal.device.queue.dealloca(%device, %queue, %wait, %signal, %buffer, %flags)
    ->
    %filled = vm.call @hal.fence.create(%device, %zero)
    vm.call @hal.device.queue.fill(%device, %queue, %wait, %filled, %buffer, ...)
    vm.call @hal.device.queue.dealloca(%device, %queue, %filled, %signal, %buffer, %flags)

All bits of the filled memory are 1: as a float, each element is NaN, and as a signed integer, -1. A dispatch that reads
unwritten or released memory thus computes other values than without the fills. Arrays that share an allocation are
filled together, when the allocation begins and when it ends.
"""

from iree.compiler import ir

from tiduc.backends.iree.modules.ops import IrValue, create, erase
from tiduc.backends.iree.modules.vm.functions import call, calls, declare, i64, zero

PATTERN = 0xFF
"""The byte with which arrays are filled."""

_DEVICE, _FENCE, _BUFFER = "!vm.ref<!hal.device>", "!vm.ref<!hal.fence>", "!vm.ref<!hal.buffer>"
_ALLOCATE, _RELEASE = "hal.device.queue.alloca", "hal.device.queue.dealloca"
_DECLARED = {
    "hal.buffer.length": f"(%buffer : {_BUFFER}) -> i64 attributes {{nosideeffects}}",
    "hal.fence.create": f"(%device : {_DEVICE}, %flags : i64) -> {_FENCE}",
    "hal.device.queue.fill": f"(%device : {_DEVICE}, %queue_affinity : i64, %wait_fence : {_FENCE}, "
    f"%signal_fence : {_FENCE}, %target_buffer : {_BUFFER}, %target_offset : i64, %length : i64, %pattern : i64, "
    "%pattern_length : i32, %flags : i64)",
}


def poison_arrays(module: ir.Operation) -> bool:
    """Makes a VM module fill arrays when it allocates or releases them.

    Returns False if the module neither allocates nor releases arrays.
    """
    allocations = calls(module, _ALLOCATE, 9)
    releases = calls(module, _RELEASE, 6)
    for op in allocations:
        device, queue, wait, signal, *rest = op.operands
        filled = _fence(device, op)
        buffer = call(_ALLOCATE, [op.result.type], [device, queue, wait, filled, *rest], op).result
        _fill([device, queue, filled, signal, buffer], rest[-2], op)
        op.result.replace_all_uses_with(buffer)
        erase(op)
    for op in releases:
        device, queue, wait, _, released, _ = op.operands
        filled = _fence(device, op)
        pure = {"nosideeffects": ir.UnitAttr.get()}
        size = call("hal.buffer.length", [i64(op.context)], [released], op, pure).result
        _fill([device, queue, wait, filled, released], size, op)
        op.operands[2] = filled
    if allocations or releases:
        for name, declaration in _DECLARED.items():
            declare(module, f"vm.import private @{name}{declaration}")
    return bool(allocations or releases)


def _fence(device: IrValue, before: ir.Operation) -> IrValue:
    type_ = ir.Type.parse(_FENCE, before.context)
    return call("hal.fence.create", [type_], [device, zero(before)], before).result


def _fill(target: list[IrValue], size: IrValue, before: ir.Operation) -> None:
    """Emits an op that fills the first `size` bytes of a buffer.

    `target` has the device, the queue, the fence for which the fill waits, the fence that it signals, and the buffer.
    """
    none, of_bytes = zero(before), ir.IntegerType.get_signless(32, before.context)
    pattern = _number(PATTERN, i64(before.context), before)
    one = _number(1, of_bytes, before)
    call("hal.device.queue.fill", [], [*target, none, size, pattern, one, none], before)


def _number(value: int, type_: ir.Type, before: ir.Operation) -> IrValue:
    name = f"vm.const.{type_}"
    return create(name, [type_], [], before, {"value": ir.IntegerAttr.get(type_, value)}).result
