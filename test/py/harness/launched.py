"""Processes that `tiduc.distributed.launch` starts, in an environment without variables of another launcher."""

import os
import subprocess
import sys
from pathlib import Path

from tiduc.distributed.launchers import ADDRESS, LAUNCHERS

SCRIPT = str(Path(__file__).parents[1] / "cases" / "on_processes.py")
IDENTITY = """func.func @main(%w: tensor<8x16xf32>) -> (tensor<8x16xf32> {tidu.name = "w"}) {
  return %w : tensor<8x16xf32>
}"""


def without_launchers() -> dict[str, str]:
    """Returns the environment of this process without the variables of launchers."""
    own = (*[name for each in LAUNCHERS for name in (each.index, each.count)], ADDRESS)
    return {name: value for name, value in os.environ.items() if name not in own}


def launched(action: str, processes: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs `SCRIPT` with these arguments on some processes."""
    starting = (
        "import sys; from tiduc.distributed import launch; sys.exit(launch(sys.argv[2:], int(sys.argv[1])))"
    )
    command = [sys.executable, "-c", starting, str(processes), sys.executable, SCRIPT, action, str(folder)]
    environment = without_launchers()
    return subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
