"""The C code that all static libraries share."""

from importlib.resources import files


def shared(file: str) -> str:
    """The text of a file of this folder."""
    return files("tiduc.backends.iree.static").joinpath(file).read_text(encoding="utf-8")
