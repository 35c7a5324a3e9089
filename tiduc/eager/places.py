"""Places: the cell that holds an array's value, or a part of another array's cell.

    x        Place(cell, ())            x[1:]     Place(cell, (Step of [1:],))       writes go to x's cell

Values are immutable: a write to an array makes its cell refer to another value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiduc.eager.record import EagerInput
from tiduc.eager.session import is_recording


@dataclass(eq=False, slots=True)
class PlaceStep:
    """One step from an array to a part of it.

    `read` returns the part of a value. `write` returns the value with the part replaced. `view` is NumPy's view of the
    part.
    """

    read: Callable[[EagerInput], EagerInput]
    write: Callable[[EagerInput, EagerInput], EagerInput]
    view: Callable[[Any], Any]


@dataclass(slots=True)
class _Cell:
    """A mutable reference to a value. `version` counts the writes, and `stamp` all changes of the reference."""

    value: EagerInput
    version: int = 0
    stamp: int = 0

    def put(self, value: EagerInput) -> None:
        self.value = value
        self.stamp += 1


class Place:
    """A cell, or the part of the cell that remains after all steps of `path`."""

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
        """The current value.

        A part is read again from the cell if the cell changed, or if the part was read while recording was off but its
        derivative is needed now.
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
        """The place of a part."""
        return Place(step.read(self.value), self._cell, (*self._path, step))

    def has_view(self, step: PlaceStep) -> bool:
        """Whether NumPy would return a view for this step if the cell held a contiguous NumPy array."""
        whole: Any = np.empty(self._cell.value.data.shape, self._cell.value.data.dtype)
        for done in self._path:
            whole = done.view(whole)
        return bool(np.may_share_memory(whole, step.view(whole)))

    def replace(self, value: EagerInput) -> None:
        """Replaces the value of the whole cell by another value with the same elements."""
        self._cell.put(value)

    def assign(self, new: EagerInput) -> None:
        """Writes a value of the same shape and type to the place.

        While recording is off, a leaf remains a leaf, so that an optimizer can update a parameter.
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
