"""Checkpoints: files from which an interrupted training run continues with the results of an uninterrupted run.

A checkpoint is a safetensors file with the training state. Its metadata entry `tiduc.run` holds the position of the
run. A new checkpoint is written to another file, which then replaces the old checkpoint. A run that is killed therefore
leaves a complete checkpoint.
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
"""The key of the position of the run in the metadata of a checkpoint."""


@dataclass(frozen=True)
class Position:
    """The position of a run: the numbers of completed steps and epochs, the least validation loss, and the settings.

    `bytes` is the length of the file of metrics, and `total` is the sum of the losses of the current epoch's steps. The
    settings are `seed`, the batch size `batch`, the checksum `data` of the data, and `rates`, which is a hash of the
    learning rates of the completed steps.
    """

    step: int = 0
    epoch: int = 0
    best: float | None = None
    bytes: int = 0
    total: float = 0.0
    seed: int = 0
    batch: int = 0
    data: int = 0
    rates: str = ""


class RateDigest:
    """A hash of the learning rates of the completed steps, initially of the first `steps` rates of a schedule."""

    def __init__(self, schedule: Schedule, steps: int) -> None:
        self._digest = hashlib.sha256()
        for i in range(steps):
            self.add(schedule(i))

    def add(self, rate: float) -> None:
        """Adds the learning rate of the next step to the hash."""
        self._digest.update(np.float32(rate).tobytes())

    def __str__(self) -> str:
        return self._digest.hexdigest()[:16]


def checksum(*data: Mapping[str, Array]) -> int:
    """Returns the CRC-32 of the names and the bytes of arrays, in order."""
    crc = 0
    for arrays in data:
        for name, array in arrays.items():
            crc = zlib.crc32(name.encode("utf-8", "surrogateescape"), crc)
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return crc


def check_name(path: str | os.PathLike[str]) -> None:
    """Raises `RequestError` if the path of a checkpoint does not end in `.safetensors`."""
    if not os.fspath(path).endswith(".safetensors"):
        raise RequestError("a checkpoint is a .safetensors file", os.fspath(path))


def write_checkpoint(
    path: str | os.PathLike[str], state: Mapping[str, Array], position: Position, notes: Mapping[str, str]
) -> None:
    """Writes a checkpoint. It replaces an old checkpoint at `path` only after all bytes are written.

    `notes` are further entries of the file's metadata.
    """
    write_weights(path, state, {**notes, RUN: json.dumps(asdict(position))})


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Array], Position]:
    """Returns the state in a checkpoint, and the position of the run.

    Raises `InputError` if the file is not a checkpoint.
    """
    state = read_weights(path)
    try:
        position = Position(**json.loads(notes_in(path)[RUN]))
    except (KeyError, TypeError, ValueError):
        raise InputError("the file is not a checkpoint of a run", os.fspath(path)) from None
    return state, position


def check_same(position: Position, wanted: Position, path: str | os.PathLike[str]) -> None:
    """Raises `RequestError` if the settings in `position`, which a checkpoint has, differ from those in `wanted`."""
    settings = {"seed": "seed", "batch": "size of a batch", "data": "data set", "rates": "schedule of rates"}
    for name, words in settings.items():
        if getattr(position, name) != getattr(wanted, name):
            message = f"the checkpoint is of a run with another {words}; to begin anew, remove the file"
            raise RequestError(message, os.fspath(path))
