"""Arrays that are split among devices: the interfaces of JAX's types, and arguments that are read by parts."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import checked
from tiduc.runtime.signature import SignatureValue, TypedArray

Slices = tuple[slice, ...]
Reader = Callable[[Slices], ArrayLike]
"""A function that returns the part of an array at these slices, one for each dimension. It stands for the array."""


class Sharding(Protocol):
    """The interface of `jax.sharding.Sharding`: which part of an array each device holds."""

    @property
    def device_set(self) -> Collection[object]: ...
    @property
    def is_fully_replicated(self) -> bool: ...


class Shard(Protocol):
    """The part of an array that one device holds: `data` is the array's part at `index`."""

    @property
    def index(self) -> Slices: ...
    @property
    def data(self) -> Array: ...
    @property
    def replica_id(self) -> int: ...


class ShardedArray(TypedArray, Protocol):
    """The interface of `jax.Array`. `addressable_shards` are the shards on the devices of this process."""

    @property
    def sharding(self) -> Sharding: ...
    @property
    def addressable_shards(self) -> Sequence[Shard]: ...
    @property
    def is_fully_addressable(self) -> bool: ...
    @property
    def is_fully_replicated(self) -> bool: ...
    def __array__(self) -> Array: ...


class ReadByParts:
    """An argument that a function returns by parts. Each part is checked when it is read."""

    def __init__(self, read: Reader, value: SignatureValue, index: int) -> None:
        self.shape = tuple([size or 0 for size in value.type.shape])
        self.dtype = value.type.dtype or np.dtype(
            np.void
        )  # reading raises an error for a type that NumPy lacks
        self._read, self._value, self._index = read, value, index

    def __getitem__(self, part: Slices) -> Array:
        """The part at these slices. Raises `InputError` if the function returns another shape or dtype."""
        sizes = [len(range(*at.indices(size))) for at, size in zip(part, self.shape, strict=True)]
        expected = replace(self._value, type=replace(self._value.type, shape=tuple(sizes)))
        return checked(self._read(part), expected, self._index)

    def whole(self) -> Array:
        """The complete array."""
        return self[tuple([slice(0, size) for size in self.shape])]


def is_reader(argument: ArrayLike | Reader) -> TypeGuard[Reader]:
    """Whether an argument is a function that returns parts of an array, rather than an array or a number."""
    return callable(argument) and not hasattr(argument, "__array__")
