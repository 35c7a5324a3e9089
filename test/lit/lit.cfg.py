"""The lit suite: one folder a stage, one file an op; `tiduc` and `filecheck` are those of this Python."""

import os
import sys

import lit.formats

config.name = "tiduc"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821
config.environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # noqa: F821
config.environment["TIDUC_CACHE"] = "off"  # nothing of the tests is left with the user  # noqa: F821
