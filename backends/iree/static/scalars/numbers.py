"""ScalarOps: the scalar ops of a program. Equal ops are one op, and ops on constants are computed.

    mul(x, 1) -> x      add(x, neg(y)) -> sub(x, y)      mul(neg(x), y) -> neg(mul(x, y))      mul(x, zero) -> zero

The last rule holds for `zero` alone, a zero of the structure of a derivative: an element of a basis vector, or padding
of a tangent. A product of a zero that the program has as a number is computed, since x may be infinite or NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

CONSTANT, INPUT, ZERO = "constant", "input", "zero"

_FOLDED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "negate": np.negative,
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_FOLDED_FLOATS: dict[str, Callable[..., Any]] = {
    "divide": np.divide,
    "sqrt": np.sqrt,
    "sine": np.sin,
    "cosine": np.cos,
    "tanh": np.tanh,
    "exponential": np.exp,
    "log": np.log,
}
"""How ops on constants are computed."""

UNARY = frozenset("negate abs sqrt sine cosine tanh exponential log".split())
BINARY = frozenset("add subtract multiply divide maximum minimum power".split())
COMPARISONS = frozenset("EQ NE LT LE GT GE".split())
CALLS = frozenset("sine cosine tanh exponential log power".split())
"""The ops that call the C library."""


class TooLarge(Exception):
    """Raised if a program has too many scalar ops, or an op that is not one of scalars."""


class ScalarOp(NamedTuple):
    """A scalar op: its name, the element type of its result, and its operands.

    The operand of a constant is its value; those of an input are the input's and the element's numbers.
    """

    name: str
    kind: str
    operands: tuple[Any, ...]


KINDS = {
    "f64": np.float64,
    "f32": np.float32,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
}
KINDS["i64"] = np.int64


class ScalarOps:
    """All scalar ops, each by its index."""

    def __init__(self, most: int) -> None:
        self.all: list[ScalarOp] = []
        self._most = most
        self._index: dict[ScalarOp, int] = {}

    def constant(self, value: float | np.generic, kind: str) -> int:
        # The bytes tell apart 0 and -0, and NaN equals itself.
        array: Any = np.asarray(value, KINDS[kind])
        return self._of(ScalarOp(CONSTANT, kind, (array.tobytes(),)))

    def input(self, which: int, element: int, kind: str) -> int:
        return self._of(ScalarOp(INPUT, kind, (which, element)))

    def zero(self, kind: str) -> int:
        return self._of(ScalarOp(ZERO, kind, ()))

    def value(self, i: int) -> np.generic | None:
        """The value of a constant; None for other numbers."""
        number = self.all[i]
        if number.name not in (CONSTANT, ZERO):
            return None
        data = number.operands[0] if number.name == CONSTANT else bytes(8)
        found: np.generic = np.frombuffer(data, KINDS[number.kind])[0]
        return found

    def is_zero(self, i: int) -> bool:
        """Whether a number is a zero of the structure."""
        return self.all[i].name == ZERO

    def apply(self, name: str, kind: str, *operands: int) -> int:
        """The number that an op computes."""
        if name == "convert" and self.all[operands[0]].kind == kind:
            return operands[0]
        found = self._short(name, operands)
        if found is not None:
            return found
        values = [value for value in map(self.value, operands) if value is not None]
        if len(values) == len(operands):
            return self._folded(name, kind, values)
        if name not in UNARY | BINARY | COMPARISONS | {"select", "convert"}:
            raise TooLarge(name)
        of = self.all[operands[-1]].kind
        if name == "convert" and kind not in ("f64", "f32"):
            raise TooLarge(f"a conversion to {kind}")
        if of not in ("f64", "f32") or (of == "f32" and name in CALLS):
            raise TooLarge(f"{name} of {of}")
        if name in ("add", "multiply"):
            operands = (min(operands), max(operands))
        return self._of(ScalarOp(name, kind, operands))

    def _of(self, number: ScalarOp) -> int:
        found = self._index.get(number)
        if found is None:
            found = self._index[number] = len(self.all)
            self.all.append(number)
            if found >= self._most:
                raise TooLarge(f"{found} scalar ops")
        return found

    def _folded(self, name: str, kind: str, values: Sequence[np.generic]) -> int:
        with np.errstate(all="ignore"):
            if name == "select":
                return self.constant(values[1] if values[0] else values[2], kind)
            if name == "convert":
                return self._converted(values[0], kind)
            fold = _FOLDED.get(name)
            if fold is None and kind in ("f64", "f32"):
                fold = _FOLDED_FLOATS.get(name)
            if fold is None:
                raise TooLarge(f"{name} of constants")
            return self.constant(fold(*values), kind)

    def _converted(self, value: np.generic, kind: str) -> int:
        if isinstance(value, np.floating) and kind not in ("f64", "f32"):
            raise TooLarge("a conversion of a float to an integer")
        return self.constant(value, kind)

    def _short(self, name: str, operands: Sequence[int]) -> int | None:
        """An equal number without this op, if there is one."""
        x, *rest = operands
        if name == "negate":
            return self._negated(x)
        if name == "select":
            chosen = self.value(x)
            if chosen is not None:
                return rest[0] if chosen else rest[1]
            return rest[0] if rest[0] == rest[1] else None
        if name not in ("add", "subtract", "multiply", "divide") or self.all[x].kind not in ("f64", "f32"):
            return None
        return getattr(self, f"_{name}")(x, rest[0])  # type: ignore[no-any-return]

    def _negated(self, x: int) -> int | None:
        if self.is_zero(x):
            return x
        of = self.all[x]
        return of.operands[0] if of.name == "negate" else None

    def _add(self, x: int, y: int) -> int | None:
        if self.is_zero(x) or self.is_zero(y):
            return y if self.is_zero(x) else x
        for a, b in ((x, y), (y, x)):
            if self.all[b].name == "negate":
                return self.apply("subtract", self.all[x].kind, a, self.all[b].operands[0])
        return None

    def _subtract(self, x: int, y: int) -> int | None:
        if self.is_zero(y):
            return x
        if self.is_zero(x):
            return self.apply("negate", self.all[y].kind, y)
        if self.all[y].name == "negate":
            return self.apply("add", self.all[x].kind, x, self.all[y].operands[0])
        return None

    def _multiply(self, x: int, y: int) -> int | None:
        kind = self.all[x].kind
        for a, b in ((x, y), (y, x)):
            if self.is_zero(a):
                return a
            if self.value(a) == 1:
                return b
            if self.value(a) == -1:
                return self.apply("negate", kind, b)
            if self.all[a].name == "negate":
                return self.apply("negate", kind, self.apply("multiply", kind, self.all[a].operands[0], b))
        return None

    def _divide(self, x: int, y: int) -> int | None:
        if self.is_zero(x) or self.value(y) == 1:
            return x
        kind = self.all[x].kind
        for i, a in enumerate((x, y)):
            if self.all[a].name == "negate":
                inner = self.all[a].operands[0]
                pair = (x, inner) if i else (inner, y)
                return self.apply("negate", kind, self.apply("divide", kind, *pair))
        return None
