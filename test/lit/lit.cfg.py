"""The lit suite: one folder a stage, one file an op.

`tiduc` and `filecheck` are those of this Python, and run in forks of one process (`fork_server.py`).
"""

import os
import subprocess
import sys

import lit.formats

config.name = "tiduc"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821

commands = os.path.join(config.test_source_root, "bin")  # noqa: F821
config.environment["PATH"] = os.pathsep.join([commands, os.path.dirname(sys.executable), os.environ["PATH"]])  # noqa: F821
config.environment["TIDUC_CACHE"] = "off"  # nothing of the tests is left with the user  # noqa: F821

reading, _writing = os.pipe()  # the server ends when lit does, whose end closes the pipe
server = subprocess.Popen(
    [sys.executable, os.path.join(config.test_source_root, "fork_server.py")],  # noqa: F821
    stdin=reading,
    stdout=subprocess.PIPE,
    text=True,
)
config.environment["TIDUC_FORK_SERVER"] = server.stdout.readline().strip()  # noqa: F821
config.environment["TIDUC_FORK_PYTHON"] = sys.executable  # noqa: F821
