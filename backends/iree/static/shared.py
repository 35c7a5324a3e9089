"""Reads the files of C code that all static libraries contain."""

from importlib.resources import files


def shared(file: str) -> str:
    """The text of a file in the folder backends/iree/static."""
    return files("tiduc.backends.iree.static").joinpath(file).read_text(encoding="utf-8")
