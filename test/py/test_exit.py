"""Processes end without an error, whichever object of the runtime is freed last."""

import subprocess
import sys

import pytest

SCRIPT = """
import gc, sys
import numpy as np
import tiduc
from tiduc.runtime import devices

x = np.ones((300, 300), np.float32)
program = tiduc.load("func.func @main(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {"
                     "  %0 = stablehlo.add %x, %x : tensor<300x300xf32>"
                     "  return %0 : tensor<300x300xf32>"
                     "}")
executable = program.compile(sys.argv[2])
last = {"kept": executable.keep(x), "result": executable(x), "executable": executable, "program": program}
last = last[sys.argv[1]]
del executable, program
devices._OPEN.clear()  # as at exit, where Python clears modules in any order
gc.collect()
del last
"""
"""Frees all objects that refer to a device, except one, then this object."""


@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize(
    "last",
    ["kept", *(pytest.param(name, marks=pytest.mark.more) for name in ("result", "executable", "program"))],
)
def test_the_last_object_frees_its_device(last: str, target: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, last, target], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
