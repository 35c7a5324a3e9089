"""The read-only part of an eager array's interface: attributes and conversions."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Elements:
    """The attributes and conversions of NumPy's arrays, from the elements in `data`.

    Conversions to numbers go through `__array__`, which refuses an array that requires grad.
    """

    @property
    def data(self) -> NDArray[Any]:
        """The elements."""
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
