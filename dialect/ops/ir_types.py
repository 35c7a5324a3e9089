"""Names for types of MLIR's bindings, for signatures.

In the bindings, each type and attribute is an object of its own class, such as `RankedTensorType`. A type checker knows
only the base class, so signatures use the names below.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from torch_mlir import ir

IrValue = ir.Value[Any]
"""A value of MLIR: the result of an operation, or the argument of a block."""

IrOp = ir.Operation | ir.OpView
"""An operation of MLIR, possibly as the view that its dialect defines for it."""

Attributes = Mapping[str, ir.Attribute]
"""Attributes by name, to create an operation with."""


class AnyModule(Protocol):
    """An `ir.Module`, or the op view of a module. A pass receives the latter."""

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
