"""Names for the classes of MLIR's bindings, for use in annotations.

The bindings return each type and attribute as an object of a subclass, such as `RankedTensorType`, but their stubs
declare only the base class. Annotations therefore use the names below.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from torch_mlir import ir

IrValue = ir.Value[Any]
"""A value of MLIR: the result of an operation, or the argument of a block."""

IrOp = ir.Operation | ir.OpView
"""An MLIR operation, or its op view, an object of the Python class for this kind of operation."""

Attributes = Mapping[str, ir.Attribute]
"""Maps names to attributes. Functions that create operations take such a map."""


class AnyModule(Protocol):
    """An `ir.Module`, or the op view of a module. A pass in Python receives the op view."""

    @property
    def body(self) -> ir.Block: ...
    @property
    def operation(self) -> ir.Operation: ...


class Typed(Protocol):
    """A value with a type: a `Value` of a graph, or an `IrValue`."""

    @property
    def type(self) -> Any: ...


class AnyOp(Protocol):
    """An op: a `Definition` of a graph, or an `IrOp`."""

    @property
    def name(self) -> str: ...
    @property
    def attributes(self) -> Any: ...
    @property
    def operands(self) -> Any: ...
    @property
    def results(self) -> Any: ...
    @property
    def result(self) -> Any: ...
    @property
    def location(self) -> ir.Location: ...
