"""Defines `version`, the version of tiduc."""

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of_package
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@cache
def version() -> str:
    """Returns the version of the installed package.

    If tiduc is not installed, returns the version in pyproject.toml.
    """
    try:
        return version_of_package("tiduc")
    except PackageNotFoundError:
        project: str = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"]
        return project
