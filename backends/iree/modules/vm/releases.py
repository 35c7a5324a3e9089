"""Removes releases of buffers that may still be in use. The runtime then frees such a buffer with its last reference.

IREE's compiler releases the buffer of each result of a loop or conditional after the result's last use. But several
results may be parts of one buffer, and a result may be the loop's initial value, which other ops still use. The
consequence of such an early release depends on the device. Vulkan refuses to release a part of a buffer. A device with
several threads ends the run with "transient buffer has not been committed". On other devices, another array may reuse
the memory too early. Only the ops that release buffers of such results have nonzero flags, such as `%c1`:

    vm.call @hal.device.queue.dealloca(%device, %queue, %wait, %signal, %buffer, %c1)
    ->  %none = vm.const.i64.zero;  vm.call @hal.device.queue.barrier(%device, %queue, %wait, %signal, %none)
        vm.discard.refs %buffer

The barrier signals the fence `%signal`, as the release would. IREE's virtual machine drops references only where the
program says so. If the release was the last use of the buffer, the reference is therefore dropped instead. Otherwise,
each call would leak the buffer.
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.ops import create, definition, erase
from tiduc.backends.iree.modules.vm.functions import LiveReferences, call, calls, declare, zero

_FENCE = "!vm.ref<!hal.fence>"
_BARRIER = (
    "vm.import private @hal.device.queue.barrier(%device : !vm.ref<!hal.device>, %queue_affinity : i64, "
    f"%wait_fence : {_FENCE}, %signal_fence : {_FENCE}, %flags : i64)"
)


@wrong(
    "IREE releases the buffer of a loop's or conditional's result while others use it; tiduc emits a barrier.",
    "threads/loops_from_one_array",
)
def replace_early_releases(module: ir.Operation) -> bool:
    """Replaces each release of a result of a loop or conditional by a barrier. Returns False if there are none."""
    early = [
        release
        for release in calls(module, "hal.device.queue.dealloca", 6)
        if definition(release.operands[5], "vm.const.i64.zero") is None
    ]
    lives: dict[ir.Operation, LiveReferences] = {}
    for release in early:
        function = release.block.owner.operation
        if function not in lives:
            lives[function] = LiveReferences(function)
        device, queue, wait, signal, buffer, _ = release.operands
        call("hal.device.queue.barrier", [], [device, queue, wait, signal, zero(release)], release)
        if lives[function].is_last_use(buffer, release):
            create("vm.discard.refs", [], [buffer], release)
        erase(release)
    if early:
        declare(module, _BARRIER)
    return bool(early)
