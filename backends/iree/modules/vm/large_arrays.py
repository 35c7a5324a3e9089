"""Allocates large arrays with the device's allocator, for programs that several threads run.

IREE's device for several threads reuses the memory of freed arrays of up to 64 MiB. It returns the memory of larger
arrays to the system, so that each call waits for new pages. In a call of ViT-B/16's gradient, the wait takes 0.2 of the
1.5 seconds of processor time. The device's allocator, which tiduc's runtime chooses, reuses freed memory of all sizes.
Arrays of more than 64 MiB are therefore allocated with this allocator:

    %buffer = vm.call @hal.device.queue.alloca(%device, %queue, %wait, %signal, %pool, %types, %usage, %size, %flags)
    ->
    %allocator = vm.call @hal.device.allocator(%device)
    %buffer = vm.call @hal.allocator.allocate(%allocator, %queue, %types, %usage, %size)
    %none = vm.const.i64.zero
    vm.call @hal.device.queue.barrier(%device, %queue, %wait, %signal, %none)

The program then gets the array at once, instead of when the device's queue reaches the allocation. For such an array,
`hal.device.queue.dealloca` only signals a fence; the runtime frees the array when its last reference is dropped.

Before it allocates such an array in a loop, the program waits for the fence `%wait`:

    vm.call.variadic.yieldable @hal.fence.await(%forever, %none, %wait) -> ^next(i32)

It would otherwise allocate the arrays of all iterations at once, because it queues them without waiting for the device.
If the device fails, the next wait for a result of the program reports the error. In loops, arrays of more than 8 MiB
count as large: to reuse freed memory, IREE searches only five of its parts of 64 MiB. If a loop has several arrays of
more than half a part, each call adds parts, without end.
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.ops import IrValue, definition, erase, number
from tiduc.backends.iree.modules.vm.functions import (
    AWAIT,
    call,
    calls,
    declare,
    functions,
    repeated,
    wait_before,
    zero,
)

_KEPT, _KEPT_IN_LOOPS = 2**26, 2**23
"""IREE reuses the memory of freed arrays of up to this many bytes, outside of loops and in loops."""

_DEVICE, _FENCE, _BUFFER = "!vm.ref<!hal.device>", "!vm.ref<!hal.fence>", "!vm.ref<!hal.buffer>"
_ALLOCATOR = "!vm.ref<!hal.allocator>"
_DECLARED = {
    "hal.device.allocator": f"(%device : {_DEVICE}) -> {_ALLOCATOR} attributes {{nosideeffects}}",
    "hal.allocator.allocate": f"(%allocator : {_ALLOCATOR}, %queue_affinity : i64, %memory_types : i32, "
    f"%buffer_usage : i32, %allocation_size : i64) -> {_BUFFER}",
    "hal.device.queue.barrier": f"(%device : {_DEVICE}, %queue_affinity : i64, %wait_fence : {_FENCE}, "
    f"%signal_fence : {_FENCE}, %flags : i64)",
}


@slow(
    "With several threads, IREE returns arrays of more than 64 MiB to the system; tiduc keeps their memory.",
    "threads.py: vit",
)
def keep_large_arrays(module: ir.Operation) -> bool:
    """Makes a VM module allocate large arrays with the device's allocator.

    Large arrays have more than 64 MiB or, in loops, 8 MiB. Arrays of a size that is not a constant are
    not changed. Returns False if the module has no such large arrays.
    """
    found = calls(module, "hal.device.queue.alloca", 9)
    sizes = {op: number(op.operands[7], "vm.const.i64") or 0 for op in found}
    large = [op for op in found if sizes[op] > _KEPT_IN_LOOPS]
    loops = {block for function in functions(module) for block in repeated(function)} if large else set()
    repeats = [(op, op.block in loops) for op in large]
    large = [op for op, is_repeated in repeats if is_repeated or sizes[op] > _KEPT]
    waits = [op for op, is_repeated in repeats if is_repeated and not _is_null(op.operands[2])]
    for op in waits:
        wait_before(op, op.operands[2])
    for op in large:
        device, queue, wait, signal, _, types, usage, size, _ = op.operands
        pure = {"nosideeffects": ir.UnitAttr.get()}
        allocator = call("hal.device.allocator", [ir.Type.parse(_ALLOCATOR)], [device], op, pure).result
        operands = [allocator, queue, types, usage, size]
        buffer = call("hal.allocator.allocate", [op.result.type], operands, op).result
        call("hal.device.queue.barrier", [], [device, queue, wait, signal, zero(op)], op)
        op.result.replace_all_uses_with(buffer)
        erase(op)
    if large:
        for name, declaration in _DECLARED.items():
            declare(module, f"vm.import private @{name}{declaration}")
        if waits:
            declare(module, AWAIT)
    return bool(large)


def _is_null(fence: IrValue) -> bool:
    """Whether a fence is null, so that there is nothing to wait for."""
    return definition(fence, "vm.const.ref.zero") is not None
