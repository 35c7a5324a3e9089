"""Signatures of custom calls, and checks of calls against them.

A signature gives the types of operands and results, with letters for sizes:

    "T[m n] -> T[m n] i32[k] i32[]"     the factors of an m by n matrix, k pivots, and one integer per matrix

All operands and results share leading batching dimensions, which a signature omits. A type without brackets is a
scalar without batching dimensions. "|" separates alternatives.

    elements    T: any float or complex type; R: a float type; C: a complex type; E: any type
    sizes       k: min(m, n); u: m or k; v: n or k; r: at most k; s: at most n; n-1: n - 1, at least 0;
                p: m, or n if the call applies its matrix from the right; other letters: any size

The element type of the first such operand determines the others: if T is complex<f32>, R is f32. A letter for a size
denotes one size throughout a call, except u and v. A dynamic size matches every size.
"""

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.shapes.origins import DYNAMIC, sizes_in

_TYPE = re.compile(r"(\w+)(?:\[([^\]]*)\])?")


@dataclass(frozen=True)
class Shape:
    """The type of an operand or a result. `sizes` is None for a scalar without batching dimensions."""

    element: str
    sizes: tuple[str, ...] | None


Position = tuple[Shape, ...]
"""The alternatives for one operand or result."""


@functools.cache
def positions(signature: str) -> tuple[tuple[Position, ...], tuple[Position, ...]]:
    """Parses a signature. Returns the alternatives for each operand, and those for each result."""
    operands, results = signature.split("->")
    return _positions(operands), _positions(results)


def _positions(text: str) -> tuple[Position, ...]:
    return tuple(
        tuple(
            Shape(name, None if sizes is None else tuple(sizes.split()))
            for name, sizes in (_TYPE.fullmatch(one).groups() for one in alternatives.split("|"))  # type: ignore[union-attr]
        )
        for alternatives in re.findall(r"(?:\w+(?:\[[^\]]*\])?\|?)+", text)
    )


def contradiction(signature: str, op: AnyOp, from_right: bool = False) -> str | None:
    """Says how a call contradicts a signature; None if the call's operands and results match the signature.

    `from_right` says that the call applies its matrix from the right. A signature does not contain operands that hold
    the shapes of results, so they are ignored.
    """
    sizes, both = _Sizes(), positions(signature)
    given = len(op.operands) - _shape_operands(op)
    for role, values, wanted in zip(("operand", "result"), (op.operands, op.results), both, strict=True):
        count = given if role == "operand" else len(values)
        if count != len(wanted):
            return f"it has {count} {role}{'s' * (count != 1)}, not {len(wanted)}"
        for i, position in enumerate(wanted):
            type_ = values[i].type
            if not isinstance(type_, ir.RankedTensorType) or not any(sizes.take(type_, s) for s in position):
                expected = " or ".join(dict.fromkeys(sizes.described(shape) for shape in position))
                return f"{role} {i} is {type_}, where {expected} is expected"
    matrix = "pq" if "p" in sizes.sizes else "mn"
    fewest = min([sizes.sizes[name] for name in matrix if name in sizes.sizes], default=0)
    if sizes.sizes.get("r", 0) > fewest:
        return f"{sizes.sizes['r']} are more than the matrix has rows or columns"
    side = sizes.sizes.get("n" if from_right else "m")
    if side is not None and sizes.sizes.get("p", side) != side:
        return f"its first operand has {sizes.sizes['p']} rows, where {side} are expected"
    return None


def _shape_operands(op: AnyOp) -> int:
    """The number of operands that hold the shapes of results."""
    name = "indices_of_shape_operands"
    return len(ir.DenseElementsAttr(op.attributes[name])) if name in op.attributes else 0


@dataclass
class _Sizes:
    """The element type, the batching dimensions and the sizes that the types matched so far determine."""

    base: Any = None
    batch: tuple[int, ...] | None = None
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, type_: ir.RankedTensorType, shape: Shape) -> bool:
        """Whether the type matches `shape`. If so, records the element type and the sizes that the type determines."""
        sizes = sizes_in(type_)
        if shape.sizes is None:
            return not sizes and self._is_of(type_.element_type, shape.element)
        at = len(sizes) - len(shape.sizes)
        if at < 0 or not self._is_of(type_.element_type, shape.element):
            return False
        if self.batch is not None and not compatible(sizes[:at], self.batch):
            return False
        before = dict(self.sizes)
        for name, size in zip(shape.sizes, sizes[at:], strict=True):
            allowed = self._allowed(name)
            if size != DYNAMIC and allowed is not None and size not in allowed:
                self.sizes = before
                return False
            if size != DYNAMIC:
                self.sizes.setdefault(name, size)
        self.batch = sizes[:at] if self.batch is None else self.batch
        if self.base is None and shape.element in "ETRC":
            self.base = type_.element_type
        return True

    def _is_of(self, type_: ir.Type, name: str) -> bool:
        expected = self._element(name)
        if expected is not None:
            return bool(type_ == expected)
        kinds = {"T": (ir.FloatType, ir.ComplexType), "R": (ir.FloatType,), "C": (ir.ComplexType,)}
        return name == "E" or isinstance(type_, kinds[name])

    def _element(self, name: str) -> Any | None:
        """The element type for a letter or a type's name. None for a letter if no type has been matched yet."""
        if name not in ("E", "T", "R", "C"):
            return ir.Type.parse(name)
        if self.base is None or name in "ET":
            return self.base
        real = self.base.element_type if isinstance(self.base, ir.ComplexType) else self.base
        return real if name == "R" else ir.ComplexType.get(real)

    def _allowed(self, name: str) -> Collection[int] | None:
        """The sizes that a letter may denote; None if it may denote any size."""
        if name in self.sizes and name not in ("u", "v"):
            return (self.sizes[name],)
        m, n = self.sizes.get("m", self.sizes.get("p")), self.sizes.get("n", self.sizes.get("q"))
        if name in ("k", "u", "v", "r"):
            if m is None or n is None:
                return None
            k = min(m, n)
            return {"k": (k,), "u": (m, k), "v": (n, k), "r": range(k + 1)}[name]
        if n is None or name not in ("n-1", "s"):
            return None
        return (max(n - 1, 0),) if name == "n-1" else range(n + 1)

    def described(self, shape: Shape) -> str:
        """The expected type as text, with letters for unknown sizes."""
        element = self._element(shape.element) or {"R": "float", "C": "complex"}.get(shape.element, "number")
        sizes = [] if shape.sizes is None else [*map(str, self.batch or ()), *map(self._size, shape.sizes)]
        return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"

    def _size(self, name: str) -> str:
        allowed = self._allowed(name)
        if allowed is None or isinstance(allowed, range):
            return name
        return "|".join(map(str, dict.fromkeys(allowed)))


def compatible(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether two shapes may be equal at run time."""
    if len(first) != len(second):
        return False
    return all(m == n or DYNAMIC in (m, n) for m, n in zip(first, second, strict=True))


_FLAGS = ("compute_uv", "full_matrices", "left", "lower", "right", "transpose", "transposed")


def wrong_setting(settings: Mapping[str, object], letters: Mapping[str, str]) -> str | None:
    """A message about the first invalid setting; None if all settings are valid.

    A setting in `_FLAGS` must be a boolean, and a setting in `letters` must be one of its letters.
    """
    for name, value in settings.items():
        if name in _FLAGS and not isinstance(value, bool):
            return f"its setting {name} is not a flag"
        if name in letters and (isinstance(value, bool) or value not in [*map(ord, letters[name])]):
            return f"its setting {name} is not one of the letters {', '.join(letters[name])}"
    return None
