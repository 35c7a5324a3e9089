"""Replaces releases of buffers that may still be in use; the buffers are freed with their last reference.

IREE's compiler releases the buffer of each result of a loop or conditional after the result's last use. But several
results may be parts of one buffer, and a result may be the loop's initial value, which other ops still use. Vulkan then
refuses to release a part; a device with several threads ends the run with "transient buffer has not been committed";
elsewhere, another array may reuse the memory. Only these releases have nonzero flags, which ask for the buffer's
origin:

    vm.call @hal.device.queue.dealloca(%device, %queue, %wait, %signal, %buffer, %c1)
    ->  %none = vm.const.i64.zero;  vm.call @hal.device.queue.barrier(%device, %queue, %wait, %signal, %none)

The barrier signals the fence in place of the release, and the runtime counts references to buffers anyway.
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.ops import definition, erase
from tiduc.backends.iree.modules.vm.functions import call, calls, declare, zero

_FENCE = "!vm.ref<!hal.fence>"
_BARRIER = (
    "vm.import private @hal.device.queue.barrier(%device : !vm.ref<!hal.device>, %queue_affinity : i64, "
    f"%wait_fence : {_FENCE}, %signal_fence : {_FENCE}, %flags : i64)"
)


@wrong(
    "Releases the buffer of a result of a loop or conditional while others use it; a barrier instead.",
    "threads/loops_from_one_array",
)
def replace_early_releases(module: ir.Operation) -> bool:
    """Replaces the releases of results of loops and conditionals in a VM module. False if there are none."""
    early = [
        release
        for release in calls(module, "hal.device.queue.dealloca", 6)
        if definition(release.operands[5], "vm.const.i64.zero") is None
    ]
    for release in early:
        device, queue, wait, signal, _, _ = release.operands
        call("hal.device.queue.barrier", [], [device, queue, wait, signal, zero(release)], release)
        erase(release)
    if early:
        declare(module, _BARRIER)
    return bool(early)
