"""Measures the memory that IREE allocates for a call."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def allocated(vmfb: bytes, arguments: Sequence[Any]) -> float:
    """Returns the peak of the memory that IREE allocates for a call, in KiB. The arguments are included.

    The call runs in a new process, because IREE's statistics cover all calls since the process started.
    """
    with tempfile.TemporaryDirectory() as folder:
        module, stored = Path(folder, "module.vmfb"), Path(folder, "arguments.npz")
        module.write_bytes(vmfb)
        np.savez(stored, *arguments)
        command = [sys.executable, "-c", PEAK, str(module), str(stored)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


PEAK = """
import sys, numpy, iree.runtime as rt
device, instance = rt.get_device("local-sync"), rt.VmInstance()
module = rt.VmModule.mmap(instance, sys.argv[1])
context = rt.VmContext(instance, [rt.create_hal_module(instance, device=device), module])
with numpy.load(sys.argv[2]) as stored:
    arguments = [rt.asdevicearray(device, x) for x in stored.values()]
given, taken = rt.VmVariantList(len(arguments)), rt.VmVariantList(1)
for x in arguments:
    given.push_ref(x._buffer_view)
context.invoke(module.lookup_function("main"), given, taken)
print(sum(device.allocator.statistics[f"{kind}_bytes_peak"] for kind in ("host", "device")))
"""
