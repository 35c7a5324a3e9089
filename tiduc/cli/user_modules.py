"""Reads variables of a user's Python module or file, for the options `--rules` and `--load-passes`."""

import os
import sys
import traceback
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tiduc.dialect.errors import RequestError, RuleError, TiducError


def named_value(where: str, default: str) -> tuple[str, Any, str]:
    """Returns the module's name, the value and the variable's name for `MODULE:NAME` or `FILE.py:NAME`.

    Without `:NAME`, the variable is `default`. The value is None if the module has no such variable. Raises
    `RequestError` if the module does not exist, and `RuleError`, with the line, if the user's code raises.
    """
    module_name, _, name = where.partition(":")
    try:
        module = _of_file(module_name) if module_name.endswith(".py") else _of_module(module_name)
    except (TiducError, MemoryError):
        raise
    except Exception as error:
        message, place = f"{type(error).__name__}: {error}", module_name
        if isinstance(error, SyntaxError) and error.filename is not None:
            message, place = f"{type(error).__name__}: {error.msg}", f"{error.filename}:{error.lineno}"
        elif value := raised_at(error):
            place = value
        raise RuleError(message, place) from error
    name = name or default
    return module_name, getattr(module, name, None), name


def raised_at(error: Exception) -> str | None:
    """Returns `file:line` of the innermost frame of a traceback that belongs neither to tiduc nor to Python's import
    system.

    Returns None if there is no such frame.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[1])
    places = [frame for frame in frames if not frame.filename.startswith((ours, "<frozen"))]
    return f"{places[-1].filename}:{places[-1].lineno}" if places else None


def _of_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise RequestError(f"file not found: {path}")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _of_module(name: str) -> ModuleType:
    """Imports a module, which may be in the working directory. Raises `RequestError` if the module does not exist."""
    if not name or name.startswith("."):
        raise RequestError(f"module not found: the name {name!r} is relative, but no package contains it")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        raise RequestError(f"module not found: {name}") from None
    finally:
        sys.path.remove(here)
