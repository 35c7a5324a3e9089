"""`Emits`: the methods that all emitters have, whether they emit graph records or MLIR operations.

    Emits[V, N]             emit, emit_all, size                 the protocol
      Elementwise[V, N]     add, multiply, compare, ...          methods that emit one op each
        StablehloOps[V, N]  reshape, reduce, dot_general, ...
    Builder                 emits records into a graph           implementations of the protocol
    IrEmitter               emits MLIR operations at an insertion point

Most rules and passes take one kind of emitter. `StablehloBuilder` emits `Value`s of a graph. `IrEmitter` emits
`IrValue`s, and also accepts Python numbers as operands. A function for both kinds takes `StablehloOps[V, Never]`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.ops.ir_types import Attributes, Typed
from tiduc.dialect.shapes.sizes import Extent

V = TypeVar("V", bound=Typed)
"""The type of the values that an emitter emits."""

N = TypeVar("N", contravariant=True)
"""The type of operands that are not of type V: `float` for an emitter that accepts numbers, otherwise `Never`."""

Dims = Sequence[int] | NDArray[np.int64]
"""A list of integers, such as indices of dimensions, or one start index for each dimension."""

Fill = Callable[[ir.Region], None]
"""A function that fills a region of a new op."""


class Emits(Protocol[V, N]):
    """An emitter of ops. `constants` holds the emitted constants, so that each constant is emitted only once."""

    constants: dict[Any, V]
    location: ir.Location

    @abstractmethod
    def emit(
        self,
        name: str,
        operands: Sequence[V | N],
        type_: ir.Type,
        attributes: Attributes | None = None,
    ) -> V:
        """Emits an op of one result and no regions, and returns the result."""

    @abstractmethod
    def emit_all(
        self,
        name: str,
        operands: Sequence[V | N],
        types: Sequence[ir.Type],
        attributes: Attributes | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[V, ...]:
        """Emits an op and returns its results. Each function in `regions` fills one region, which captures nothing."""

    @abstractmethod
    def size(self, n: Extent) -> V:
        """A size as an i32 scalar."""
