"""The read-only part of an eager array's interface: attributes and conversions."""

import sys
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Elements:
    """Attributes and conversions with the names that NumPy's arrays use. They read the elements in `data`.

    `float`, `int` and `complex` call `__array__`, which raises an error for an array that requires grad. `item`,
    `tolist` and `bool` read `data` directly.
    """

    @property
    def data(self) -> NDArray[Any]:
        """The elements as a read-only NumPy array."""
        raise NotImplementedError

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.data.shape
        return shape

    @property
    def dtype(self) -> "np.dtype[Any]":
        dtype: np.dtype[Any] = self.data.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(self.data.size)

    @property
    def device(self) -> str:
        """The device that holds the elements. It is always `cpu`, even if an executor computes on another device."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Self:
        """The array itself. Raises `ValueError` for a device other than `cpu`."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"the elements of eager arrays are on the cpu, not on {device!r}")
        return self

    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        """The module `tiduc.eager.array_api`. Raises `ValueError` for an unknown version of the standard."""
        namespace = sys.modules["tiduc.eager.array_api"]
        if api_version not in (None, *namespace.VERSIONS):
            raise ValueError(
                f"version {api_version} of the Array API standard is not one of {namespace.VERSIONS}"
            )
        return namespace

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule with a copy of the elements. Raises `BufferError` if `copy` is False.

        Raises `RequestError` if the array requires grad and recording is on, because the copy has no derivative.
        """
        if copy is False:
            raise BufferError(
                "DLPack must copy an eager array, because other libraries could write to its elements"
            )
        return np.array(self.__array__()).__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("an array without dimensions has no length")
        return int(self.shape[0])

    def item(self) -> Any:
        return self.data.item()

    def tolist(self) -> Any:
        return self.data.tolist()

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__())

    def __complex__(self) -> complex:
        return complex(self.__array__())

    def __index__(self) -> int:
        return int(self.data.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.item() if not self.ndim else str(self), spec)
