"""tiduc's version without an installation, and the warning if IREE's version is not the one with which tiduc was
tested.
"""

import re
import subprocess
import sys
import warnings
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import tiduc
from tiduc import version as own
from tiduc.backends.iree import versions
from tiduc.backends.iree.fault import SEEN
from tiduc.dialect.errors import TiducWarning

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    installed = tiduc.__version__
    monkeypatch.setattr(own, "version_of_package", missing)
    assert own.version.__wrapped__() == installed


def test_the_installed_version_of_iree_is_that_of_the_records() -> None:
    """The installed IREE has the recorded version.

    If this test fails, docs/iree_versions.md lists the steps to take.
    """
    versions.warn_of_another_version.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.warn_of_another_version()


@pytest.mark.parametrize(
    "installed, message", [("3.12.0", f"3.12.0 is installed, .* tested with {SEEN}"), (None, "")]
)
def test_another_version_warns_once(
    installed: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(package: str) -> str:
        if installed is None:  # a build of IREE that is not installed by pip
            raise PackageNotFoundError(package)
        return installed if package == "iree-base-compiler" else SEEN

    monkeypatch.setattr(versions, "version", found)
    versions.warn_of_another_version.cache_clear()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        versions.warn_of_another_version()
        versions.warn_of_another_version()
    versions.warn_of_another_version.cache_clear()
    assert [warning.category for warning in raised] == [TiducWarning] * bool(message)
    assert all(re.search(message, str(warning.message)) for warning in raised)


def test_prose(tmp_path: Path) -> None:
    """test/prose.py lists a sentence with a bad first word and a private word, with their lines."""
    code = '"""Of lists the first."""\n\nx = 1  # settles the loop\n"""A line."""\n'
    path = tmp_path / "example.py"
    path.write_text(code)
    command = [sys.executable, str(ROOT / "test" / "prose.py"), str(path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert [line.removeprefix(f"{path}:") for line in ended.stdout.splitlines()] == [
        "1: Of lists the first.",
        "3: settles the loop",
    ]
