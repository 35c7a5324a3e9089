"""Replaces releases of buffers that may still be in use; the buffers are freed once nothing refers to them.

IREE's compiler releases the buffer of each result of a loop or conditional after the result's last use. But several
results may be parts of one buffer, and a result may be the loop's initial value, which other ops still use. Vulkan
refuses to release a part, with several threads the run ends with "transient buffer has not been committed", and
elsewhere the memory may be reused for another array. Only these releases have nonzero flags, which ask for the
buffer's origin:

    vm.call @hal.device.queue.dealloca(%device, %queue, %wait, %signal, %buffer, %c1)
    ->  %none = vm.const.i64.zero;  vm.call @hal.device.queue.barrier(%device, %queue, %wait, %signal, %none)

The barrier signals the fence in place of the release, and the runtime counts references to buffers anyway.
"""

import itertools
import re
from collections.abc import Iterator

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.vm.text import declare, require_known

_LINE = re.compile(
    r"^ *vm\.(?P<begins>func|initializer)\b.*$"
    r"|^ *(?P<zero>%\S+) = vm\.const\.i64\.zero\b.*$"
    r"|^(?P<indent> *)vm\.call @hal\.device\.queue\.dealloca\((?P<operands>[^()]*)\) : .*$",
    re.MULTILINE,
)
_FENCE = "!vm.ref<!hal.fence>"
_BARRIER = (
    "vm.import private @hal.device.queue.barrier(%device : !vm.ref<!hal.device>, %queue_affinity : i64, "
    f"%wait_fence : {_FENCE}, %signal_fence : {_FENCE}, %flags : i64)"
)


@wrong(
    "Releases the buffer of a result of a loop or conditional while others use it; a barrier instead.",
    "threads/loops_from_one_array",
)
def replace_early_releases(text: str) -> str:
    """The text of a VM module that releases no result of a loop or conditional."""
    releases = (line for line in _LINE.finditer(text) if line["operands"] is not None)
    require_known(text, "hal.device.queue.dealloca", releases, 6)
    zeros, names = set[str](), itertools.count()
    kept = _LINE.sub(lambda line: _line(line, zeros, names), text)
    if kept == text or "vm.import private @hal.device.queue.barrier(" in kept:
        return kept
    return declare(kept, _BARRIER)


def _line(line: re.Match[str], zeros: set[str], names: Iterator[int]) -> str:
    """A line of a function, or a barrier if it is a release with nonzero flags; `zeros` are values known to be 0."""
    if line["begins"]:
        zeros.clear()
    elif line["zero"]:
        zeros.add(line["zero"])
    else:
        device, queue, wait, signal, _, flags = line["operands"].split(", ")
        if flags not in zeros:
            indent, none = line["indent"], f"%none_{next(names)}"
            return (
                f"{indent}{none} = vm.const.i64.zero\n{indent}vm.call @hal.device.queue.barrier({device}, {queue}, "
                f"{wait}, {signal}, {none}) : (!vm.ref<!hal.device>, i64, {_FENCE}, {_FENCE}, i64) -> ()"
            )
    return line[0]
