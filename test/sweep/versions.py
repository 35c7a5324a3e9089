"""Runs tests with other versions of the libraries: python test/sweep/versions.py [--only NAME,...] [--list]

The sweep creates a virtual environment in `build/versions` for each combination in `VERSIONS`. There, pip installs
tiduc and its test requirements, and then the versions of the combination, even if they contradict tiduc's requirements.
Only the tests that use the changed library run. If a test fails with another version of IREE, the failure must be
examined before tiduc requires that version.
"""

import argparse
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from counts import counts_in, summary

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "versions"

IMPORTS_OF_TORCH = ("test_models_torch.py", "test_models_torch_ops.py", "test_models_parameters.py")
IMPORTS_OF_ONNX = ("test_models_onnx.py", "test_models_onnx_ops.py", "test_models_onnx_versions.py")
IMPORTS_OF_JAX = (
    "test_models_jax.py",
    "test_models_jax_derivatives.py",
    "test_jax_exports.py",
    "test_engine_xla.py",
)
BY_IREE = (
    "test_compile.py",
    "test_runtime.py",
    "test_iree_corners.py",
    "test_iree_stored_values.py",
    "test_iree_loops_to_kernels.py",
)


@dataclass(frozen=True)
class Versions:
    """A combination of versions of packages, and the test files that run with it.

    `packages` are arguments for `pip install`.
    """

    name: str
    packages: Sequence[str]
    tests: Sequence[str]


VERSIONS = (
    Versions("iree-3.12", ("iree-base-compiler==3.12.*", "iree-base-runtime==3.12.*"), BY_IREE),
    Versions("torch-oldest", ("torch==2.10.*",), IMPORTS_OF_TORCH),
    Versions("torch-newest", ("torch",), IMPORTS_OF_TORCH),
    Versions("jax-oldest", ("jax==0.10.0", "jaxlib==0.10.0"), IMPORTS_OF_JAX),
    Versions("jax-newest", ("jax", "jaxlib"), IMPORTS_OF_JAX),
    Versions("onnx-oldest", ("onnx==1.23.*",), IMPORTS_OF_ONNX),
    Versions("onnx-newest", ("onnx",), IMPORTS_OF_ONNX),
)


def python_of(versions: Versions) -> Path:
    """Returns the path of Python in the environment of a combination. Creates the environment if it does not exist."""
    folder = FOLDER / versions.name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", ".[test]"], cwd=ROOT, check=True)
        subprocess.run([*pip, "--upgrade", *versions.packages], cwd=ROOT, check=True)
    return python


def tested(versions: Versions) -> dict[str, int]:
    """Runs the tests of a combination, prints the failures, and returns pytest's counts."""
    tests = [f"test/py/{name}" for name in versions.tests]
    command = [str(python_of(versions)), "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *tests]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    for line in ended.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            print(f"{versions.name}: {line}", flush=True)
    return counts_in(ended.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", default="", help="names of combinations, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the combinations")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    for versions in VERSIONS:
        if options.list:
            print(versions.name, *versions.packages)
        elif not options.only or versions.name in options.only.split(","):
            counts = tested(versions)
            print(f"{versions.name}: {counts}", flush=True)
            total.update(counts or {"crash": 1})
    print(summary(total))
    return int(total["failed"] + total["crash"] > 0)


if __name__ == "__main__":
    sys.exit(main())
