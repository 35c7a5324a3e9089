"""Takes large arrays from the device's allocator, for programs that several threads run.

IREE's device for threads keeps freed memory for arrays of up to 64 MiB. It returns larger arrays to the system, so that
each call waits for new pages: 0.2 of the 1.5 seconds of processor time of a call of ViT-B/16's gradient. The device's
allocator, which tiduc's runtime chooses, keeps freed memory of all sizes. For sizes above the limit:

    %buffer = vm.call @hal.device.queue.alloca(%device, %queue, %wait, %signal, %pool, %types, %usage, %size, %flags)
    ->
    %allocator = vm.call @hal.device.allocator(%device)
    %buffer = vm.call @hal.allocator.allocate(%allocator, %queue, %types, %usage, %size)
    %none = vm.const.i64.zero
    vm.call @hal.device.queue.barrier(%device, %queue, %wait, %signal, %none)

The program then gets the array before the device has reached the allocation. `hal.device.queue.dealloca` of such an
array only signals its fence; the array is freed once nothing refers to it.
"""

import itertools
import re
from collections.abc import Iterator

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.vm.text import declare, each_function, require_known

_KEPT = 2**26
"""The most bytes of an array whose memory IREE keeps."""

_SIZE = re.compile(r"^ *(%\S+) = vm\.const\.i64 (\d+)\b", re.MULTILINE)
_ALLOCA = re.compile(
    r"^(?P<indent> *)(?P<buffer>%\S+) = vm\.call @hal\.device\.queue\.alloca\((?P<operands>[^()]*)\) : .*$",
    re.MULTILINE,
)
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
    "With several threads, returns the memory of arrays of more than 64 MiB to the system; keeps it instead.",
    "threads.py: vit",
)
def keep_large_arrays(text: str) -> str:
    """The text of a VM module that takes arrays of more than 64 MiB from the device's allocator."""
    require_known(text, "hal.device.queue.alloca", _ALLOCA.finditer(text), 9)
    names = itertools.count()
    kept = each_function(text, lambda function: _function(function, names))
    if kept == text:
        return text
    for name, declaration in _DECLARED.items():
        if f"vm.import private @{name}(" not in kept:
            kept = declare(kept, f"vm.import private @{name}{declaration}")
    return kept


def _function(function: str, names: Iterator[int]) -> str:
    """The text of a function; `names` number the values of all functions."""
    large = {name for name, size in _SIZE.findall(function) if int(size) > _KEPT}

    def allocated(line: re.Match[str]) -> str:
        device, queue, wait, signal, _, types, usage, size, _ = line["operands"].split(", ")
        if size not in large:
            return line[0]
        i, indent = next(names), line["indent"]
        allocator, none = f"%allocator_{i}", f"%unflagged_{i}"
        of_allocator = f"({_ALLOCATOR}, i64, i32, i32, i64) -> {_BUFFER}"
        of_barrier = f"({_DEVICE}, i64, {_FENCE}, {_FENCE}, i64) -> ()"
        return "\n".join(
            indent + op
            for op in (
                f"{allocator} = vm.call @hal.device.allocator({device}) {{nosideeffects}} : "
                f"({_DEVICE}) -> {_ALLOCATOR}",
                f"{line['buffer']} = vm.call @hal.allocator.allocate({allocator}, {queue}, {types}, {usage}, {size})"
                f" : {of_allocator}",
                f"{none} = vm.const.i64.zero",
                f"vm.call @hal.device.queue.barrier({device}, {queue}, {wait}, {signal}, {none}) : {of_barrier}",
            )
        )

    return _ALLOCA.sub(allocated, function)
