"""ScalarOps: the scalar ops of a program. Merges equal ops, folds ops on constants, and simplifies ops:

    mul(x, 1) -> x      add(x, neg(y)) -> sub(x, y)      mul(neg(x), y) -> neg(mul(x, y))      mul(x, zero) -> zero

In the last rule, `zero` is a structural zero of a derivative: an element of a basis vector, or the padding of a
tangent. The rule does not hold for a constant 0 of the program, because x may be infinite or NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

CONSTANT, INPUT, ZERO = "constant", "input", "zero"
FLOATS = "f64", "f32"


class Operator(NamedTuple):
    """How an op is computed: at compile time by `fold`, and at run time by `llvm`, the name of an op of LLVM's dialect.

    If `fold` is None, the op is not supported on constants. If `llvm` is empty, the op is supported only on constants.
    `integers` says that `fold` also computes StableHLO's op on integers. `library` says that the code calls the C
    library.
    """

    fold: Callable[..., Any] | None
    llvm: str = ""
    integers: bool = True
    library: bool = False


COMPARISONS = {
    "EQ": Operator(np.equal, "oeq"),
    "NE": Operator(np.not_equal, "une"),
    "LT": Operator(np.less, "olt"),
    "LE": Operator(np.less_equal, "ole"),
    "GT": Operator(np.greater, "ogt"),
    "GE": Operator(np.greater_equal, "oge"),
}
OPERATORS = COMPARISONS | {
    "add": Operator(np.add, "fadd"),
    "subtract": Operator(np.subtract, "fsub"),
    "multiply": Operator(np.multiply, "fmul"),
    "divide": Operator(np.divide, "fdiv", integers=False),
    "negate": Operator(np.negative, "fneg"),
    "abs": Operator(np.abs, "intr.fabs"),
    "maximum": Operator(np.maximum, "intr.maximum"),
    "minimum": Operator(np.minimum, "intr.minimum"),
    "sqrt": Operator(np.sqrt, "intr.sqrt", integers=False),
    "sine": Operator(np.sin, "intr.sin", integers=False, library=True),
    "cosine": Operator(np.cos, "intr.cos", integers=False, library=True),
    "tanh": Operator(np.tanh, "intr.tanh", integers=False, library=True),
    "exponential": Operator(np.exp, "intr.exp", integers=False, library=True),
    "log": Operator(np.log, "intr.log", integers=False, library=True),
    "power": Operator(None, "intr.pow", integers=False, library=True),
    "and": Operator(np.bitwise_and),
    "or": Operator(np.bitwise_or),
    "xor": Operator(np.bitwise_xor),
    "not": Operator(np.invert),
    "select": Operator(lambda flag, x, y: x if flag else y, "select"),
}


class TooLarge(Exception):
    """Raised if a program has too many scalar ops, or an op that has no form as scalar ops."""


class ScalarOp(NamedTuple):
    """A scalar op: its name, the element type of its result, and its operands, which are indices in `ScalarOps.all`.

    The operand of a constant is instead the bytes of its value. The operands of an input are the index of the input and
    the index of the element.
    """

    name: str
    kind: str
    operands: tuple[Any, ...]


KINDS: dict[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


class ScalarOps:
    """The scalar ops of a program, at most `most`. Each op is identified by its index in `all`."""

    def __init__(self, most: int) -> None:
        self.all: list[ScalarOp] = []
        self._most = most
        self._index: dict[ScalarOp, int] = {}

    def constant(self, value: float | np.generic, kind: str) -> int:
        # Compares constants by their bytes: 0 and -0 differ, and a NaN equals itself.
        array: Any = np.asarray(value, KINDS[kind])
        return self._of(ScalarOp(CONSTANT, kind, (array.tobytes(),)))

    def input(self, which: int, element: int, kind: str) -> int:
        return self._of(ScalarOp(INPUT, kind, (which, element)))

    def zero(self, kind: str) -> int:
        return self._of(ScalarOp(ZERO, kind, ()))

    def value(self, i: int) -> np.generic | None:
        """The value of op i if it is a constant or a structural zero. None for other ops."""
        number = self.all[i]
        if number.name not in (CONSTANT, ZERO):
            return None
        data = number.operands[0] if number.name == CONSTANT else bytes(8)
        found: np.generic = np.frombuffer(data, KINDS[number.kind])[0]
        return found

    def is_zero(self, i: int) -> bool:
        """Whether op i is a structural zero."""
        return self.all[i].name == ZERO

    def apply(self, name: str, kind: str, *operands: int) -> int:
        """The index of the op `name` on these operands, or of a simpler op that is equal. Adds the op if it is new."""
        if name == "convert" and self.all[operands[0]].kind == kind:
            return operands[0]
        found = self._short(name, operands)
        if found is not None:
            return found
        values = [value for value in map(self.value, operands) if value is not None]
        if len(values) == len(operands):
            return self._folded(name, kind, values)
        of, operator = self.all[operands[-1]].kind, OPERATORS.get(name)
        if name == "convert":
            if kind not in FLOATS:
                raise TooLarge(f"a conversion to {kind}")
        elif operator is None or not operator.llvm:
            raise TooLarge(name)
        if of not in FLOATS or (of == "f32" and operator is not None and operator.library):
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
            if name == "convert":
                return self._converted(values[0], kind)
            operator = OPERATORS.get(name)
            if operator is None or operator.fold is None or not (operator.integers or kind in FLOATS):
                raise TooLarge(f"{name} of constants")
            return self.constant(operator.fold(*values), kind)

    def _converted(self, value: np.generic, kind: str) -> int:
        if isinstance(value, np.floating) and kind not in FLOATS:
            raise TooLarge("a conversion of a float to an integer")
        return self.constant(value, kind)

    def _short(self, name: str, operands: Sequence[int]) -> int | None:
        """The index of a simpler op that equals the op `name` on these operands. None if no simplification applies."""
        x, *rest = operands
        if name == "negate":
            return self._negated(x)
        if name == "select":
            chosen = self.value(x)
            if chosen is not None:
                return rest[0] if chosen else rest[1]
            return rest[0] if rest[0] == rest[1] else None
        if name not in ("add", "subtract", "multiply", "divide") or self.all[x].kind not in FLOATS:
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
