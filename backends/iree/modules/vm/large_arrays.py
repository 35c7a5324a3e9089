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

Arrays that a loop allocates are not changed. The program queues the iterations of a loop without waiting for the
device, so it would allocate the arrays of all iterations at once.
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.ops import erase, number
from tiduc.backends.iree.modules.vm.functions import call, calls, declare, functions, repeated, zero

_KEPT = 2**26
"""IREE reuses the memory of freed arrays of up to this many bytes."""

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
    """Makes a VM module allocate arrays of more than 64 MiB with the device's allocator.

    Arrays of a size that is not a constant, and arrays in loops, are not changed. Returns False if the module has no
    other large arrays.
    """
    large = [
        op
        for op in calls(module, "hal.device.queue.alloca", 9)
        if (number(op.operands[7], "vm.const.i64") or 0) > _KEPT
    ]
    if large:
        loops = [block for function in functions(module) for block in repeated(function)]
        large = [op for op in large if op.block not in loops]
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
    return bool(large)
