"""`Place`: refers to the mutable cell that holds an array's value, or to a part of the value in a cell.

    x        Place(cell, ())            x[1:]     Place(cell, (step of [1:],))       both use the cell of x

Values are immutable. A write to an array, or to a view of the array, makes its cell refer to another value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiduc.eager.record import EagerInput
from tiduc.eager.session import is_recording


@dataclass(eq=False, slots=True)
class PlaceStep:
    """Selects a part of an array.

    `read(x)` returns the part of a value x. `write(x, new)` returns x with the part replaced by `new`. `view(a)`
    returns NumPy's view of the part of a NumPy array.
    """

    read: Callable[[EagerInput], EagerInput]
    write: Callable[[EagerInput, EagerInput], EagerInput]
    view: Callable[[Any], Any]


@dataclass(slots=True)
class _Cell:
    """A mutable reference to a value. `version` counts writes, and `stamp` counts all changes of the reference."""

    value: EagerInput
    version: int = 0
    stamp: int = 0

    def put(self, value: EagerInput) -> None:
        self.value = value
        self.stamp += 1


class Place:
    """Refers to the value in a cell, or to the part of this value that the steps of `path` select in turn."""

    __slots__ = ("_cell", "_part", "_path", "_seen")

    def __init__(
        self, value: EagerInput, cell: _Cell | None = None, path: tuple[PlaceStep, ...] = ()
    ) -> None:
        self._cell = cell if cell is not None else _Cell(value)
        self._path = path
        self._part, self._seen = value, self._cell.stamp

    @property
    def is_part(self) -> bool:
        return bool(self._path)

    @property
    def version(self) -> int:
        """The number of writes to the cell."""
        return self._cell.version

    @property
    def value(self) -> EagerInput:
        """The current value of the cell, or the current value of the part.

        A part is cached. It is read from the cell again if the cell has changed, or if the cached part was read without
        recording but recording is on now.
        """
        cell = self._cell
        is_lost = cell.value.requires_grad and not self._part.requires_grad and is_recording()
        if self._seen != cell.stamp or (is_lost and self._path):
            self._part = cell.value
            for step in self._path:
                self._part = step.read(self._part)
            self._seen = cell.stamp
        return self._part

    def part(self, step: PlaceStep) -> "Place":
        """A reference to the part that `step` selects."""
        return Place(step.read(self.value), self._cell, (*self._path, step))

    def has_view(self, step: PlaceStep) -> bool:
        """Whether NumPy would return a view, and not a copy, if the cell held a contiguous NumPy array."""
        whole: Any = np.empty(self._cell.value.data.shape, self._cell.value.data.dtype)
        for done in self._path:
            whole = done.view(whole)
        return bool(np.may_share_memory(whole, step.view(whole)))

    def replace(self, value: EagerInput) -> None:
        """Replaces the value of the whole cell by another value with the same elements."""
        self._cell.put(value)

    def assign(self, new: EagerInput) -> None:
        """Replaces the current value, or the part, by `new`, which must have the same shape and type.

        If recording is off, an array that is a leaf remains a leaf, so that an optimizer can update a parameter.
        """
        cell = self._cell
        wholes = [cell.value]
        for step in self._path[:-1]:
            wholes.append(step.read(wholes[-1]))
        for step, whole in reversed(list(zip(self._path, wholes, strict=False))):
            new = step.write(whole, new)
        old = cell.value
        if not is_recording() and old.trace is None and old.requires_grad:
            new = EagerInput(old.key, new.data, None, True)
        cell.put(new)
        cell.version += 1
