"""Batches: shuffles the rows of a data set, and divides them into batches for a training step.

    {"x": 1000x4, "target": 1000} --batch 32, seed 7, epoch 0--> {"x": 32x4, "target": 32}, ...

The order of an epoch depends only on the seed and on the number of the epoch, so that a run can continue anywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiduc.dialect.errors import InputError, RequestError
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import SignatureValue


class Batches:
    """The batches of a data set for a function. The first dimension of each input in `inputs` is the batch dimension.

    `size` is the number of rows of a batch. If the batch dimension is static, its size is this number. If it is
    dynamic, the default is 32, or the number of rows if the data has fewer rows. The last batch of an epoch then has
    the remaining rows. With a static batch dimension, the remaining rows are left out. Raises `InputError` if the
    arrays do not fit the inputs. Raises `RequestError` if `size` differs from a static batch dimension, or if the
    inputs have different batch dimensions.
    """

    def __init__(
        self, data: Mapping[str, Array], inputs: Sequence[SignatureValue], size: int | None = None
    ) -> None:
        self.arrays = {x.name: _fitted(data, x) for x in inputs}
        if not self.arrays:
            raise RequestError("the function takes no data: all its inputs are in the state")
        counts = {name: len(array) for name, array in self.arrays.items()}
        if len({*counts.values()}) > 1:
            listed = ", ".join(f"{name} has {n}" for name, n in counts.items())
            raise InputError(f"the arrays have different numbers of rows: {listed}")
        self.rows = next(iter(counts.values()))
        own = {x.type.shape[0] for x in inputs}
        if len(own) > 1 or (size is not None and own not in ({None}, {size})):
            listed = ", ".join(f"{x.name}: {x.type}" for x in inputs)
            raise RequestError(f"batches of {size or 'one size'} do not fit the function's inputs, {listed}")
        known = next(iter(own))
        self.size: int = known or size or min(32, max(1, self.rows))
        self.left_out = self.rows % self.size if known else 0
        if not len(self):
            raise InputError(f"the data has {self.rows} rows, which are fewer than a batch of {self.size}")

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return ceil((self.rows - self.left_out) / self.size)

    def shuffled(self, seed: int, epoch: int, begin: int = 0) -> Iterator[dict[str, NDArray[Any]]]:
        """Yields the batches of an epoch, from number `begin` (from 0).

        `seed` and `epoch` determine the order of the rows.
        """
        order = np.random.default_rng([seed, epoch]).permutation(self.rows)
        return self._batches(order, begin)

    def in_order(self) -> Iterator[dict[str, NDArray[Any]]]:
        """Yields the batches in the order of the data."""
        return self._batches(np.arange(self.rows), 0)

    def _batches(self, order: NDArray[Any], begin: int) -> Iterator[dict[str, NDArray[Any]]]:
        for i in range(begin, len(self)):
            rows = order[i * self.size : (i + 1) * self.size]
            yield {name: array[rows] for name, array in self.arrays.items()}


def _fitted(data: Mapping[str, Array], value: SignatureValue) -> NDArray[Any]:
    """Returns the array of `data` for an input, converted to the element type of the input.

    Raises `InputError` if the data has no such array, or if its shape or elements do not fit the input.
    """
    if value.name not in data:
        raise InputError(f"the data has no array {value.name!r}; it has: {', '.join(data) or 'none'}")
    array, type_ = np.asarray(data[value.name]), value.type
    if not type_.shape:
        raise InputError(f"{value} has no dimension for the rows of a batch")
    if array.ndim != len(type_.shape) or not type_.accepts((type_.shape[0] or 0, *array.shape[1:])):
        if type_.shape[0] is not None or not type_.accepts(array.shape):
            raise InputError(
                f"the data {value.name!r} has the shape {list(array.shape)}, but batches are {type_}"
            )
    assert type_.dtype is not None
    return _converted(value.name, array, type_.dtype)


def _converted(name: str, array: NDArray[Any], dtype: "np.dtype[Any]") -> NDArray[Any]:
    """Returns the array, converted to the element type `dtype`. Floats may be rounded.

    Raises `InputError` for a conversion from floats to integers or from numbers to booleans, and if `dtype` does not
    represent the integers of the array exactly.
    """
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)  # a file of NumPy stores elements such as bf16 as bytes without a type
    integers = array.dtype.kind in "biu"
    if dtype.kind == "b" or not (integers or np.can_cast(array.dtype, dtype, "same_kind")):
        raise InputError(f"the data {name!r} has the element type {array.dtype}, and the step takes {dtype}")
    converted = array.astype(dtype)
    if integers and not np.array_equal(converted, array):
        raise InputError(f"the data {name!r} has numbers that {dtype} cannot hold")
    return converted
