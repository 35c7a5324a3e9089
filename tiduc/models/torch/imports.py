"""Keeps programs of `.pt2` files in the cache: a second import of a program loads neither PyTorch nor torch-mlir.

    key   = digest of (program, descriptions of its arrays, sizes of the parts, PyTorch, torch-mlir, tiduc's sources)
    entry = descriptions of the arrays, a digest of the constants' bytes, StableHLO with the names of its weights

An entry holds no weights: files with equal programs and other weights share it. Entries are pickles. The cache reads
only files that no other user can write (`runtime/cache.py`), because the folder holds machine code, too.
"""

import functools
import json
import os
import pickle
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from tiduc.models.torch import archive
from tiduc.models.torch.exported import Exported
from tiduc.models.torch.payloads import Payloads, documents
from tiduc.runtime import cache

_PACKAGES = "torch", "torch-mlir", "sympy"
"""The packages whose versions determine the StableHLO of a program."""


class Import(NamedTuple):
    """The arrays of an archive, and its program as StableHLO, with the names of its weights."""

    payloads: Payloads
    exported: Exported


def key_of(parts: Mapping[str, bytearray]) -> str | None:
    """The key of an archive's program. None if the installed packages do not say which files they have."""
    packages = _packages()
    if packages is None:
        return None
    described = documents(parts)
    sizes = {name: len(contents) for name, contents in parts.items()}
    names = json.dumps([sys.version, _sources(), [*described], sizes]).encode()
    return cache.key_of([*packages, names, parts[archive.MODEL], *described.values()])


def read(key: str, parts: Mapping[str, bytearray]) -> Import | None:
    """The import of this key. None if it is missing, or if its constants are not those of the archive."""
    entry = cache.read(key, cache.IMPORT)
    if entry is None:
        return None
    payloads, constants, exported = pickle.loads(entry)
    found = Import(payloads, exported)
    return found if constants == _digest(constants_in(parts, found.payloads)) else None


def write(key: str, parts: Mapping[str, bytearray], found: Import) -> None:
    """Adds an import to the cache."""
    constants = _digest(constants_in(parts, found.payloads))
    cache.write(key, pickle.dumps((found.payloads, constants, found.exported), protocol=5), cache.IMPORT)


def constants_in(parts: Mapping[str, bytearray], payloads: Payloads) -> dict[str, bytearray]:
    """The parts whose bytes the program may contain: the parts of all arrays except float weights."""
    held = [each for each in payloads.weights.values() if not each.is_float]
    return {each.part: parts[each.part] for each in (*payloads.constants.values(), *held)}


def _digest(contents: Mapping[str, bytearray]) -> str:
    digest = sha256()
    for name in sorted(contents):
        digest.update(sha256(name.encode()).digest() + sha256(contents[name]).digest())
    return digest.hexdigest()


@functools.cache
def _packages() -> tuple[bytes, ...] | None:
    """The lists of files of the packages, with a hash of each file. None if a package has no such list."""
    try:
        records = [distribution(name).read_text("RECORD") for name in _PACKAGES]
    except PackageNotFoundError:
        return None
    found = tuple(record.encode() for record in records if record is not None)
    return found if len(found) == len(_PACKAGES) else None


@functools.cache
def _sources() -> list[tuple[str, int, int]]:
    """The names, sizes and times of tiduc's Python files, which change while tiduc is developed."""
    root = Path(__file__).parents[2]
    files = (
        os.path.join(folder, name)
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
        if name.endswith(".py")
    )
    stats = ((os.path.relpath(file, root), os.stat(file)) for file in sorted(files))
    return [(name, status.st_size, status.st_mtime_ns) for name, status in stats]
