"""Searches among the ops that compute a value."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from torch_mlir import ir

_T = TypeVar("_T")


def reached(starts: Iterable[_T], following: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """Yields each start and everything that `following` leads to from there, once, in no particular order."""
    waiting, seen = list(starts), set[_T]()
    while waiting:
        x = waiting.pop()
        if x not in seen:
            seen.add(x)
            yield x
            waiting += following(x)


def operands_of(x: Any) -> Iterable[Any]:
    """The operands of the op that computes a value; none for a block argument."""
    return x.owner.operands if isinstance(x, ir.OpResult) else ()


def computed_from(x: Any, wanted: Callable[[Any], bool], through: Callable[[Any], bool]) -> bool:
    """Whether a value is computed from an op for which `wanted` holds, by way of ops for which `through` holds."""
    before = reached([x], lambda y: operands_of(y) if isinstance(y, ir.OpResult) and through(y.owner) else ())
    return any(isinstance(y, ir.OpResult) and wanted(y.owner) for y in before)


def is_constant(x: Any) -> bool:
    """Whether a value is computed from constants alone, by ops without regions."""
    return all(
        isinstance(y, ir.OpResult)
        and not len(y.owner.regions)
        and (len(y.owner.operands) or y.owner.name == "stablehlo.constant")
        for y in reached([x], operands_of)
    )
