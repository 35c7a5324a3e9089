"""Checkpoints: a state in the middle of a run, from which a killed run continues as if it had not been killed.

A checkpoint is a safetensors file of the state. Its note `tiduc.run` holds the position of the run. A new checkpoint is
written to another file, which then replaces the old checkpoint. A killed run therefore leaves a complete checkpoint.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from tiduc.dialect.errors import InputError, RequestError
from tiduc.runtime.arrays import Array
from tiduc.runtime.weights import notes_in, read_weights, write_weights
from tiduc.training.schedules import Schedule

RUN = "tiduc.run"
"""The key of the note in a checkpoint that has the position of the run."""


@dataclass(frozen=True)
class Position:
    """The position of a run: the numbers of completed steps and epochs, the best validation loss, and the settings.

    `bytes` is the length of the file of metrics. `rates` is a hash of the learning rates of the completed steps.
    """

    step: int = 0
    epoch: int = 0
    best: float | None = None
    bytes: int = 0
    total: float = 0.0  # the sum of the losses of this epoch's steps
    seed: int = 0
    batch: int = 0
    data: int = 0
    rates: str = ""


class RateDigest:
    """A hash of the learning rates of the steps so far."""

    def __init__(self, schedule: Schedule, steps: int) -> None:
        self._digest = hashlib.sha256()
        for i in range(steps):
            self.add(schedule(i))

    def add(self, rate: float) -> None:
        """Adds the rate of the next step."""
        self._digest.update(np.float32(rate).tobytes())

    def __str__(self) -> str:
        return self._digest.hexdigest()[:16]


def checksum(*data: Mapping[str, Array]) -> int:
    """A checksum of arrays."""
    crc = 0
    for arrays in data:
        for name, array in arrays.items():
            crc = zlib.crc32(name.encode("utf-8", "surrogateescape"), crc)
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return crc


def check_name(path: str | os.PathLike[str]) -> None:
    """Raises `RequestError` unless the name of a file for a checkpoint ends in `.safetensors`."""
    if not os.fspath(path).endswith(".safetensors"):
        raise RequestError("a checkpoint is a .safetensors file", os.fspath(path))


def write_checkpoint(
    path: str | os.PathLike[str], state: Mapping[str, Array], position: Position, notes: Mapping[str, str]
) -> None:
    """Writes a checkpoint. The file replaces an old checkpoint when all bytes are written."""
    write_weights(path, state, {**notes, RUN: json.dumps(asdict(position))})


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Array], Position]:
    """The state in a checkpoint, and the position of the run. Raises `InputError` for any other file."""
    state = read_weights(path)
    try:
        position = Position(**json.loads(notes_in(path)[RUN]))
    except (KeyError, TypeError, ValueError):
        raise InputError("the file is not a checkpoint of a run", os.fspath(path)) from None
    return state, position


def check_same(position: Position, wanted: Position, path: str | os.PathLike[str]) -> None:
    """Raises `RequestError` if a checkpoint's settings differ from the settings of `wanted`."""
    settings = {"seed": "seed", "batch": "size of a batch", "data": "data set", "rates": "schedule of rates"}
    for name, words in settings.items():
        if getattr(position, name) != getattr(wanted, name):
            message = f"the checkpoint is of a run with another {words}; to begin anew, remove the file"
            raise RequestError(message, os.fspath(path))
