"""The lit suite: one folder per stage, one file per op.

`tiduc` and `filecheck` are those of this Python. They run in forks of lit's processes, which have loaded their
libraries, because loading takes ten times as long as a typical RUN line.
"""

import atexit
import gc
import multiprocessing
import os
import subprocess
import sys
from importlib import import_module

import lit.formats

config.name = "tiduc"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821

config.environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # noqa: F821
config.environment["TIDUC_CACHE"] = "off"  # keeps compiled modules out of the user's cache  # noqa: F821

sys.path.append(config.test_source_root)  # noqa: F821
forked = import_module("forked")
subprocess.Popen = forked.Popen
multiprocessing.set_start_method("fork", force=True)  # lit's processes inherit the libraries
forked.prepare()
atexit.register(gc.unfreeze)  # bindings report objects that are not freed at exit
