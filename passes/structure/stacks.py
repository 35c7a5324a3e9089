"""Entries of stacks and of arrays of checkpoints: how one value is stored in an array, and read from it."""

from typing import Any

from tiduc.dialect.graph import Value
from tiduc.dialect.types import shape


def read_entry(b: Any, stack: Value, i: Value) -> Value:
    """Entry i of a stack."""
    sizes = shape(stack)[1:]
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.reshape(b.dynamic_slice(stack, start, [1, *sizes]), sizes)  # type: ignore[no-any-return]


def filled(b: Any, type_: Any, x: Value) -> Value:
    """A stack with `x` in every entry."""
    return b.broadcast_in_dim(x, range(1, 1 + len(shape(x))), type_)  # type: ignore[no-any-return]


def write_entry(b: Any, stack: Value, x: Value, i: Value) -> Value:
    """The stack with `x` as entry i."""
    sizes = shape(x)
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.dynamic_update_slice(stack, b.reshape(x, [1, *sizes]), start)  # type: ignore[no-any-return]
