"""A release: the source archive, a wheel that is built from it, and a program that runs with the wheel's files only."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LINKS = ("backends", "dialect", "passes", "runtime")
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"


def built(what: str, source: Path, out: Path) -> Path:
    """The path of the archive that setuptools builds from a folder. `what` is `sdist` or `wheel`."""
    code = f"import setuptools.build_meta as build; print(build.build_{what}({str(out)!r}))"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=source, check=True, capture_output=True, text=True
    )
    return out / ended.stdout.split()[-1]


@pytest.mark.slow
@pytest.mark.more
def test_the_archive_and_the_wheel(tmp_path: Path) -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    source = tmp_path / "source"
    for name in files.decode().split("\0")[:-1]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes()) if not (ROOT / name).is_symlink() else None
    for link in LINKS:  # symbolic links, as git creates them
        (source / "tiduc" / link).symlink_to(Path("..") / link)
    archive = built("sdist", source, tmp_path)
    with tarfile.open(archive) as packed:
        # Python 3.11.2, which Debian has, lacks the argument `filter`.
        given: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        packed.extractall(tmp_path / "unpacked", **given)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheel = built("wheel", unpacked, tmp_path)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
        held = {name for name in packed.namelist() if ".dist-info" not in name}
    expected = {
        f"tiduc/{name}" if name.split("/")[0] in LINKS else name
        for name in files.decode().split("\0")
        if name.split("/")[0] in ("tiduc", *LINKS) and name not in {f"tiduc/{link}" for link in LINKS}
    }
    assert held == expected
    (tmp_path / "f.mlir").write_text(
        "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n"
        "  %0 = stablehlo.sine %x : tensor<f64>\n  return %0 : tensor<f64>\n}\n"
    )
    # This folder precedes the packages of the environment, in which tiduc may be installed from its sources.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    command = [sys.executable, "-m", "tiduc", "grad", "f.mlir"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "stablehlo.cosine" in ended.stdout


def test_the_workflow_runs_the_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = [
        line.removeprefix("      - run: ") for line in WORKFLOW.read_text().splitlines() if "- run: " in line
    ]
    on_older_cpus = "sh test/run"
    assert commands == ["sh examples/run", "sh test/run", on_older_cpus, "sh .ci/run"]
    assert all(f"\n{command} " in readme for command in commands[:2])
